/* The only C++ of the project: Debian has no TOML library for C. */
#include <sstream>
#include <string>
#include <string_view>

/* toml++ 3.3 asserts that a key begins like one before the branch that reports a key that does not, and a
   release build makes its assertions promises to the optimizer. Neither holds for a file from a stranger. */
#undef NDEBUG
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

extern "C" {
#include "base/toml.h"
}

namespace
{
struct builder {
	struct sc_arena *arena;
	const char *file;
	size_t n_nodes;
};

const char *copy(const builder &b, std::string_view text)
{
	return sc_arena_strndup(b.arena, text.data(), text.size());
}

struct sc_yaml *build(builder &b, const toml::node &from, unsigned depth);

void add_children(builder &b, const toml::node &from, struct sc_yaml *node, unsigned depth)
{
	struct sc_yaml **link = &node->child;

	auto add = [&](const toml::node &value) {
		*link = build(b, value, depth + 1);
		if (*link)
			node->n_children++;
		return *link;
	};
	if (const toml::table *table = from.as_table()) {
		for (auto &&[key, value] : *table) {
			struct sc_yaml *child = add(value);

			if (!child)
				return;
			child->key = copy(b, key.str());
			child->key_line = key.source().begin.line;
			child->key_column = key.source().begin.column;
			link = &child->next;
		}
	} else {
		for (auto &&value : *from.as_array()) {
			struct sc_yaml *child = add(value);

			if (!child)
				return;
			link = &child->next;
		}
	}
}

/* NULL: too much; the caller stops. */
struct sc_yaml *build(builder &b, const toml::node &from, unsigned depth)
{
	if (depth > SC_YAML_MAX_DEPTH || ++b.n_nodes > SC_YAML_MAX_NODES) {
		b.n_nodes = SC_YAML_MAX_NODES + 1;
		return nullptr;
	}
	auto *node = static_cast<struct sc_yaml *>(sc_arena_calloc(b.arena, 1, sizeof(sc_yaml)));
	node->file = b.file;
	node->line = from.source().begin.line;
	node->column = from.source().begin.column;
	if (from.is_table() || from.is_array()) {
		node->kind = from.is_table() ? SC_YAML_MAP : SC_YAML_SEQ;
		add_children(b, from, node, depth);
	} else if (const auto *text = from.as_string()) {
		node->text = copy(b, text->get());
		node->quoted = true;
	} else {
		std::ostringstream shown;

		shown << toml::node_view<const toml::node>(&from);
		node->text = copy(b, shown.str());
	}
	return node;
}

/* toml++ recurses once a dot of a key: the first line with too many, or 0. */
unsigned line_of_dots(const struct sc_source &source, unsigned max_dots)
{
	unsigned line = 1, dots = 0;

	for (size_t i = 0; i < source.n && dots <= max_dots; i++) {
		dots += source.text[i] == '.';
		if (source.text[i] == '\n') {
			line++;
			dots = 0;
		}
	}
	return dots > max_dots ? line : 0;
}
} // namespace

extern "C" int sc_toml_parse(const struct sc_source *source, struct sc_arena *arena,
			     struct sc_yaml **out, struct sc_err *err)
{
	builder b = {arena, sc_arena_strdup(arena, source->file), 0};
	constexpr unsigned max_dots = 64;

	if (source->n > SC_YAML_MAX_BYTES)
		return sc_err_at(err, SC_ELIMIT, b.file, 0, 0,
				 "the file is too large; at most %d bytes are read",
				 SC_YAML_MAX_BYTES);
	if (unsigned line = line_of_dots(*source, max_dots))
		return sc_err_at(err, SC_ELIMIT, b.file, line, 1,
				 "too many dots in this line; at most %u are read", max_dots);
	try {
		const toml::table root = toml::parse(std::string_view(source->text, source->n));
		struct sc_yaml *tree = build(b, root, 0);

		if (b.n_nodes > SC_YAML_MAX_NODES)
			return sc_err_at(err, SC_ELIMIT, b.file, 0, 0,
					 "too many values, or nested too deeply; at most %d and %d",
					 SC_YAML_MAX_NODES, SC_YAML_MAX_DEPTH);
		*out = tree;
		return 0;
	} catch (const toml::parse_error &problem) {
		return sc_err_at(err, SC_EFORMAT, b.file, problem.source().begin.line,
				 problem.source().begin.column, "not valid TOML: %s",
				 std::string(problem.description()).c_str());
	}
}
