/* A small reader of XML: one element after the other, with its attributes. Nothing is copied: names
 * and values point into the text, and do not end in a NUL. */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"

enum { SC_XML_MAX_ATTRIBUTES = 64, SC_XML_MAX_NAME = 128 };
struct sc_xml_attribute {
	const char *name, *value;
	size_t n_name, n_value;
	const char *at; /* for messages */
};
/* Begin with source, err, and at and end around the source's text. */
struct sc_xml {
	const struct sc_source *source;
	struct sc_err *err;
	const char *at, *end;
	/* The element that was read last. */
	const char *tag, *name;
	size_t n_name;
	bool closes, is_empty; /* </name>, <name/> */
	struct sc_xml_attribute attributes[SC_XML_MAX_ATTRIBUTES];
	size_t n_attributes;
};
struct sc_xml_range {
	const char *name;
	int low, high;
	bool may_miss; /* then it is `low` */
};
/* The next element; r->name is NULL at the end of the file. */
int sc_xml_next(struct sc_xml *r);
static inline bool sc_xml_is(const struct sc_xml *r, const char *name)
{
	return r->name && r->n_name == strlen(name) && memcmp(r->name, name, r->n_name) == 0;
}
/* NULL: not given. */
const struct sc_xml_attribute *sc_xml_get(const struct sc_xml *r, const char *name);
int sc_xml_int(const struct sc_xml *r, struct sc_xml_range range, int *out);
/* An error at a place of the text: r->tag, r->end, an attribute's. */
int sc_xml_fail(const struct sc_xml *r, const char *at, const char *text);
