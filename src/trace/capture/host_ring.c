/* A ring of records with one writer, a thread of the host program, and one reader, the recorder's
 * own thread: neither waits for the other. The ring lies in the raw file, so what was put before a
 * crash is read from there (recover.c). */
#include "trace/capture/host_ring.h"

#include <string.h>

/* Records do not wrap: the rest of the ring's end is a PAD, whose first 8 bytes alone count. */
bool sc_host_ring_put(struct sc_raw_file *raw, uint32_t index, const struct sc_host_record *record,
		      const char *text)
{
	struct sc_raw_ring *ring = &raw->header->rings[index];
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
	uint32_t bytes = (uint32_t)((sizeof(*record) + record->n_text + 1 + 7) & ~(size_t)7);
	uint32_t offset = (uint32_t)(head % SC_RAW_RING_BYTES);
	uint32_t rest = SC_RAW_RING_BYTES - offset, pad = bytes > rest ? rest : 0;
	uint8_t *base = sc_raw_ring_at(raw, index), *at = base + (pad ? 0 : offset);

	if (bytes + pad > SC_RAW_RING_BYTES - (head - tail))
		return false;
	if (pad)
		memcpy(base + offset, (uint32_t[]){pad, SC_HOST_PAD}, 2 * sizeof(uint32_t));
	memcpy(at, record, sizeof(*record));
	memcpy(at, &bytes, sizeof(bytes)); /* its first member */
	memcpy(at + sizeof(*record), text, record->n_text);
	at[sizeof(*record) + record->n_text] = '\0';
	atomic_store_explicit(&ring->head, head + pad + bytes, memory_order_release);
	return true;
}

const struct sc_host_record *sc_host_ring_read(const struct sc_raw_file *raw, uint32_t index,
					       uint64_t *at)
{
	const struct sc_raw_ring *ring = &raw->header->rings[index];
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
	const uint8_t *base = sc_raw_ring_at(raw, index);

	while (*at < head) {
		uint32_t offset = (uint32_t)(*at % SC_RAW_RING_BYTES), mark[2];
		uint64_t room = SC_RAW_RING_BYTES - offset;
		const struct sc_host_record *record = (const void *)(base + offset);

		if (head - *at < room)
			room = head - *at;
		if (room < sizeof(mark) || offset % 8 != 0)
			return NULL;
		memcpy(mark, record, sizeof(mark));
		if ((mark[1] & 0xffff) == SC_HOST_PAD && mark[0] >= 8 && mark[0] <= room) {
			*at += mark[0];
			continue;
		}
		if (room < sizeof(*record) || record->bytes < sizeof(*record) ||
		    record->bytes > room || record->kind >= SC_HOST_N_KINDS ||
		    record->n_text >= record->bytes - sizeof(*record))
			return NULL;
		*at += record->bytes;
		return record;
	}
	return NULL;
}
