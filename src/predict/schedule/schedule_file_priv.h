/* Shared by the readers of schedules in files. */
#ifndef SC_PREDICT_SCHEDULE_FILE_PRIV_H
#define SC_PREDICT_SCHEDULE_FILE_PRIV_H

#include "base/vec.h"
#include "predict/schedule/schedule_file.h"

/* A pass as the file has it. */
struct cell {
	uint32_t rank, stage, micro_batch;
	unsigned line, column;
	uint8_t kind;
	bool paired;
};
struct reader {
	const struct sc_source *source;
	struct sc_arena *arena;
	struct sc_err *err;
	struct cell *cells;
	size_t n_cells, max_cells;
	uint32_t n_ranks, n_stages, micro_batches;
	const char *at, *line_start, *end;
	unsigned line;
	uint32_t *seen[SC_N_PASS_KINDS]; /* [stage * micro_batches + micro-batch]: cell + 1 */
	uint32_t *rank_of;               /* by stage */
	SC_VEC(unsigned) rank_line;      /* where each rank's cells begin */
};

/* By kind. */
extern const char LETTER[SC_N_PASS_KINDS];

#define FAIL(r, column, ...) \
	sc_err_at((r)->err, SC_EVALUE, (r)->source->file, (r)->line, column, __VA_ARGS__)
#define FAIL_AT(r, cell, ...) \
	sc_err_at((r)->err, SC_EVALUE, (r)->source->file, (cell)->line, (cell)->column, __VA_ARGS__)

/* schedule_file.c: begins the cells of the next rank, on r->line; */
int begin_rank(struct reader *r);
/* one cell, a pass or (0F1;3B0)OVERLAP_F_B, on r->line, which begins at r->line_start. */
int read_cell(struct reader *r, const char *begin, const char *end);
/* schedule_file_json.c: all cells of a file of ours. */
int read_json(struct reader *r);

#endif
