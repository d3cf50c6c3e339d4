/* Layout, mapping, and the few operations on its shared state. */
#include "trace/capture/raw_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	RAW_VERSION = 3,
	RAW_PAGE = 4096,
	RAW_MAX_BUFFER_BYTES = 64 << 20,
	RAW_MIN_BUFFER_BYTES = 4096
};

static uint64_t round_up(uint64_t n)
{
	return (n + RAW_PAGE - 1) / RAW_PAGE * RAW_PAGE;
}

static void lay_out(struct sc_raw_header *header, uint32_t n_buffers, uint32_t buffer_bytes)
{
	header->n_buffers = n_buffers;
	header->buffer_bytes = buffer_bytes;
	header->header_bytes = (uint32_t)sizeof(*header);
	header->names_at = round_up(sizeof(*header));
	header->texts_at =
		header->names_at + round_up(SC_RAW_NAME_SLOTS * sizeof(struct sc_raw_name));
	header->rings_at = header->texts_at + SC_RAW_NAME_BYTES;
	header->buffers_at = header->rings_at + (uint64_t)SC_RAW_RINGS * SC_RAW_RING_BYTES;
	header->total_bytes = header->buffers_at + (uint64_t)n_buffers * buffer_bytes;
}

static void point_into(struct sc_raw_file *raw, void *map)
{
	char *base = map;

	raw->header = map;
	raw->names = (struct sc_raw_name *)(void *)(base + raw->header->names_at);
	raw->texts = base + raw->header->texts_at;
	raw->rings = (uint8_t *)base + raw->header->rings_at;
	raw->buffers = (uint8_t *)base + raw->header->buffers_at;
}

int sc_raw_create(struct sc_raw_file *raw, const char *path, uint32_t n_buffers,
		  uint32_t buffer_bytes)
{
	struct sc_raw_header plan = {.version = RAW_VERSION};
	void *map = MAP_FAILED;
	int fd, rc;

	if (strlen(path) >= sizeof(raw->path))
		return -ENAMETOOLONG;
	lay_out(&plan, n_buffers, buffer_bytes);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	/* The process alone holds it: a forked child does not, and its death ends it, on whatever
	 * host. Where files cannot be locked, its number must do. */
	fcntl(fd, F_SETLK, &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET});
	/* Blocks are reserved now: a full disk later would be a SIGBUS in the host program. */
	rc = posix_fallocate(fd, 0, (off_t)plan.total_bytes);
	if (rc == 0) {
		map = mmap(NULL, plan.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		rc = map == MAP_FAILED ? errno : 0;
	}
	if (rc) {
		close(fd);
		unlink(path);
		return -rc;
	}
	raw->fd = fd;
	memset(map, 0, plan.total_bytes); /* touches every page, for writing */
	memcpy(map, &plan, sizeof(plan));
	atomic_thread_fence(memory_order_release);
	memcpy(map, SC_RAW_MAGIC, sizeof(plan.magic)); /* from here on it is a raw file */
	memcpy(raw->path, path, strlen(path) + 1);
	raw->n_bytes = plan.total_bytes;
	point_into(raw, map);
	return 0;
}

static bool layout_holds(const struct sc_raw_header *header, uint64_t file_bytes)
{
	struct sc_raw_header plan = {.version = RAW_VERSION};

	if (memcmp(header->magic, SC_RAW_MAGIC, sizeof(header->magic)) != 0 ||
	    header->version != RAW_VERSION || header->header_bytes != sizeof(*header) ||
	    header->n_buffers > SC_RAW_MAX_BUFFERS || header->buffer_bytes % 8 != 0 ||
	    header->buffer_bytes > RAW_MAX_BUFFER_BYTES ||
	    header->buffer_bytes < RAW_MIN_BUFFER_BYTES)
		return false;
	lay_out(&plan, header->n_buffers, header->buffer_bytes);
	return header->names_at == plan.names_at && header->texts_at == plan.texts_at &&
	       header->rings_at == plan.rings_at && header->buffers_at == plan.buffers_at &&
	       header->total_bytes == plan.total_bytes && plan.total_bytes == file_bytes;
}

