/* Completion scripts for bash, zsh and fish from the option tables. Keys and GPUs are asked of the program itself. */
#include <stdio.h>
#include <string.h>

#include "lib/options.h"

static const char KEYS[] = "stepcast help keys 2>/dev/null | awk '/^  [a-z]/ { print $1 \"=\" }'";
static const char DEVICES[] = "stepcast devices 2>/dev/null | awk 'NR > 1 { print $1 }'";

const char *const sc_completion_shells[] = {"bash", "zsh", "fish", NULL};

/* The command that lists the values of an option, or NULL: they are its choices, or files, or anything. */
static const char *values_of(const struct sc_cli_option *o)
{
	if (o->arg && strncmp(o->arg, "PATH", 4) == 0)
		return KEYS;
	return strcmp(o->name, "device") == 0 ? DEVICES : NULL;
}

static void append_choices(struct sc_strbuf *out, const struct sc_cli_option *o)
{
	for (size_t i = 0; o->choices[i]; i++)
		sc_strbuf_printf(out, "%s%s", i ? " " : "", o->choices[i]);
}

static void append_commands(struct sc_strbuf *out, const struct sc_command *const *commands)
{
	for (size_t i = 0; commands[i]; i++)
		sc_strbuf_printf(out, "%s%s", i ? " " : "", commands[i]->name);
}

/* The words of a command that are no files. */
static void append_words(struct sc_strbuf *out, const struct sc_command *const *commands,
			 const struct sc_command *command)
{
	if (strcmp(command->words, "command") == 0)
		append_commands(out, commands);
	else if (strcmp(command->words, "file") != 0)
		sc_strbuf_append(out, command->words);
}

/* ---- bash ---- */

static void append_names(struct sc_strbuf *out, const struct sc_cli_option *options)
{
	for (const struct sc_cli_option *o = options; o && o->name; o++) {
		sc_strbuf_printf(out, " --%s", o->name);
		if (o->kind == SC_ARG_SWITCH)
			sc_strbuf_printf(out, " --no-%s", o->name);
		if (o->letter)
			sc_strbuf_printf(out, " -%c", o->letter);
	}
}

/* One case for each option whose values are known: "predict:--detail) words="coarse full" ;;" */
static void append_bash_values(struct sc_strbuf *out, const struct sc_command *command)
{
	for (const struct sc_cli_option *o = command->options; o && o->name; o++) {
		const char *list = values_of(o);

		if (o->kind != SC_ARG_CHOICE && !list)
			continue;
		sc_strbuf_printf(out, "\t%s:--%s) words=\"", command->name, o->name);
		if (list)
			sc_strbuf_printf(out, "$(%s)", list);
		else
			append_choices(out, o);
		sc_strbuf_printf(out, "\"; values=yes%s ;;\n",
				 list == KEYS ? "; compopt -o nospace 2>/dev/null" : "");
	}
}

static void append_bash(struct sc_strbuf *out, const struct sc_command *const *commands)
{
	sc_strbuf_append(
		out, "_stepcast()\n{\n"
		     "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
		     "\tlocal command=${COMP_WORDS[1]} words='' options='' values=''\n"
		     "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n\t\twords=\"");
	append_commands(out, commands);
	sc_strbuf_append(out, " --help --version --completion\"\n"
			      "\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
			      "\t\treturn\n\tfi\n\tcase $command in\n");
	for (size_t i = 0; commands[i]; i++) {
		sc_strbuf_printf(out, "\t%s) words=\"", commands[i]->name);
		append_words(out, commands, commands[i]);
		sc_strbuf_append(out, "\" options=\"");
		append_names(out, commands[i]->options);
		append_names(out, sc_common_options);
		sc_strbuf_append(out, "\" ;;\n");
	}
	sc_strbuf_append(out, "\tesac\n\tcase $command:$before in\n");
	for (size_t i = 0; commands[i]; i++)
		append_bash_values(out, commands[i]);
	sc_strbuf_append(out, "\tesac\n"
			      "\tif [ \"${word:0:1}\" = - ] && [ -z \"$values\" ]; then\n"
			      "\t\twords=$options\n\tfi\n"
			      "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
			      "\tif [ ${#COMPREPLY[@]} -eq 0 ] && [ -z \"$values\" ]; then\n"
			      "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n\tfi\n}\n"
			      "complete -o filenames -F _stepcast stepcast\n");
}

/* ---- zsh, fish ---- */

/* Within single quotes; `special` characters have a meaning and get a backslash. */
static void append_help(struct sc_strbuf *out, const char *help, const char *special)
{
	for (; *help; help++) {
		if (*help == '\'')
			sc_strbuf_append(out, "'\\''");
		else if (strchr(special, *help))
			sc_strbuf_printf(out, "\\%c", *help);
		else
			sc_strbuf_append_char(out, *help);
	}
}

static const char ZSH_SPECIAL[] = "[]:\\";

