/* A schedule in a file: the CSV form of PyTorch's pipelining package (torch/distributed/pipelining,
 * _Action), one line a rank. A cell is stage, kind and micro-batch: 0F0 forward, 1B2 the full
 * backward, 1I2 that of the input, 1W2 that of the weights; (0F1;3B0)OVERLAP_F_B runs two beside
 * each other. Older files write B for the backward of the input: it is that where the same stage
 * and micro-batch have a W. Transfers and moves of weights (0SEND_F0, 1RECV_B2, 0UNSHARD, 0RESHARD,
 * 0REDUCE_GRAD) follow from the order, and empty cells are times at which a rank waits: both are
 * read past. A file that begins with { or a comment is the project's JSON with the same cells. */
#pragma once

#include <stdio.h>

#include "base/err.h"
#include "base/file.h"
#include "predict/schedule/schedule.h"

enum { SC_SCHEDULE_MAX_RANKS = 4096, SC_SCHEDULE_MAX_STAGES = 1 << 16 };
enum { SC_SCHEDULE_MAX_MICRO_BATCHES = 1 << 18, SC_SCHEDULE_MAX_CELLS = 1 << 22 };
struct sc_schedule_file {
	struct sc_stage_map map;
	struct sc_passes passes; /* its map is the one above */
	bool pairs;              /* some passes run in pairs */
};
/* Reads a file and proves that every pass of every micro-batch is there once, that a stage is on
 * one rank, and that no rank waits for ever; else an error at the file's line and column names the
 * rank, the cell and what it waits for. `out` must not be moved. */
int sc_schedule_file_parse(const struct sc_source *source, struct sc_arena *arena,
			   struct sc_schedule_file *out, struct sc_err *err);
int sc_schedule_file_load(const char *path, struct sc_arena *arena, struct sc_schedule_file *out,
			  struct sc_err *err);
/* Writes JSON with `note`, a line, in a comment at its head; note NULL: CSV. A stage that runs on
 * several ranks, as replicas do, is written as it is, and cannot be read again. */
void sc_schedule_file_write(const struct sc_passes *passes, const char *note, FILE *out);
