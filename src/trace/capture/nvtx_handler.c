/* A thread keeps its open ranges to itself; a range becomes a record when it ends. Ranges deeper
 * than the stack are counted and not kept. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "trace/capture/tracer.h"

enum {
	MAX_DEPTH = 64,
	MAX_NAME = 256,
	MAX_STARTED = 256, /* open ranges of nvtxRangeStart, of all threads */
	NCCL_SCHEMA_BASE = 1 << 24
};

struct domain {
	bool is_nccl;
	size_t n_name;
	char name[MAX_NAME]; /* with ":" behind it */
};
struct range {
	int64_t start_ns, external_id;
	bool has_comm, is_nccl;
	uint16_t n_text;
	struct sc_host_comm comm;
	char text[MAX_NAME];
};
struct stack {
	struct range ranges[MAX_DEPTH];
	unsigned depth; /* may be beyond MAX_DEPTH */
	int n_rounds;   /* of its thread's destructors, so far */
};
static _Thread_local struct stack *stack;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static struct started {
	uint64_t id; /* 0: free */
	struct range range;
} started[MAX_STARTED];
static uint64_t next_started;
static pthread_mutex_t started_lock = PTHREAD_MUTEX_INITIALIZER;

/* Destructors that come later may end ranges that are open, or begin others, which take a new
 * stack: what is open stays until the last round of destructors. */
static void leave_stack(void *at)
{
	struct stack *mine = at;

	if (mine->depth && ++mine->n_rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
		pthread_setspecific(key, mine);
		return;
	}
	stack = NULL;
	free(mine);
}

static void make_key(void)
{
	pthread_key_create(&key, leave_stack);
}

static struct stack *my_stack(void)
{
	if (!stack) {
		stack = calloc(1, sizeof(*stack));
		pthread_once(&key_once, make_key);
		pthread_setspecific(key, stack);
	}
	return stack;
}

/* --- what an event is called and carries --- */

static void nvtx_put_text(struct range *range, const char *text, size_t n)
{
	size_t room = MAX_NAME - range->n_text;

	if (n > room)
		n = room;
	memcpy(range->text + range->n_text, text, n);
	range->n_text = (uint16_t)(range->n_text + n);
}

struct narrow {
	char text[MAX_NAME];
};
static struct narrow narrow(const wchar_t *text)
{
	struct narrow out = {""};

	if (text)
		sc_wide_to_utf8(text, out.text, sizeof(out.text));
	return out;
}

/* A registered text is one of ours. */
static void put_message(struct range *range, const struct sc_nvtx_attributes *attributes)
{
	const char *text = attributes->message;
	struct narrow wide;

	if (attributes->message_type == SC_NVTX_MESSAGE_WIDE) {
		wide = narrow(attributes->message);
		text = wide.text;
	}
	if (text && attributes->message_type >= SC_NVTX_MESSAGE_ASCII &&
	    attributes->message_type <= SC_NVTX_MESSAGE_REGISTERED)
		nvtx_put_text(range, text, strlen(text));
}

/* Reads a payload of NCCL's domain; false if it is none. Payloads since 2.25 begin with the
 * communicator's hash, before with the bytes: the length tells. */
static bool nvtx_nccl_payload(const struct sc_nvtx_payload *payload, struct sc_host_comm *out)
{
	uint64_t words[3] = {0};
	size_t n = payload->size < sizeof(words) ? payload->size : sizeof(words);
	uint64_t which = payload->schema - NCCL_SCHEMA_BASE;
	bool has_peer = which == 9 || which == 10;

	if (which > 32 || !payload->data || n < 8)
		return false;
	memcpy(words, payload->data, n);
	*out = (struct sc_host_comm){
		.count = -1, .bytes = -1, .seq = -1, .group_size = -1, .peer = -1, .root = -1};
	if (which <= 1) { /* ncclCommInitRank: {communicator, ranks, rank, device} */
		out->hash = words[0];
		out->group_size = n >= 16 ? (int32_t)(uint32_t)words[1] : -1;
		out->peer = n >= 16 ? (int32_t)(words[1] >> 32) : -1;
		return n >= 16;
	}
	if (n >= 16 && payload->size != 16) { /* {communicator, bytes, operation or peer} */
		out->hash = words[0];
		out->bytes = (int64_t)words[1];
		out->peer = has_peer && n >= 20 ? (int32_t)(uint32_t)words[2] : -1;
	} else if (payload->size == 16 && (which == 4 || which >= 11)) { /* no third member */
		out->hash = words[0];
		out->bytes = (int64_t)words[1];
	} else { /* before 2.25: {bytes, operation or peer} */
		out->bytes = (int64_t)words[0];
		out->peer = has_peer && n >= 12 ? (int32_t)(uint32_t)words[1] : -1;
	}
	return true;
}