/* Read, not mapped: a file that shrinks meanwhile would end the program that recovers it. */
static int read_all(int fd, uint8_t *at, size_t n)
{
	while (n > 0) {
		const ssize_t got = read(fd, at, n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EINVAL;
		at += got;
		n -= (size_t)got;
	}
	return 0;
}

int sc_raw_open(struct sc_raw_file *raw, const char *path)
{
	static const char none[sizeof(raw->header->magic)];
	struct stat info;
	struct sc_raw_header *whole;
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(raw->path) || fstat(fd, &info)) {
		close(fd);
		return -EINVAL;
	}
	if (info.st_size < (off_t)sizeof(struct sc_raw_header)) {
		close(fd);
		return info.st_size ? -EINVAL : -ENODATA;
	}
	whole = malloc(sizeof(*whole));
	rc = whole ? read_all(fd, (uint8_t *)whole, sizeof(*whole)) : -ENOMEM;
	/* Has a process died before the magic was in it? */
	if (rc == 0 && !layout_holds(whole, (uint64_t)info.st_size))
		rc = memcmp(whole, none, sizeof(none)) == 0 ? -ENODATA : -EINVAL;
	if (rc == 0) {
		struct sc_raw_header *head = whole;
		const size_t n = (size_t)info.st_size - sizeof(*head);

		whole = malloc(sizeof(*head) + n);
		if (whole)
			memcpy(whole, head, sizeof(*head));
		free(head);
		rc = whole ? read_all(fd, (uint8_t *)(whole + 1), n) : -ENOMEM;
	}
	close(fd);
	if (rc) {
		free(whole);
		return rc;
	}
	memcpy(raw->path, path, strlen(path) + 1);
	raw->n_bytes = (size_t)info.st_size;
	raw->fd = -1;
	point_into(raw, whole);
	raw->header->trace_name[SC_RAW_TRACE_NAME - 1] = '\0';
	return 0;
}

void sc_raw_close(struct sc_raw_file *raw, bool remove_file)
{
	if (!raw->header)
		return;
	if (raw->fd >= 0)
		munmap(raw->header, raw->n_bytes);
	else
		free(raw->header);
	raw->header = NULL;
	if (remove_file)
		unlink(raw->path);
	if (raw->fd >= 0)
		close(raw->fd);
}

uint8_t *sc_raw_buffer_at(const struct sc_raw_file *raw, uint32_t index)
{
	return raw->buffers + (size_t)index * raw->header->buffer_bytes;
}

int sc_raw_buffer_index(const struct sc_raw_file *raw, const uint8_t *at)
{
	uintptr_t first = (uintptr_t)raw->buffers, address = (uintptr_t)at;
	uint64_t offset = address - first;

	if (address < first ||
	    offset >= (uint64_t)raw->header->n_buffers * raw->header->buffer_bytes)
		return -1;
	return (int)(offset / raw->header->buffer_bytes);
}

uint8_t *sc_raw_ring_at(const struct sc_raw_file *raw, uint32_t index)
{
	return raw->rings + (size_t)index * SC_RAW_RING_BYTES;
}

int sc_raw_lend(struct sc_raw_file *raw, uint32_t start)
{
	uint32_t n = raw->header->n_buffers;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t index = (start + i) % n, state = SC_RAW_FREE;
		struct sc_raw_buffer *buffer = &raw->header->buffers[index];

		if (atomic_load_explicit(&buffer->state, memory_order_relaxed) == SC_RAW_FREE &&
		    atomic_compare_exchange_strong_explicit(&buffer->state, &state, SC_RAW_LENT,
							    memory_order_acq_rel,
							    memory_order_relaxed))
			return (int)index;
	}
	return -1;
}

void sc_raw_give(struct sc_raw_file *raw, uint32_t index, uint32_t valid_bytes, uint64_t order)
{
	struct sc_raw_buffer *buffer = &raw->header->buffers[index];

	buffer->valid_bytes = valid_bytes;
	atomic_store_explicit(&buffer->order, order, memory_order_relaxed);
	atomic_store_explicit(&buffer->state, SC_RAW_FULL, memory_order_release);
}

