/* Elements, attributes and comments; all else that XML has is refused, so no entity can grow. */
#include "base/xml.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"

int sc_xml_fail(const struct sc_xml *r, const char *at, const char *text)
{
	unsigned line = 1, column = 1;

	for (const char *p = r->source->text; p < at; p++) {
		column = *p == '\n' ? 1 : column + 1;
		line += *p == '\n';
	}
	return sc_err_at(r->err, SC_EFORMAT, r->source->file, line, column, "%s", text);
}

static int xml_fail(const struct sc_xml *r, const char *text)
{
	return sc_xml_fail(r, r->at < r->end ? r->at : r->end, text);
}

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.' || c == ':';
}

static void skip_space(struct sc_xml *r)
{
	while (r->at < r->end && isspace((unsigned char)*r->at))
		r->at++;
}

static const char *xml_find(const struct sc_xml *r, const char *what)
{
	size_t n = strlen(what);

	for (const char *p = r->at; p + n <= r->end; p++)
		if (memcmp(p, what, n) == 0)
			return p;
	return NULL;
}

/* Comments and the declaration; *is_tag: an element begins at r->at. */
static int skip_rest(struct sc_xml *r, bool *is_tag)
{
	for (*is_tag = false; skip_space(r), r->at < r->end;) {
		bool comment = r->end - r->at >= 4 && memcmp(r->at, "<!--", 4) == 0;
		bool declaration = r->end - r->at >= 2 && memcmp(r->at, "<?", 2) == 0;
		const char *close;

		if (*r->at != '<')
			return xml_fail(r, "expected an element, found text");
		if (!comment && r->end - r->at >= 2 && r->at[1] == '!')
			return xml_fail(r, "document types, entities and CDATA are not read");
		if (!comment && !declaration) {
			*is_tag = true;
			return 0;
		}
		close = xml_find(r, comment ? "-->" : "?>");
		if (!close)
			return xml_fail(r, "this comment has no end");
		r->at = close + (comment ? 3 : 2);
	}
	return 0;
}

static int read_attribute(struct sc_xml *r)
{
	struct sc_xml_attribute *a = &r->attributes[r->n_attributes];
	char quote;

	if (r->n_attributes == SC_XML_MAX_ATTRIBUTES)
		return xml_fail(r, "too many attributes");
	a->at = a->name = r->at;
	while (r->at < r->end && is_name(*r->at))
		r->at++;
	a->n_name = (size_t)(r->at - a->name);
	skip_space(r);
	if (a->n_name == 0 || r->at == r->end || *r->at != '=')
		return xml_fail(r, "expected NAME=\"VALUE\"");
	r->at++;
	skip_space(r);
	quote = r->at < r->end ? *r->at : 0;
	if (quote != '"' && quote != '\'')
		return xml_fail(r, "an attribute's value stands in quotes");
	a->value = ++r->at;
	while (r->at < r->end && *r->at != quote && *r->at != '<' && *r->at != '&')
		r->at++;
	if (r->at == r->end || *r->at != quote)
		return xml_fail(r, "this value has no end, or holds < or &");
	a->n_value = (size_t)(r->at++ - a->value);
	for (size_t i = 0; i < r->n_attributes; i++)
		if (r->attributes[i].n_name == a->n_name &&
		    memcmp(r->attributes[i].name, a->name, a->n_name) == 0)
			return sc_xml_fail(r, a->at, "this attribute is given twice");
	r->n_attributes++;
	return 0;
}

int sc_xml_next(struct sc_xml *r)
{
	bool is_tag;
	int rc = skip_rest(r, &is_tag);

	r->name = NULL;
	r->n_attributes = 0;
	if (rc || !is_tag)
		return rc;
	r->tag = r->at++;
	r->closes = r->at < r->end && *r->at == '/';
	r->at += r->closes;
	r->name = r->at;
	while (r->at < r->end && is_name(*r->at))
		r->at++;
	r->n_name = (size_t)(r->at - r->name);
	if (r->n_name == 0 || r->n_name > SC_XML_MAX_NAME)
		return xml_fail(r, "expected the name of an element");
	for (;;) {
		skip_space(r);
		if (r->at == r->end)
			return sc_xml_fail(r, r->tag, "this element has no end");
		if (*r->at == '>' || *r->at == '/')
			break;
		rc = r->closes ? xml_fail(r, "an end has no attributes") : read_attribute(r);
		if (rc)
			return rc;
	}
	r->is_empty = *r->at == '/';
	r->at += r->is_empty;
	if (r->at == r->end || *r->at != '>' || (r->is_empty && r->closes))
		return xml_fail(r, "expected >");
	r->at++;
	return 0;
}

const struct sc_xml_attribute *sc_xml_get(const struct sc_xml *r, const char *name)
{
	for (size_t i = 0; i < r->n_attributes; i++)
		if (r->attributes[i].n_name == strlen(name) &&
		    memcmp(r->attributes[i].name, name, strlen(name)) == 0)
			return &r->attributes[i];
	return NULL;
}

int sc_xml_int(const struct sc_xml *r, struct sc_xml_range range, int *out)
{
	const struct sc_xml_attribute *a = sc_xml_get(r, range.name);
	char text[32], what[160];
	int64_t value;

	*out = range.low;
	if (!a && range.may_miss)
		return 0;
	if (a && a->n_value < sizeof(text)) {
		memcpy(text, a->value, a->n_value);
		text[a->n_value] = '\0';
		if (sc_parse_int(text, &value) && value >= range.low && value <= range.high) {
			*out = (int)value;
			return 0;
		}
	}
	snprintf(what, sizeof(what), "%s: expected a whole number from %d to %d", range.name,
		 range.low, range.high);
	return sc_xml_fail(r, a ? a->at : r->tag, what);
}
