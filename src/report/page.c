/* The page: its head with style and script, then pieces in order. */
#include "report/page.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "report/config_show.h"

static const char STYLE[] =
	":root { color-scheme: light dark; --text: #222; --back: #fff; --line: #d8d8d8;"
	" --soft: #f4f4f2; --good: #2e8b3d; --fair: #b07a00; --bad: #c62f21; }\n"
	"@media (prefers-color-scheme: dark) { :root { --text: #ddd; --back: #17181a;"
	" --line: #3c3e42; --soft: #222427; --good: #5cc46c; --fair: #e0ac3a; --bad: #ff7363; } }\n"
	"body { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto;"
	" padding: 0 1rem; color: var(--text); background: var(--back); }\n"
	"h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h1 small { font-weight: normal; }"
	" h2 { font-size: 1.1rem; margin-top: 2rem; }\n"
	"table { border-collapse: collapse; display: block; overflow-x: auto; }"
	" td, th { padding: .15rem .8rem; border-bottom: 1px solid var(--line); text-align: left; }"
	" th { cursor: pointer; } td:last-child:not(.n) { min-width: 14rem; }\n"
	"td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }\n"
	"svg { width: 100%; height: auto; } svg text { fill: var(--text); }"
	" svg .axis { stroke: var(--line); fill: none; } svg .equal { stroke: var(--text);"
	" stroke-dasharray: 4 3; }\n"
	".big { font-size: 1.8rem; margin: .5rem 0; } .big small { font-size: 1rem; }\n"
	".verdict { padding: .5rem .8rem; background: var(--soft); border-left: .4rem solid; }"
	" .good { border-color: var(--good); } .fair { border-color: var(--fair); }"
	" .bad { border-color: var(--bad); }\n"
	".key { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; }"
	" .keys span { margin-right: 1.2rem; white-space: nowrap; }\n"
	".zoom2:checked ~ div svg { width: 200%; } .zoom4:checked ~ div svg { width: 400%; }"
	" .zoom8:checked ~ div svg { width: 800%; } .zoom16:checked ~ div svg { width: 1600%; }"
	" .zoom32:checked ~ div svg { width: 3200%; }\n"
	"pre { background: var(--soft); padding: .6rem; overflow-x: auto; }"
	" footer { margin-top: 2rem; font-size: .85rem; }\n"
	"@media print { body { max-width: none; margin: 0; } h2 { break-after: avoid; }"
	" table { display: table; } tr, svg { break-inside: avoid; } }\n";

/* A click on a head sorts by its column: as numbers where both are, a second click the other way. */
static const char SCRIPT[] =
	"document.querySelectorAll('th').forEach(function (head) {\n"
	"head.addEventListener('click', function () {\n"
	"var body = head.closest('table').tBodies[0], at = head.cellIndex;\n"
	"var way = head.dataset.way === '1' ? -1 : 1, rows = Array.from(body.rows);\n"
	"head.dataset.way = way;\n"
	"rows.sort(function (a, b) {\n"
	"var x = a.cells[at].textContent, y = b.cells[at].textContent, d = x - y;\n"
	"if (!x || !y) return !x - !y;\n" /* empty cells last */
	"return way * (isNaN(d) ? x.localeCompare(y) : d); });\n"
	"rows.forEach(function (row) { body.appendChild(row); }); }); });\n";

void sc_page_escape(struct sc_strbuf *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			sc_strbuf_append(out, "&lt;");
			break;
		case '>':
			sc_strbuf_append(out, "&gt;");
			break;
		case '&':
			sc_strbuf_append(out, "&amp;");
			break;
		case '"':
			sc_strbuf_append(out, "&quot;");
			break;
		default:
			sc_strbuf_append_char(out, *text);
		}
	}
}

__attribute__((format(printf, 2, 0))) static void append(struct sc_page *page, const char *fmt,
							 va_list args)
{
	struct sc_strbuf text = {0};

	sc_strbuf_vprintf(&text, fmt, args);
	sc_page_escape(page->out, sc_strbuf_get(&text));
	sc_strbuf_release(&text);
}

void sc_page_begin(struct sc_page *page, const char *command, const char *title,
		   struct sc_strbuf *out)
{
	*page = (struct sc_page){.out = out};
	sc_strbuf_append(out,
			 "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
			 "<meta name=\"viewport\" content=\"width=device-width\">\n"
			 "<title>stepcast ");
	sc_strbuf_printf(out, "%s: ", command);
	sc_page_escape(out, title);
	sc_strbuf_printf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", STYLE);
	sc_page_escape(out, title);
	sc_strbuf_printf(out, " <small>stepcast %s</small></h1>\n", command);
}

void sc_page_end(struct sc_page *page)
{
	assert(!page->columns);
	sc_strbuf_printf(page->out,
			 "<footer>Written by stepcast %s.</footer>\n<script>\n%s</script>\n"
			 "</body>\n</html>\n",
			 SC_VERSION, SCRIPT);
}

void sc_page_heading(struct sc_page *page, const char *text)
{
	sc_strbuf_append(page->out, "<h2>");
	sc_page_escape(page->out, text);
	sc_strbuf_append(page->out, "</h2>\n");
}

void sc_page_text(struct sc_page *page, const char *fmt, ...)
{
	va_list args;

	sc_strbuf_append(page->out, "<p>");
	va_start(args, fmt);
	append(page, fmt, args);
	va_end(args);
	sc_strbuf_append(page->out, "</p>\n");
}