static void append_zsh_option(struct sc_strbuf *out, const struct sc_cli_option *o)
{
	const char *list = values_of(o);

	sc_strbuf_printf(out, " \\\n\t\t'%s--%s[", o->kind == SC_ARG_LIST ? "*" : "", o->name);
	append_help(out, o->help, ZSH_SPECIAL);
	sc_strbuf_append(out, "]");
	if (o->arg) {
		sc_strbuf_append_char(out, ':');
		append_help(out, o->arg, ZSH_SPECIAL);
		sc_strbuf_append_char(out, ':');
	}
	if (o->kind == SC_ARG_CHOICE) {
		sc_strbuf_append_char(out, '(');
		append_choices(out, o);
		sc_strbuf_append_char(out, ')');
	} else if (list) {
		sc_strbuf_append(out, list == KEYS ? "_stepcast_keys" : "_stepcast_devices");
	} else if (o->file) {
		sc_strbuf_append(out, "_files");
	}
	sc_strbuf_append_char(out, '\'');
}

static void append_zsh(struct sc_strbuf *out, const struct sc_command *const *commands)
{
	sc_strbuf_printf(out, "_stepcast_keys() { compadd -S '' -- ${(f)\"$(%s)\"} }\n", KEYS);
	sc_strbuf_printf(out, "_stepcast_devices() { compadd -- ${(f)\"$(%s)\"} }\n", DEVICES);
	sc_strbuf_append(out, "_stepcast() {\n\tlocal -a commands=(");
	for (size_t i = 0; commands[i]; i++) {
		sc_strbuf_printf(out, "\n\t\t'%s:", commands[i]->name);
		append_help(out, commands[i]->summary, ZSH_SPECIAL);
		sc_strbuf_append_char(out, '\'');
	}
	sc_strbuf_append(out, ")\n\tif (( CURRENT == 2 )); then\n"
			      "\t\t_describe command commands\n\t\treturn\n\tfi\n"
			      "\tlocal command=$words[2]\n\tshift words\n\t(( CURRENT-- ))\n"
			      "\tcase $command in\n");
	for (size_t i = 0; commands[i]; i++) {
		sc_strbuf_printf(out, "\t%s) _arguments", commands[i]->name);
		for (const struct sc_cli_option *o = commands[i]->options; o && o->name; o++)
			append_zsh_option(out, o);
		for (const struct sc_cli_option *o = sc_common_options; o->name; o++)
			append_zsh_option(out, o);
		sc_strbuf_append(out, " \\\n\t\t'*:word:{ compadd -- ");
		append_words(out, commands, commands[i]);
		sc_strbuf_append(out, "; _files }' ;;\n");
	}
	sc_strbuf_append(out, "\tesac\n}\n"
			      "if [ \"$funcstack[1]\" = _stepcast ]; then\n\t_stepcast \"$@\"\n"
			      "else\n\tcompdef _stepcast stepcast\nfi\n");
}

static void append_fish_option(struct sc_strbuf *out, const char *command,
			       const struct sc_cli_option *o)
{
	const char *list = values_of(o);

	sc_strbuf_printf(out, "complete -c stepcast -n '__fish_seen_subcommand_from %s' -l %s",
			 command, o->name);
	if (o->letter)
		sc_strbuf_printf(out, " -s %c", o->letter);
	if (o->arg)
		sc_strbuf_append(out, o->file || strcmp(o->arg, "FILE") == 0 ? " -r" : " -x");
	sc_strbuf_append(out, " -d '");
	append_help(out, o->help, "\\");
	sc_strbuf_append_char(out, '\'');
	if (o->kind == SC_ARG_CHOICE) {
		sc_strbuf_append(out, " -a '");
		append_choices(out, o);
		sc_strbuf_append_char(out, '\'');
	} else if (list) {
		sc_strbuf_printf(out, " -a '(%s)'",
				 list == KEYS ? "__stepcast_keys" : "__stepcast_devices");
	}
	sc_strbuf_append_char(out, '\n');
}

static void append_fish(struct sc_strbuf *out, const struct sc_command *const *commands)
{
	sc_strbuf_printf(out, "function __stepcast_keys\n\t%s\nend\n", KEYS);
	sc_strbuf_printf(out, "function __stepcast_devices\n\t%s\nend\n", DEVICES);
	for (size_t i = 0; commands[i]; i++) {
		const char *name = commands[i]->name;

		sc_strbuf_printf(out, "complete -c stepcast -f -n __fish_use_subcommand -a %s -d '",
				 name);
		append_help(out, commands[i]->summary, "\\");
		sc_strbuf_append(out, "'\n");
		if (strcmp(commands[i]->words, "file") != 0) {
			sc_strbuf_printf(
				out,
				"complete -c stepcast -n '__fish_seen_subcommand_from %s' -a '",
				name);
			append_words(out, commands, commands[i]);
			sc_strbuf_append(out, "'\n");
		}
		for (const struct sc_cli_option *o = commands[i]->options; o && o->name; o++)
			append_fish_option(out, name, o);
		for (const struct sc_cli_option *o = sc_common_options; o->name; o++)
			append_fish_option(out, name, o);
	}
}

bool sc_options_completion(const char *shell, const struct sc_command *const *commands,
			   struct sc_strbuf *out)
{
	static void (*const APPEND[])(struct sc_strbuf *, const struct sc_command *const *) = {
		append_bash, append_zsh, append_fish};

	for (size_t i = 0; sc_completion_shells[i]; i++) {
		if (strcmp(sc_completion_shells[i], shell) != 0)
			continue;
		sc_strbuf_printf(
			out, "%s# %s completion of stepcast, made by: stepcast --completion %s\n",
			strcmp(shell, "zsh") == 0 ? "#compdef stepcast\n" : "", shell, shell);
		APPEND[i](out, commands);
		return true;
	}
	return false;
}
