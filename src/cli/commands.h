/* The commands: one list gives dispatch, help, man pages and completion. */
#pragma once

#include "lib/options.h"

#define SC_VERSION_LINE "stepcast " SC_VERSION "\n"

extern const struct sc_command *const sc_commands[]; /* NULL-ended */

extern const struct sc_command sc_command_predict, sc_command_sweep, sc_command_search,
	sc_command_scale, sc_command_compare, sc_command_validate, sc_command_shard, sc_command_c3,
	sc_command_op, sc_command_collective, sc_command_fit, sc_command_calibrate,
	sc_command_record, sc_command_import, sc_command_export, sc_command_info, sc_command_replay,
	sc_command_config, sc_command_devices, sc_command_models, sc_command_clusters,
	sc_command_software, sc_command_examples, sc_command_schedule, sc_command_page,
	sc_command_help;

/* The script of a shell (bash, zsh, fish), which asks for what sc_complete says; false: none is
 * written for it. */
bool sc_completion_script(const char *shell, struct sc_strbuf *out);
/* A line for each word that may stand in place of the last of `words`, which begin with the name of
 * `command` (NULL: there is none), and its help after a tab; none: a file. */
void sc_complete(const struct sc_command *command, int n_words, char *const *words,
		 struct sc_strbuf *out);

/* The whole program, without the check of stdout at the end. */
int sc_cli_run(int argc, char **argv);
