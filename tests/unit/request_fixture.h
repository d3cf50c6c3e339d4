/* A request by its keys, as the command line would set them. */
#ifndef SC_TESTS_REQUEST_FIXTURE_H
#define SC_TESTS_REQUEST_FIXTURE_H

#include "core/config/config.h"
#include "runner.h"

/* "key=value key=value ..." over what `cfg` has. */
static inline void set_all(struct sc_config *cfg, const char *overrides, struct sc_arena *arena)
{
	char *text = sc_arena_strdup(arena, overrides); /* origins point into it */
	char *word, *save = NULL;
	struct sc_err err = {0};

	for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *value = strchr(word, '=');

		*value++ = '\0';
		ck_assert_msg(sc_config_set(cfg, &(struct sc_setting){word, value, "test"}, arena,
					    &err) == 0,
			      "%s", err.text);
	}
}

#endif
