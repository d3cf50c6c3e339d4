/* Pages: the document comes out of the page as it went in, and no text of it ends the script or
 * becomes markup. */
#include "report/page.h"
#include "runner.h"

static const char HOSTILE[] =
	"</script><script>alert(1)</script><!-- <b a=\"&'> \\u003c @DOCUMENT@";

/* The page, the caller's to free; NULL: refused. */
static char *page_of(json_t *document, struct sc_err *err)
{
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);
	int rc = sc_page_write(document, out, err);

	fclose(out);
	if (rc == 0)
		return text;
	free(text);
	return NULL;
}

/* What stands in the first script. */
static json_t *document_of(const char *page)
{
	const char *at = strstr(page, "id=\"document\">"), *end;

	ck_assert_ptr_nonnull(at);
	at = strchr(at, '>') + 1;
	end = strstr(at, "</script");
	ck_assert_ptr_nonnull(end);
	return json_loadb(at, (size_t)(end - at), 0, NULL);
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

TEST(hostile_texts_come_back)
{
	struct sc_err err = {.code = SC_OK};
	json_t *document = json_pack("{s:s, s:s, s:{s:[s]}, s:f}", "schema", "stepcast/test", "a",
				     HOSTILE, HOSTILE, HOSTILE, HOSTILE, "x", 1.25);
	json_t *plain = json_pack("{s:s}", "schema", "stepcast/test"), *again;
	char *page = page_of(document, &err), *empty = page_of(plain, &err);

	ck_assert_ptr_nonnull(page);
	again = document_of(page);
	ck_assert(json_equal(document, again));
	ck_assert_uint_eq(count(page, "<"), count(empty, "<"));
	json_decref(again);
	json_decref(document);
	json_decref(plain);
	free(page);
	free(empty);
}

/* The passes one by one are not in the page; what is drawn of them is. */
TEST(slots_are_left_out)
{
	struct sc_err err = {.code = SC_OK};
	json_t *document =
		json_pack("{s:s, s:[i], s:i, s:[{s:[i]}]}", "schema", "stepcast.schedule", "slots",
			  1, "drawing", 2, "others", "slots", 3);
	char *page = page_of(document, &err);
	json_t *again = document_of(page);

	ck_assert_ptr_null(json_object_get(again, "slots"));
	ck_assert_ptr_nonnull(json_object_get(again, "drawing"));
	ck_assert_uint_eq(json_object_size(json_array_get(json_object_get(again, "others"), 0)), 0);
	json_decref(again);
	json_decref(document);
	free(page);
}

TEST(others_are_refused)
{
	static const char *const OTHERS[] = {"[1]", "{}", "{\"schema\": 1}",
					     "{\"schema\": \"other/1\"}"};

	for (size_t i = 0; i < sizeof(OTHERS) / sizeof(OTHERS[0]); i++) {
		struct sc_err err = {.code = SC_OK};
		json_t *document = json_loads(OTHERS[i], 0, NULL);

		ck_assert_ptr_null(page_of(document, &err));
		ck_assert_int_eq(err.code, SC_EVALUE);
		json_decref(document);
	}
}
