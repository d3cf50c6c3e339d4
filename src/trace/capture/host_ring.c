#include "trace/capture/host_ring.h"

#include <string.h>

/* Records do not wrap: the rest of the ring's end is a PAD of which only the first 8 bytes count. */
struct sc_host_record *sc_host_ring_reserve(struct sc_raw_file *raw, uint32_t index,
					    uint32_t n_text)
{
	struct sc_raw_ring *ring = &raw->header->rings[index];
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
	uint32_t bytes = (uint32_t)((sizeof(struct sc_host_record) + n_text + 1 + 7) & ~(size_t)7);
	uint32_t offset = (uint32_t)(head % SC_RAW_RING_BYTES);
	uint32_t rest = SC_RAW_RING_BYTES - offset, pad = bytes > rest ? rest : 0;
	uint8_t *base = sc_raw_ring_at(raw, index);
	struct sc_host_record *record;

	if (bytes + pad > SC_RAW_RING_BYTES - (head - tail))
		return NULL;
	if (pad) {
		uint32_t mark[2] = {pad, SC_HOST_PAD};

		memcpy(base + offset, mark, sizeof(mark));
		atomic_store_explicit(&ring->head, head + pad, memory_order_release);
		offset = 0;
	}
	record = (struct sc_host_record *)(void *)(base + offset);
	record->bytes = bytes;
	record->n_text = n_text;
	return record;
}

void sc_host_ring_publish(struct sc_raw_file *raw, uint32_t index,
			  const struct sc_host_record *record)
{
	struct sc_raw_ring *ring = &raw->header->rings[index];
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

	atomic_store_explicit(&ring->head, head + record->bytes, memory_order_release);
}

char *sc_host_record_text(struct sc_host_record *record)
{
	return (char *)(record + 1);
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
