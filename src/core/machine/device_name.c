/* Names that drivers give GPUs, and the device files. */
#include <ctype.h>
#include <string.h>

#include "core/machine/device.h"
#include "core/profile/paths.h"

static bool is_word(char c)
{
	return isalnum((unsigned char)c);
}

/* Does a word of `name` begin with the `n` letters of `word`, in any case; `whole`: is it that? */
static bool has_word(const char *name, const char *word, size_t n, bool whole)
{
	for (const char *at = name; *at; at++) {
		size_t i = 0;

		if (!is_word(*at) || (at > name && is_word(at[-1])))
			continue;
		while (i < n && at[i] && tolower((unsigned char)at[i]) == word[i])
			i++;
		if (i == n && !(whole && is_word(at[n])))
			return true;
	}
	return false;
}

/* By words of the id that the name has, first if it has them all; 0: not even the first. */
static int fit_of_words(const char *id, const char *name)
{
	int n_fit = 0, n_words = 0;

	for (bool first = true;; first = false) {
		const size_t n = strcspn(id, "-");
		const bool has = has_word(name, id, n, first);

		if (first && !has)
			return 0;
		n_fit += has;
		n_words++;
		if (!id[n])
			return 2 * n_fit + (n_fit == n_words);
		id += n + 1;
	}
}

/* Drivers give a board of several GPUs the board's name: what one of them is. */
static const char *rank_of(const char *id, struct sc_arena *arena)
{
	struct sc_device device;

	return sc_device_load(id, arena, &device, NULL) == 0 && device.rank_has ? device.rank_has
										: id;
}

const char *sc_device_named(const char *gpu, struct sc_arena *arena)
{
	const char *const *ids, *best = NULL;
	size_t n = sc_config_ids("devices", arena, &ids);
	int most = 0;

	/* of equals the last: "sxm" comes after "pcie", which names of cards say */
	for (size_t i = 0; i < n; i++) {
		const int n_fit = fit_of_words(ids[i], gpu);

		if (n_fit > 0 && n_fit >= most) {
			most = n_fit;
			best = ids[i];
		}
	}
	return best ? rank_of(best, arena) : NULL;
}
