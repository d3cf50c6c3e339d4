/* Reads what another program's file says of a run, in our keys. A reader turns the file into a tree
 * of base/yaml.h; one table a format says what each of its keys is to the cost of a step; what
 * several keys say together is its function's. Knows no format, and not what our keys mean. */
#pragma once

#include "base/yaml.h"

enum sc_foreign_rule {
	SC_KEY_TAKE,     /* its value is that of our key */
	SC_KEY_ONLY,     /* must have one of the words, or nothing: no key of ours says the rest */
	SC_KEY_READ,     /* the format's function reads it */
	SC_KEY_OPEN,     /* what the run does decides */
	SC_KEY_SOFTWARE, /* changes a step's cost; our profile of the software has it for all */
	SC_KEY_FREE,     /* changes nothing of a step's cost, or next to nothing */
	SC_KEY_UNKNOWN,
};
/* A value or form in the other program, and in ours; NULL: nothing. An empty one ends a list. */
struct sc_foreign_word {
	const char *theirs, *ours;
};
/* '-' and '_' are one; nested keys are joined by dots; '*' at an end stands for any text. The first
 * row that fits counts. Keys that are one of ours may not differ. An empty name ends the table. */
struct sc_foreign_key {
	const char *theirs;
	enum sc_foreign_rule rule;
	const char *ours; /* of TAKE: "parallel.tp" */
	const struct sc_foreign_word
		*words;    /* of ONLY, and of TAKE if its values differ from ours */
	const char *needs; /* of ONLY: what any other value asks for; or NULL */
};
/* A rule for what several keys say together. Rules are applied in order, once all keys are taken;
 * what a file has said stays. */
struct sc_foreign_says {
	/* One of three: the key of ours; why the file is refused; what is the software's. */
	const char *ours, *refuse, *software;
	const char *of;    /* names of theirs: the first that is there says it; or NULL */
	const char *value; /* in place of theirs; or NULL */
	/* Theirs, a count, times and over these, with spaces between; or NULL. Each is of names
	 * with '|' between, the first that is there: a number, a key of theirs or of ours,
	 * `replicas`, or `replica`: the ranks of one. */
	const char *times, *over;
	const char *absent; /* what holds where none of them is there, unless another file says
			       otherwise; or NULL */
	/* Conditions, with spaces between, that must all hold; or NULL. Each is of names with '|'
	 * between, one of which must do: NAME, of theirs or ours, is there and not off, or
	 * ours is given beside the files, NAME=FORM has such a value, or one of its list, NAME>N
	 * is more; !CONDITION does not hold.
	 * `arguments`: it is a command; `gpus`: their number is known. */
	const char *when;
	const struct sc_foreign_word *words; /* as of keys, with forms; or NULL */
};
/* A file of configs/foreign; its README.md says how they are written. Rows count before names, and
 * those in the order of their rules; names are apart by spaces. A name with a star takes no key
 * that names a part of memory or of the update (a dtype, a state, an optimizer, offload, main,
 * param, grad) that it does not name itself: what such a key says is seldom free. */
struct sc_foreign_table {
	const char *id;
	const struct sc_yaml *root; /* for what a format's function reads of its own */
	const struct sc_foreign_key *rows;
	const struct sc_foreign_says *rules;
	size_t n_rules;
	const char *names[SC_KEY_UNKNOWN]; /* of READ and on; or NULL */
	const char *launch; /* those of READ that only say how many GPUs there are; or NULL */
	const struct sc_foreign_table *next;
};

