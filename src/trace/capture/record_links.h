/* What records say of each other, once all are there. CUPTI promises no order: a kernel may come before the
 * external id of its call, a wait before the record of the event that it waits for (pytorch/kineto #1318),
 * anything before the first record that says which device a context is of. The writer takes what it has
 * seen by then; the rest is found here, when the trace is packed. */
#ifndef SC_TRACE_CAPTURE_RECORD_LINKS_H
#define SC_TRACE_CAPTURE_RECORD_LINKS_H

#include "trace/format/trace_file.h"

struct sc_record_links;
struct sc_record_links *sc_record_links_create(void);
void sc_record_links_destroy(struct sc_record_links *links);
/* Every event of the trace, in any order; names and lanes as in `from`. Then once `settle`. */
void sc_record_links_see(struct sc_record_links *links, const struct sc_trace *from,
			 const struct sc_trace_event *event);
void sc_record_links_settle(struct sc_record_links *links);
/* External id of what a call with one started; the record's correlation of a wait. What is known stays. */
void sc_record_links_complete(const struct sc_record_links *links, const struct sc_trace *from,
			      struct sc_trace_event *event);
/* Of a context, -1 = not known. */
int32_t sc_record_links_device(const struct sc_record_links *links, int32_t context);

#endif