static void put_payload(struct range *range, const struct sc_nvtx_attributes *attributes)
{
	const struct sc_nvtx_payload *payload;

	if (attributes->payload_type != SC_NVTX_PAYLOAD_EXT || attributes->n_payloads < 1 ||
	    !attributes->payload)
		return;
	payload = (const void *)(uintptr_t)attributes->payload;
	range->has_comm = nvtx_nccl_payload(payload, &range->comm);
	if (range->has_comm && payload->schema <= NCCL_SCHEMA_BASE + 1) {
		sc_tracer_learn_rank(range->comm.peer, range->comm.group_size);
		range->comm.peer = -1;
	}
}

/* Begins anywhere; the domain's name stands before that of an event. */
static void range_begin(struct range *range, const struct domain *domain,
			const struct sc_nvtx_attributes *attributes)
{
	range->n_text = 0;
	range->has_comm = false;
	range->is_nccl = domain && domain->is_nccl;
	range->external_id = 0;
	if (domain && !domain->is_nccl)
		nvtx_put_text(range, domain->name, domain->n_name);
	range->start_ns = sc_tracer_now_ns();
	if (attributes)
		put_message(range, attributes);
	if (attributes && range->is_nccl)
		put_payload(range, attributes);
}

static void range_emit(const struct range *range, enum sc_host_kind kind, int64_t end_ns)
{
	/* The plugin says more of a call than NVTX: with it, NVTX's is a range like others. */
	bool is_call = range->is_nccl && range->has_comm && !atomic_load(&sc_tracer.plugin_on);
	struct sc_host_record record = {
		.kind = (uint16_t)kind,
		.flags = is_call ? SC_HOST_IS_CALL : 0,
		.sub = range->is_nccl ? SC_HOST_SUB_NVTX : 0,
		.start_ns = range->start_ns,
		.end_ns = end_ns,
		.external_id = range->external_id,
	};

	if (range->has_comm) {
		record.flags |= SC_HOST_HAS_COMM;
		record.comm = range->comm;
	}
	sc_host_emit(&record, range->text, range->n_text);
}

/* --- the stack of a thread --- */

static int range_pop(void)
{
	struct range *range;

	if (!stack || stack->depth == 0)
		return -1;
	stack->depth--;
	if (stack->depth >= MAX_DEPTH) {
		atomic_fetch_add_explicit(&sc_tracer.n_host_lost, 1, memory_order_relaxed);
		return (int)stack->depth;
	}
	range = &stack->ranges[stack->depth];
	if (range->external_id)
		sc_cupti_session_pop_id();
	range_emit(range, SC_HOST_RANGE, sc_tracer_now_ns());
	return (int)stack->depth;
}

/* --- NVTX's functions --- */

#define ASCII(text_) \
	((struct sc_nvtx_attributes){.message_type = SC_NVTX_MESSAGE_ASCII, .message = (text_)})
#define WIDE(text_) \
	((struct sc_nvtx_attributes){.message_type = SC_NVTX_MESSAGE_WIDE, .message = (text_)})

static int push_domain(const struct domain *domain, const struct sc_nvtx_attributes *attributes)
{
	struct stack *mine = sc_tracer_is_on() ? my_stack() : NULL;
	struct range *range;

	if (!mine)
		return -1;
	if (mine->depth++ >= MAX_DEPTH)
		return (int)mine->depth - 1;
	range = &mine->ranges[mine->depth - 1];
	range_begin(range, domain, attributes);
	if (range->is_nccl) {
		range->external_id = (int64_t)atomic_fetch_add(&sc_tracer.next_external, 1) + 1;
		sc_cupti_session_push_id((uint64_t)range->external_id);
	}
	return (int)mine->depth - 1;
}

static int pop_domain(const struct domain *domain)
{
	(void)domain;
	return range_pop();
}

static void mark_domain(const struct domain *domain, const struct sc_nvtx_attributes *attributes)
{
	struct range range;

	if (!sc_tracer_is_on())
		return;
	range_begin(&range, domain, attributes);
	range_emit(&range, SC_HOST_MARK, range.start_ns);
}

static uint64_t start_domain(const struct domain *domain,
			     const struct sc_nvtx_attributes *attributes)
{
	struct range range;
	uint64_t id = 0;

	if (!sc_tracer_is_on())
		return 0;
	range_begin(&range, domain, attributes);
	pthread_mutex_lock(&started_lock);
	for (int i = 0; i < MAX_STARTED && !id; i++) {
		if (started[i].id)
			continue;
		id = started[i].id = ++next_started * MAX_STARTED + (uint64_t)i;
		started[i].range = range;
	}
	pthread_mutex_unlock(&started_lock);
	if (!id)
		atomic_fetch_add_explicit(&sc_tracer.n_host_lost, 1, memory_order_relaxed);
	return id;
}

/* The same without a domain, of attributes, a text or a wide text. */
#define PLAIN(type, name, yield)                                           \
	static type name##_ex(const struct sc_nvtx_attributes *attributes) \
	{                                                                  \
		yield name##_domain(NULL, attributes);                     \
	}                                                                  \
	static type name##_a(const char *text)                             \
	{                                                                  \
		yield name##_domain(NULL, &ASCII(text));                   \
	}                                                                  \
	static type name##_w(const wchar_t *text)                          \
	{                                                                  \
		yield name##_domain(NULL, &WIDE(text));                    \
	}
