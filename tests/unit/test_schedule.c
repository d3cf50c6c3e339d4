/* Pipeline schedules: every pass once, forward before backward, the published orders, and no deadlock
 * for any size when transfers are taken in schedule order. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "predict/schedule/schedule.h"
#include "runner.h"

enum { MAX_SLOTS = 2 * 64 * 4, MAX_PP = 16 };

static struct sc_slot slots[MAX_PP][MAX_SLOTS];

static uint32_t build(const struct sc_schedule_shape *shape)
{
	for (uint32_t s = 0; s < shape->pp; s++)
		sc_schedule_stage(shape, s, slots[s]);
	return 2 * shape->micro_batches * shape->virtual_stages;
}

/* Runs the stages until nothing moves; true if all slots ran. done[virtual stage][micro-batch]. */
static bool completes(const struct sc_schedule_shape *shape)
{
	static bool done[2][MAX_PP * 4][64];
	uint32_t n = build(shape), at[MAX_PP] = {0}, finished = 0;
	uint32_t last = shape->pp * shape->virtual_stages - 1;
	bool moved = true;

	memset(done, 0, sizeof(done));
	while (moved) {
		moved = false;
		for (uint32_t s = 0; s < shape->pp; s++) {
			while (at[s] < n) {
				struct sc_slot x = slots[s][at[s]];
				bool backward = sc_pass_is_backward((enum sc_pass_kind)x.kind);
				uint32_t v = x.virtual_stage, m = x.micro_batch;
				bool ready =
					backward ? done[0][v][m] && (v == last || done[1][v + 1][m])
						 : v == 0 || done[0][v - 1][m];

				if (!ready)
					break;
				ck_assert(!done[backward][v][m]);
				done[backward][v][m] = true;
				at[s]++;
				finished++;
				moved = true;
			}
		}
	}
	return finished == n * shape->pp;
}

START_TEST(one_f_one_b_order)
{
	struct sc_schedule_shape shape = {SC_SCHED_1F1B, 4, 1, 6};

	build(&shape);
	/* last stage alternates from the start; first stage warms up with three forwards */
	for (uint32_t i = 0; i < 12; i++) {
		ck_assert_uint_eq(slots[3][i].kind == SC_PASS_BACKWARD, i % 2);
		ck_assert_uint_eq(slots[3][i].micro_batch, i / 2);
	}
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_uint_eq(slots[0][i].kind, SC_PASS_FORWARD);
	ck_assert_uint_eq(slots[0][4].kind, SC_PASS_BACKWARD);
	ck_assert_uint_eq(slots[0][4].micro_batch, 0);
}
END_TEST

START_TEST(interleaved_order)
{
	struct sc_schedule_shape shape = {SC_SCHED_INTERLEAVED, 2, 2, 4};

	build(&shape);
	/* forward: micro-batches 0, 1 of chunk 0, then of chunk 1, then 2, 3 */
	ck_assert_uint_eq(slots[0][0].chunk, 0);
	ck_assert_uint_eq(slots[0][1].micro_batch, 1);
	ck_assert_uint_eq(slots[0][2].chunk, 1);
	ck_assert_uint_eq(slots[0][2].micro_batch, 0);
	/* the last stage's first backward is of the last chunk */
	for (uint32_t i = 0; i < 16; i++)
		if (slots[1][i].kind == SC_PASS_BACKWARD) {
			ck_assert_uint_eq(slots[1][i].chunk, 1);
			ck_assert_uint_eq(slots[1][i].micro_batch, 0);
			break;
		}
}
END_TEST

START_TEST(never_deadlocks)
{
	for (uint32_t pp = 1; pp <= 8; pp++)
		for (uint32_t v = 1; v <= 4; v++)
			for (uint32_t m = 1; m <= 24; m++)
				for (int kind = SC_SCHED_GPIPE; kind <= SC_SCHED_INTERLEAVED;
				     kind++) {
					struct sc_schedule_shape shape = {
						(enum sc_schedule)kind, pp,
						kind == SC_SCHED_INTERLEAVED ? v : 1, m};

					ck_assert_msg(completes(&shape), "pp %u v %u m %u kind %d",
						      pp, v, m, kind);
				}
}
END_TEST

/* The most forward passes of a stage whose backward is still to come, counted slot by slot. */
static uint32_t counted_in_flight(const struct sc_schedule_shape *shape, uint32_t stage)
{
	uint32_t now = 0, most = 0;

	for (uint32_t i = 0; i < sc_schedule_n_slots(shape); i++) {
		now += slots[stage][i].kind == SC_PASS_FORWARD ? 1 : UINT32_MAX;
		most = now > most ? now : most;
	}
	return most;
}

START_TEST(in_flight_is_as_counted)
{
	for (uint32_t pp = 1; pp <= 8; pp++)
		for (uint32_t v = 1; v <= 4; v++)
			for (uint32_t m = 1; m <= 24; m++) {
				struct sc_schedule_shape shape = {
					v > 1 ? SC_SCHED_INTERLEAVED : SC_SCHED_1F1B, pp, v, m};

				build(&shape);
				for (uint32_t s = 0; s < pp; s++)
					ck_assert_uint_eq(sc_schedule_in_flight(&shape, s),
							  counted_in_flight(&shape, s));
			}
}
END_TEST

/* What a slot sends is what its peer waits for. */
START_TEST(peers_are_mutual)
{
	struct sc_schedule_shape shape = {SC_SCHED_INTERLEAVED, 4, 3, 8};
	struct sc_slot_peer to, from;
	uint32_t n_ends = 0;

	build(&shape);
	for (uint32_t s = 0; s < shape.pp; s++)
		for (uint32_t i = 0; i < sc_schedule_n_slots(&shape); i++) {
			struct sc_slot x = slots[s][i], y = x;

			if (!sc_slot_peer(&shape, &x, false, &to)) {
				n_ends++;
				continue;
			}
			y.chunk = (uint16_t)to.chunk;
			y.virtual_stage = sc_virtual_stage(
				&shape, (s + (to.is_next ? 1 : shape.pp - 1)) % shape.pp, to.chunk);
			ck_assert_uint_eq(y.virtual_stage,
					  to.is_next ? x.virtual_stage + 1 : x.virtual_stage - 1);
			ck_assert(sc_slot_peer(&shape, &y, true, &from));
			ck_assert_uint_eq(from.chunk, x.chunk);
			ck_assert_int_ne(from.is_next, to.is_next);
		}
	ck_assert_uint_eq(n_ends, 2 * shape.micro_batches);
}
END_TEST

static Suite *schedule_suite(void)
{
	Suite *suite = suite_create("schedule");
	TCase *tc = tcase_create("all");

	tcase_add_test(tc, one_f_one_b_order);
	tcase_add_test(tc, interleaved_order);
	tcase_add_test(tc, never_deadlocks);
	tcase_add_test(tc, in_flight_is_as_counted);
	tcase_add_test(tc, peers_are_mutual);
	suite_add_tcase(suite, tc);
	return suite;
}

TEST_MAIN(schedule_suite)
