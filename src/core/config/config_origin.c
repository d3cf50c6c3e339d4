/* The place where each value of a config was given, and errors that are told of that place. A later
 * layer (--set, a row of a table) hides an older one; a section that a file replaces hides what
 * stood in it. All else of this folder stands on this file. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/config/config_priv.h"

/* A section replaced by a file hides what older layers gave in it. */
static bool is_section_of(const char *given, const char *path)
{
	while (*given && *given == *path)
		given++, path++;
	return !*given && *path == '.';
}

const struct sc_origin *sc_config_origin(const struct sc_config *config, const char *path)
{
	for (const struct sc_origins *layer = config->origins; layer; layer = layer->older) {
		bool hidden = false;

		/* In a layer, too, what comes later holds: a value beside its section's file. */
		for (size_t i = layer->n; i-- > 0;) {
			const char *given = layer->at[i].path;

			if (*given && *given != *path)
				continue; /* most differ at once */
			if (strcmp(given, path) == 0)
				return layer->at[i].file ? &layer->at[i] : NULL;
			hidden = hidden || is_section_of(given, path);
		}
		if (hidden)
			return NULL;
	}
	return NULL;
}

bool sc_config_origin_in(const struct sc_config *config, const char *section)
{
	for (const struct sc_origins *layer = config->origins; layer; layer = layer->older)
		for (size_t i = 0; i < layer->n; i++)
			if (is_section_of(section, layer->at[i].path))
				return true;
	return false;
}

const struct sc_origin *sc_config_origin_near(const struct sc_config *config, const char *path)
{
	const struct sc_origin *origin = sc_config_origin(config, path);

	for (const struct sc_origins *layer = config->origins; layer && !origin;
	     layer = layer->older)
		for (size_t i = 0; i < layer->n && !origin; i++)
			if (layer->at[i].file && is_section_of(path, layer->at[i].path))
				origin = &layer->at[i];
	return origin ? origin : sc_config_origin(config, "");
}

int sc_resolve_fail(const struct sc_resolver *res, enum sc_errc code, const char *path,
		    const char *fmt, ...)
{
	const struct sc_origin *origin = sc_config_origin_near(&res->request->config, path);
	const char *file = origin ? origin->file : res->file ? res->file : "";
	char text[sizeof(((struct sc_err *)0)->text)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return sc_err_at(res->err, code, file, origin ? origin->line : 0,
			 origin ? origin->column : 0, "%s", text);
}

int sc_resolve_profile_error(const struct sc_resolver *res, const char *path,
			     const struct sc_err *own)
{
	if (own->file[0])
		return sc_err_at(res->err, own->code, SC_AT(own), "%s", own->text);
	return sc_resolve_fail(res, own->code, path, "%s: %s", path, own->text);
}
