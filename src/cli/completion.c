/* Completion for shells. The scripts that they load ask the program itself what may follow the
 * words of a line (stepcast --complete WORD...), so there is one list for all. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "core/config/config.h"
#include "core/profile/paths.h"

enum { MAX_PATH = 200 };

/* The script of each shell, by name. Candidates come as word, tab, help; a key ends with "=". */
static const char *const SCRIPTS[][2] = {
	{"bash",
	 "_stepcast()\n"
	 "{\n"
	 "\tlocal word=${COMP_WORDS[COMP_CWORD]}\n"
	 "\tmapfile -t COMPREPLY < <(stepcast --complete "
	 "\"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null | cut -f 1)\n"
	 "\t[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null\n"
	 "\t[ ${#COMPREPLY[@]} -ne 0 ] || mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
	 "}\n"
	 "complete -o filenames -F _stepcast stepcast\n"},
	{"zsh",
	 "_stepcast() {\n"
	 "\tlocal -a found after\n"
	 "\tfound=(${(f)\"$(stepcast --complete \"${(@)words[2,CURRENT]}\" 2>/dev/null)\"})\n"
	 "\t(( $#found )) || { _files; return }\n"
	 "\t[[ ${found[1]%%$'\\t'*} != *= ]] || after=(-S '')\n"
	 "\tfound=(\"${(@)${(@)found//:/\\\\:}/$'\\t'/:}\")\n"
	 "\t_describe stepcast found $after\n"
	 "}\n"
	 "if [ \"$funcstack[1]\" = _stepcast ]; then\n\t_stepcast \"$@\"\n"
	 "else\n\tcompdef _stepcast stepcast\nfi\n"},
	{"fish", "function __stepcast\n"
		 "\tstepcast --complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null\n"
		 "end\n"
		 "complete -c stepcast -f -a '(__stepcast)'\n"
		 "complete -c stepcast -n 'not count (__stepcast) >/dev/null' -F\n"},
};

bool sc_completion_script(const char *shell, struct sc_strbuf *out)
{
	for (size_t i = 0; i < sizeof(SCRIPTS) / sizeof(SCRIPTS[0]); i++) {
		if (strcmp(SCRIPTS[i][0], shell) != 0)
			continue;
		sc_strbuf_printf(
			out, "%s# %s completion of stepcast, made by: stepcast --completion %s\n%s",
			strcmp(shell, "zsh") == 0 ? "#compdef stepcast\n" : "", shell, shell,
			SCRIPTS[i][1]);
		return true;
	}
	return false;
}

struct line {
	const char *begun; /* the word that is completed */
	struct sc_strbuf *out;
};

static void offer_word(const struct line *line, const char *word, const char *help)
{
	if (strncmp(word, line->begun, strlen(line->begun)) == 0)
		sc_strbuf_printf(line->out, "%s\t%s\n", word, help ? help : "");
}

static void offer_commands(const struct line *line)
{
	for (size_t i = 0; sc_commands[i]; i++)
		offer_word(line, sc_commands[i]->name, sc_commands[i]->summary);
}

static void offer_keys(const struct line *line, const struct sc_field *table, const char *prefix)
{
	char path[MAX_PATH];

	for (const struct sc_field *field = table; field->key; field++) {
		snprintf(path, sizeof(path), "%s%s%s", prefix, field->key,
			 field->type == SC_F_STRUCT ? "." : "=");
		if (field->type == SC_F_STRUCT)
			offer_keys(line, field->sub, path);
		else if (field->type != SC_F_STRUCTS)
			offer_word(line, path, field->help);
	}
}

static void offer_values(const struct line *line, const struct sc_cli_option *o)
{
	const char *const *ids;
	struct sc_arena arena;
	size_t n;

	if (strncmp(o->arg, "PATH", 4) == 0)
		offer_keys(line, sc_config_fields, "");
	for (size_t i = 0; o->choices && o->choices[i]; i++)
		offer_word(line, o->choices[i], NULL);
	if (strcmp(o->name, "device") != 0)
		return;
	sc_arena_init(&arena, 0);
	n = sc_config_ids("devices", &arena, &ids);
	for (size_t i = 0; i < n; i++)
		if (strncmp(ids[i], "arch-", 5) != 0)
			offer_word(line, ids[i], NULL);
	sc_arena_release(&arena);
}

/* The names of a table's options; true: `before` is one of them and has a value, and what it may be
 * was offered. */
static bool offer_options(const struct line *line, const struct sc_cli_option *options,
			  const char *before)
{
	char name[MAX_PATH];

	for (const struct sc_cli_option *o = options; o && o->name; o++) {
		snprintf(name, sizeof(name), "-%c", o->letter);
		if (o->arg &&
		    ((strncmp(before, "--", 2) == 0 && strcmp(before + 2, o->name) == 0) ||
		     (o->letter && strcmp(before, name) == 0))) {
			offer_values(line, o);
			return true;
		}
	}
	for (const struct sc_cli_option *o = options; o && o->name && *line->begun == '-'; o++) {
		snprintf(name, sizeof(name), "--%s", o->name);
		offer_word(line, name, o->help);
		snprintf(name, sizeof(name), "--no-%s", o->name);
		if (o->kind == SC_ARG_SWITCH)
			offer_word(line, name, o->help);
	}
	return false;
}

void sc_complete(const struct sc_command *command, int n_words, char *const *words,
		 struct sc_strbuf *out)
{
	const struct line line = {n_words > 0 ? words[n_words - 1] : "", out};
	char word[MAX_PATH];

	if (n_words < 2) {
		offer_commands(&line);
		for (const char *const *o =
			     (const char *const[]){"--help", "--version", "--completion", NULL};
		     *o; o++)
			offer_word(&line, *o, NULL);
		return;
	}
	if (!command || offer_options(&line, command->options, words[n_words - 2]) ||
	    offer_options(&line, sc_common_options, words[n_words - 2]))
		return;
	if (strcmp(command->words, "command") == 0)
		offer_commands(&line);
	else if (strcmp(command->words, "file") != 0)
		for (const char *at = command->words; *at;
		     at += strcspn(at, " "), at += *at == ' ') {
			snprintf(word, sizeof(word), "%.*s", (int)strcspn(at, " "), at);
			offer_word(&line, word, NULL);
		}
}