struct sc_foreign;
struct sc_foreign_format {
	const char *name; /* "options of Megatron-LM" */
	const char *mark; /* that its keys begin with, and the tables leave out: "--"; or NULL */
	const char *table, *more; /* ids; more may be NULL */
	/* Sections that tables may leave out: "model."; NULL: none. NULL ends the list. */
	const char *const *sections;
	/* Is any value of a key in no table an error? Else numbers and `true` are, and the rest
	 * costs nothing. */
	bool strict;
	const char *open; /* a value that is left to what starts the program: "auto"; or NULL */
	/* Before a key is taken: may refuse the whole; or NULL. */
	int (*begin)(struct sc_foreign *file, struct sc_err *err);
	int order; /* of finish among several files: models, then programs, then what runs them */
	int (*finish)(struct sc_foreign *file, struct sc_err *err);
};
/* A value of the file that is no mapping. */
struct sc_foreign_leaf {
	const char *path, *bare; /* "model.hidden_size"; without its section */
	const struct sc_yaml *node;
	struct sc_foreign_leaf *next;
	bool is_read; /* something asked for it, or a rule took it */
};
/* Why a key is not taken over. */
enum sc_foreign_ignored {
	SC_IGNORED_FREE,
	SC_IGNORED_SOFTWARE,
	SC_IGNORED_OPEN,
	SC_IGNORED_BESIDE, /* a rule would take it, but not beside the file's other keys */
	SC_IGNORED_UNKNOWN /* may change it; of lenient lines alone */
};
/* The fault of a key. */
struct sc_foreign_problem {
	struct sc_err err;
	struct sc_foreign_problem *next;
};
/* A line of a config of ours. */
struct sc_foreign_line {
	const char *path;           /* "parallel.tp" */
	const struct sc_yaml *node; /* the value, with its place in the file */
	const char *theirs;         /* the key there */
	const struct sc_foreign *of;
	enum sc_foreign_ignored why; /* of an ignored one */
	bool weak; /* what holds where the file says nothing: another may say otherwise */
	struct sc_foreign_line *next;
};
/* The lines of one or several files; begins zeroed, with its arena. */
struct sc_foreign_lines {
	struct sc_arena *arena;
	struct sc_foreign_line *first, *last;
	struct sc_foreign_line *ignored, *last_ignored; /* path NULL */
	bool lenient;                                   /* what is not understood is ignored */
	struct sc_foreign_problem *problems; /* of the keys of a file that could not be taken */
	int64_t gpus;                        /* that are given beside the files; 0 = none */
	const char *const *given;            /* "KEY=VALUE" of ours, beside the files */
	size_t n_given;
	struct sc_foreign *files;              /* taken */
	const struct sc_foreign_table *tables; /* loaded */
};
struct sc_foreign {
	const struct sc_foreign_format *format;
	struct sc_foreign_lines *lines;
	const struct sc_foreign_table *table, *more; /* more may be NULL */
	struct sc_foreign_leaf *leaves;
	const struct sc_yaml *map;
	struct sc_foreign *next;
};

/* Adds what each key of a file's tree says alone; `file` must live as long as the lines. Errors
 * name the key: what is not understood, or said otherwise in a file before; the first is returned,
 * all are in `problems`. */
int sc_foreign_take(struct sc_foreign *file, const struct sc_yaml *map, struct sc_err *err);

/* Adds what keys say together, once all files are taken: their order changes nothing. */
int sc_foreign_finish(struct sc_foreign_lines *lines, struct sc_err *err);

/* Is `key` like a form with '*' at an end for any text; '-' and '_' are one. */
bool sc_foreign_is_like(const char *key, const char *form);
bool sc_foreign_is_leaf(const struct sc_foreign_leaf *leaf, const char *form);

/* The table of that id, loaded once for the lines; what it says of a key, and its row, if any. */
int sc_foreign_table_get(struct sc_foreign_lines *lines, const char *id,
			 const struct sc_foreign_table **out, struct sc_err *err);
enum sc_foreign_rule sc_foreign_rule_of(const struct sc_foreign *file,
					const struct sc_foreign_leaf *leaf,
					const struct sc_foreign_key **row);

/* The next name of a list, behind which the list goes; false: there is none. */
enum {
	SC_FOREIGN_MAX_LAYERS = 512
}; /* of a list that becomes model.layers_pattern, which has no more */
enum { SC_FOREIGN_MAX_NAME = 128 };
bool sc_foreign_next(const char **list, const char *between, char name[SC_FOREIGN_MAX_NAME]);
bool sc_foreign_is_in(const char *names, const struct sc_foreign_leaf *leaf);

/* For a format's function. */
const struct sc_foreign_leaf *sc_foreign_get(const struct sc_foreign *file, const char *theirs);
/* A condition of a rule. */
bool sc_foreign_holds(const struct sc_foreign *file, const char *condition);