void sc_page_figure(struct sc_page *page, const char *figure, const char *fmt, ...)
{
	va_list args;

	sc_strbuf_append(page->out, "<p class=\"big\">");
	sc_page_escape(page->out, figure);
	sc_strbuf_append(page->out, " <small>");
	va_start(args, fmt);
	append(page, fmt, args);
	va_end(args);
	sc_strbuf_append(page->out, "</small></p>\n");
}

void sc_page_verdict(struct sc_page *page, enum sc_verdict verdict, const char *fmt, ...)
{
	static const char *const CLASSES[] = {"good", "fair", "bad"};
	va_list args;

	sc_strbuf_printf(page->out, "<p class=\"verdict %s\">", CLASSES[verdict]);
	va_start(args, fmt);
	append(page, fmt, args);
	va_end(args);
	sc_strbuf_append(page->out, "</p>\n");
}

void sc_page_table(struct sc_page *page, const char *heads)
{
	struct sc_strbuf head = {0};

	assert(!page->columns);
	page->columns = heads;
	page->column = 0;
	sc_strbuf_append(page->out, "<table>\n<thead><tr>");
	while (*heads) {
		size_t n = strcspn(heads, "|");
		bool is_number = n && heads[n - 1] == '#';

		sc_strbuf_append(page->out, is_number ? "<th class=\"n\">" : "<th>");
		sc_strbuf_clear(&head);
		sc_strbuf_append_n(&head, heads, n - is_number);
		sc_page_escape(page->out, sc_strbuf_get(&head));
		sc_strbuf_append(page->out, "</th>");
		heads += n + (heads[n] == '|');
	}
	sc_strbuf_append(page->out, "</tr></thead>\n<tbody>\n");
	sc_strbuf_release(&head);
}

/* What has a meaning in the list is replaced by what looks like it. */
void sc_page_head(struct sc_strbuf *heads, const char *text, bool is_number)
{
	if (heads->n)
		sc_strbuf_append_char(heads, '|');
	for (; *text; text++) {
		if (*text == '|')
			sc_strbuf_append(heads, "\u00a6");
		else if (*text == '#' && (!text[1] || text[1] == '|'))
			sc_strbuf_append(heads, "\uff03");
		else
			sc_strbuf_append_char(heads, *text);
	}
	if (is_number)
		sc_strbuf_append_char(heads, '#');
}

/* The next cell's head, whether it is a number's, and whether it is the last of its row. */
static void begin_cell(struct sc_page *page, bool *is_last)
{
	const char *head = page->columns;
	size_t n;

	assert(head);
	for (unsigned i = 0; i < page->column; i++)
		head = strchr(head, '|') + 1;
	n = strcspn(head, "|");
	*is_last = head[n] == '\0';
	if (page->column == 0)
		sc_strbuf_append(page->out, "<tr>");
	sc_strbuf_append(page->out, n && head[n - 1] == '#' ? "<td class=\"n\">" : "<td>");
}

static void end_cell(struct sc_page *page, bool is_last)
{
	sc_strbuf_append(page->out, is_last ? "</td></tr>\n" : "</td>");
	page->column = is_last ? 0 : page->column + 1;
}

void sc_page_cell(struct sc_page *page, const char *fmt, ...)
{
	va_list args;
	bool is_last;

	begin_cell(page, &is_last);
	va_start(args, fmt);
	append(page, fmt, args);
	va_end(args);
	end_cell(page, is_last);
}

void sc_page_number(struct sc_page *page, int digits, double value)
{
	if (isfinite(value))
		sc_page_cell(page, "%.*f", digits, value);
	else
		sc_page_cell(page, "%s", "");
}

void sc_page_key(struct sc_page *page, const char *color, const char *text)
{
	bool is_last;

	begin_cell(page, &is_last);
	sc_strbuf_printf(page->out, "<span class=\"key\" style=\"background:%s\"></span>", color);
	sc_page_escape(page->out, text);
	end_cell(page, is_last);
}

void sc_page_table_end(struct sc_page *page)
{
	assert(page->columns && page->column == 0);
	page->columns = NULL;
	sc_strbuf_append(page->out, "</tbody>\n</table>\n");
}

void sc_page_warnings(struct sc_page *page, const struct sc_warnings *warnings)
{
	if (!warnings->n)
		return;
	sc_page_heading(page, "Warnings");
	sc_strbuf_append(page->out, "<ul>\n");
	for (size_t i = 0; i < warnings->n; i++) {
		sc_strbuf_append(page->out, "<li>");
		sc_page_escape(page->out, warnings->text[i]);
		sc_strbuf_append(page->out, "</li>\n");
	}
	sc_strbuf_append(page->out, "</ul>\n");
}

void sc_page_folded(struct sc_page *page, const char *summary, const char *text)
{
	sc_strbuf_append(page->out, "<details>\n<summary>");
	sc_page_escape(page->out, summary);
	sc_strbuf_append(page->out, "</summary>\n<pre>");
	sc_page_escape(page->out, text);
	sc_strbuf_append(page->out, "</pre>\n</details>\n");
}

void sc_page_config(struct sc_page *page, const struct sc_request *request)
{
	struct sc_strbuf text = {0};
	char hash[SC_CONFIG_HASH_BYTES];

	sc_config_show(request, &text);
	sc_page_heading(page, "Config");
	sc_page_text(page, "With every default, and where each value came from; hash %s.",
		     sc_config_hash(request, hash));
	sc_page_folded(page, "the resolved config", sc_strbuf_get(&text));
	sc_strbuf_release(&text);
}