int sc_raw_first_full(const struct sc_raw_file *raw)
{
	int first = -1;
	uint64_t lowest = UINT64_MAX;

	for (uint32_t i = 0; i < raw->header->n_buffers; i++) {
		const struct sc_raw_buffer *buffer = &raw->header->buffers[i];
		uint64_t order;

		if (atomic_load_explicit(&buffer->state, memory_order_acquire) != SC_RAW_FULL)
			continue;
		order = atomic_load_explicit(&buffer->order, memory_order_relaxed);
		if (order < lowest) {
			lowest = order;
			first = (int)i;
		}
	}
	return first;
}

void sc_raw_recycle(struct sc_raw_file *raw, uint32_t index)
{
	struct sc_raw_buffer *buffer = &raw->header->buffers[index];

	memset(sc_raw_buffer_at(raw, index), 0, buffer->valid_bytes);
	buffer->valid_bytes = 0;
	/* A death between these two leaves an empty buffer: nothing is found twice. */
	atomic_store_explicit(&buffer->frames_end, 0, memory_order_release);
	atomic_store_explicit(&buffer->state, SC_RAW_FREE, memory_order_release);
}

/* splitmix64's finalizer: addresses differ in few bits. */
static uint64_t mix_bits(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static struct sc_raw_name *raw_find(const struct sc_raw_file *raw, uint64_t key)
{
	uint64_t at = mix_bits(key);

	for (uint32_t i = 0; i < SC_RAW_NAME_SLOTS; i++) {
		struct sc_raw_name *slot = &raw->names[(at + i) & (SC_RAW_NAME_SLOTS - 1)];
		uint64_t have = atomic_load_explicit(&slot->key, memory_order_acquire);

		if (have == key || have == 0)
			return slot;
	}
	return NULL;
}

struct sc_raw_name *sc_raw_name_put(struct sc_raw_file *raw, uint64_t key, const char *text)
{
	struct sc_raw_header *header = raw->header;
	struct sc_raw_name *slot = raw_find(raw, key);
	bool known = slot && atomic_load_explicit(&slot->key, memory_order_relaxed) == key;
	size_t n;

	/* Unloading a module frees its names for others: the text decides. */
	if (known && strcmp(raw->texts + slot->at, text) == 0)
		return slot;
	n = strlen(text);
	if (!slot || n >= SC_RAW_NAME_BYTES - header->n_text_bytes ||
	    (!known && header->n_names >= SC_RAW_NAME_SLOTS / 4 * 3))
		return NULL;
	memcpy(raw->texts + header->n_text_bytes, text, n + 1);
	slot->at = header->n_text_bytes;
	slot->n = (uint32_t)n;
	header->n_text_bytes += (uint32_t)n + 1;
	header->n_names += !known;
	atomic_store_explicit(&slot->key, key, memory_order_release);
	return slot;
}

const struct sc_raw_name *sc_raw_name_get(const struct sc_raw_file *raw, uint64_t key)
{
	const struct sc_raw_name *slot = raw_find(raw, key);

	if (!slot || atomic_load_explicit(&slot->key, memory_order_relaxed) != key)
		return NULL;
	if (slot->at >= SC_RAW_NAME_BYTES || slot->n >= SC_RAW_NAME_BYTES - slot->at ||
	    raw->texts[slot->at + slot->n] != '\0')
		return NULL;
	return slot;
}

size_t sc_api_name_length(const char *name)
{
	size_t n = strlen(name), digits = n;

	while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
		digits--;
	if (digits == n || digits < 2 || name[digits - 1] != 'v' || name[digits - 2] != '_')
		return n;
	n = digits - 2;
	for (int i = 0; i < 2; i++) {
		static const char *const suffixes[] = {"_ptsz", "_ptds"};
		size_t m = strlen(suffixes[i]);

		if (n > m && memcmp(name + n - m, suffixes[i], m) == 0)
			n -= m;
	}
	return n;
}