/* A whole number above 0, else `absent`. */
int64_t sc_foreign_count(const struct sc_foreign *file, const char *theirs, int64_t absent);
/* The same of a key of ours, of all files until now. */
int64_t sc_foreign_ours(const struct sc_foreign *file, const char *path, int64_t absent);
/* GPUs in all, 0 = not known; those of a replica (tp x pp x cp). At most 2^20. */
int64_t sc_foreign_gpus(const struct sc_foreign *file);
int64_t sc_foreign_replica(const struct sc_foreign *file);
const struct sc_yaml *sc_foreign_line_of(const struct sc_foreign_lines *lines, const char *path);
/* A line with the leaf's place, and its value if `text` is NULL. What a file has said already
 * stays; another file that says otherwise is an error. */
int sc_foreign_put(struct sc_foreign *file, const struct sc_foreign_leaf *leaf, const char *path,
		   const char *text, struct sc_err *err);
int sc_foreign_put_count(struct sc_foreign *file, const struct sc_foreign_leaf *leaf,
			 const char *path, int64_t value, struct sc_err *err);
/* The same for a key that is not there, with the place of the whole; NULL: the format tells it.
 * Another file may say otherwise. */
int sc_foreign_put_absent(struct sc_foreign *file, const char *theirs, const char *path,
			  const char *text, struct sc_err *err);
int sc_foreign_fail(const struct sc_foreign_leaf *leaf, struct sc_err *err, const char *why);
/* The lines as a mapping of mappings, ready to be decoded. */
struct sc_yaml *sc_foreign_tree(const struct sc_foreign_lines *lines, const char *file);

/* Hugging Face's config.json as a model: `model: config.json`, or a file of `config import`. */
extern const struct sc_foreign_format sc_format_hf;
/* Turns the mapping of a config.json into that of a model file, each value with its place in the
 * JSON. A field that changes what a step costs and has no key of ours is an error that names it; so
 * is a model_type that is not known, and a number or a `true` that is in no list. Positions that
 * are computed give no model.seq: the run says it. */
#define SC_HF_MARK "model_type" /* the key that tells a config.json from a model file */
int sc_hf_model_take(struct sc_yaml *map, struct sc_arena *arena, struct sc_err *err);

/* Megatron-LM's options, and the same as NeMo's and Megatron-Bridge's YAML has them. */
extern const struct sc_foreign_format sc_format_megatron, sc_format_nemo;

/* The formats of torchtitan's TOML and DeepSpeed's JSON. */
extern const struct sc_foreign_format sc_format_torchtitan, sc_format_deepspeed;

/* The options of a training command as a log, ps or `stepcast config import --shim` print it:
 * --name value, --name=value,
 * --flag, quotes, continued lines. Not a shell: what a script would fill in stays as it is written,
 * with its '$'. */
#define SC_SHELL_PROGRAM "program" /* the key of the *.py that is run, without its folder */
enum { SC_SHELL_MAX_BYTES = 1 << 20, SC_SHELL_MAX_WORDS = 1 << 14 };
/* A mapping of the one command, not echo, that has the option `wanted` ("--hidden-size"), with
 * names as keys, dashes and all; a flag is "true", several values a list; of an option given twice
 * the last counts, as in argparse. Each has its place in the text. Limits on the text and its words
 * give SC_ELIMIT. */
int sc_shell_args_parse(const struct sc_source *text, const char *wanted, struct sc_arena *arena,
			struct sc_yaml **out, struct sc_err *err);

/* Configs of other programs as one of ours: a file's format is found by its content. */
/* Adds what one file says; sc_foreign_finish follows the last. Formats: a script or command line of
 * Megatron-LM, YAML of NeMo or Megatron-Bridge, TOML of torchtitan, JSON of DeepSpeed, config.json
 * of Hugging Face, a list of tables of TorchRec. */
int sc_foreign_add(struct sc_foreign_lines *lines, const struct sc_source *text,
		   struct sc_err *err);
int sc_foreign_load(struct sc_foreign_lines *lines, const char *path, struct sc_err *err);