PLAIN(void, mark, )
PLAIN(int, push, return )
PLAIN(uint64_t, start, return )

static void range_end(uint64_t id)
{
	struct started *entry = &started[id % MAX_STARTED];
	struct range range;
	bool found;

	if (!id || !sc_tracer_is_on())
		return;
	pthread_mutex_lock(&started_lock);
	found = entry->id == id;
	if (found) {
		range = entry->range;
		entry->id = 0;
	}
	pthread_mutex_unlock(&started_lock);
	if (found)
		range_emit(&range, SC_HOST_RANGE, sc_tracer_now_ns());
}

static void end_domain(const struct domain *domain, uint64_t id)
{
	(void)domain;
	range_end(id);
}

static void name_thread(uint32_t tid, const char *text)
{
	char meta_key[48];

	snprintf(meta_key, sizeof(meta_key), "thread.%u.name", (unsigned)tid);
	sc_host_emit_meta(meta_key, text ? text : "");
}

static void name_thread_w(uint32_t tid, const wchar_t *text)
{
	name_thread(tid, narrow(text).text);
}

static void *create_domain(const char *name)
{
	struct domain *domain = calloc(1, sizeof(*domain));
	size_t n = name ? strnlen(name, MAX_NAME - 2) : 0;

	if (!domain)
		return NULL;
	memcpy(domain->name, name ? name : "", n);
	domain->name[n] = ':';
	domain->n_name = n + 1;
	domain->is_nccl = n == 4 && memcmp(name, "NCCL", 4) == 0;
	return domain;
}

static void *create_domain_w(const wchar_t *name)
{
	return create_domain(narrow(name).text);
}

/* Lives as long as the process, as NVTX promises. */
static void *register_text(const struct domain *domain, const char *text)
{
	(void)domain;
	return strndup(text ? text : "", MAX_NAME);
}

static void *register_wide(const struct domain *domain, const wchar_t *text)
{
	return register_text(domain, narrow(text).text);
}

/* --- attaching --- */

#define ENTRY(id, function) [id] = (sc_nvtx_function)(void (*)(void))(function)
static const sc_nvtx_function CORE[] = {
	ENTRY(SC_NVTX_MARK_EX, mark_ex),
	ENTRY(SC_NVTX_MARK_A, mark_a),
	ENTRY(SC_NVTX_MARK_W, mark_w),
	ENTRY(SC_NVTX_START_EX, start_ex),
	ENTRY(SC_NVTX_START_A, start_a),
	ENTRY(SC_NVTX_START_W, start_w),
	ENTRY(SC_NVTX_END, range_end),
	ENTRY(SC_NVTX_PUSH_EX, push_ex),
	ENTRY(SC_NVTX_PUSH_A, push_a),
	ENTRY(SC_NVTX_PUSH_W, push_w),
	ENTRY(SC_NVTX_POP, range_pop),
	ENTRY(SC_NVTX_NAME_THREAD_A, name_thread),
	ENTRY(SC_NVTX_NAME_THREAD_W, name_thread_w),
};
static const sc_nvtx_function CORE2[] = {
	ENTRY(SC_NVTX_DOMAIN_MARK_EX, mark_domain),
	ENTRY(SC_NVTX_DOMAIN_START_EX, start_domain),
	ENTRY(SC_NVTX_DOMAIN_END, end_domain),
	ENTRY(SC_NVTX_DOMAIN_PUSH_EX, push_domain),
	ENTRY(SC_NVTX_DOMAIN_POP, pop_domain),
	ENTRY(SC_NVTX_DOMAIN_REGISTER_A, register_text),
	ENTRY(SC_NVTX_DOMAIN_REGISTER_W, register_wide),
	ENTRY(SC_NVTX_DOMAIN_CREATE_A, create_domain),
	ENTRY(SC_NVTX_DOMAIN_CREATE_W, create_domain_w),
};

static bool attach_module(const struct sc_nvtx_callbacks *callbacks, int module,
			  const sc_nvtx_function *ours, unsigned n_ours)
{
	sc_nvtx_function **table = NULL;
	unsigned n = 0;

	if (!callbacks->get_functions(module, &table, &n) || !table)
		return false;
	for (unsigned i = 0; i < n && i < n_ours; i++)
		if (ours[i] && table[i])
			*table[i] = ours[i];
	return true;
}

bool sc_nvtx_attach(sc_nvtx_get_table get_table)
{
	const struct sc_nvtx_callbacks *callbacks = get_table(SC_NVTX_TABLE_CALLBACKS);
	bool core, core2;

	if (!callbacks || callbacks->size < sizeof(*callbacks))
		return false;
	core = attach_module(callbacks, SC_NVTX_MODULE_CORE, CORE, sizeof(CORE) / sizeof(CORE[0]));
	core2 = attach_module(callbacks, SC_NVTX_MODULE_CORE2, CORE2,
			      sizeof(CORE2) / sizeof(CORE2[0]));
	return core || core2;
}
