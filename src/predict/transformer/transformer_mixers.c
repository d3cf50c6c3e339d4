/* Linear attention: each head has a state of key_dim x value_dim, to which a token adds its key
 * times its value, and which its query reads. Training works on chunks of the sequence: products
 * within one, and the state from one to the next (Yang et al., arXiv:2406.06484;
 * flash-linear-attention, fla/ops; Megatron Core, ssm/gated_delta_net.py). A further kind is a row
 * of MIXERS, a name in core/config/config_pattern.c and a section. */
#include "predict/transformer/transformer_priv.h"

/* Sizes in widths of a token's keys, of its values, and numbers of heads. */
struct widths {
	double keys, values, heads;
};
static const struct mixer {
	struct widths in;   /* the product of the layer's input */
	struct widths conv; /* channels of the convolution */
	double head_params; /* the head's own parameters */
	bool wide_norm;     /* the norm behind it has weights for each head */
	/* Convolution and scan are one function, whose backward runs the convolution again
	 * (mamba_ssm, ssd_combined.py, MambaSplitConv1dScanCombinedFn); it has biases. */
	bool combined;
	/* Each channel of keys decays, by a product of a head's rank with biases. */
	bool channel_decays;
	/* Steps, B and C come from a narrow product of the convolution's output, without norm. */
	bool selective;
	double state_macs; /* a token's in an element of the state, for the recurrence itself */
	double chunk;      /* tokens */
	enum sc_scan_rule rule;
} MIXERS[] = {
	/* It has queries, keys; values, output gates; decay, strength. A state takes KK', VK', S(I
	   - KK'), SQ. */
	[SC_MIX_GDN - SC_MIX_FIRST_LINEAR] = {.in = {2, 2, 2},
					      .conv = {2, 1, 0},
					      .head_params = 2,
					      .state_macs = 4,
					      .chunk = 64,
					      .rule = SC_SCAN_DELTA},
	/* It has gates, values; groups' B and C; steps; by head decay, skip and the steps' bias.
	 * Its recurrence is 7 FLOP an element (Megatron Core, training.py, mamba_layer_flops). */
	[SC_MIX_MAMBA2 - SC_MIX_FIRST_LINEAR] = {.in = {2, 2, 1},
						 .conv = {2, 1, 0},
						 .head_params = 3,
						 .wide_norm = true,
						 .combined = true,
						 .state_macs = 3.5,
						 .chunk = 128,
						 .rule = SC_SCAN_DECAY},
	/* It has queries, keys; values; strength. */
	[SC_MIX_KDA - SC_MIX_FIRST_LINEAR] = {.in = {2, 1, 1},
					      .conv = {2, 1, 0},
					      .head_params = 1,
					      .channel_decays = true,
					      .state_macs = 4,
					      .chunk = 64,
					      .rule = SC_SCAN_CHANNEL_DELTA},
	/* It has queries, keys; values, gates of the output. Decays are a head's constants
	   (MiniMax-01). */
	[SC_MIX_LIGHTNING - SC_MIX_FIRST_LINEAR] = {.in = {2, 2, 0},
						    .wide_norm = true,
						    .state_macs = 2,
						    .chunk = 256,
						    .rule = SC_SCAN_DECAY},
	/* It has channels, gates. A state's element decays, takes the token's and is read, 7 FLOP
	   as in Mamba-2. */
	[SC_MIX_MAMBA1 - SC_MIX_FIRST_LINEAR] = {.in = {0, 2, 0},
						 .conv = {0, 1, 0},
						 .combined = true,
						 .selective = true,
						 .state_macs = 3.5,
						 .chunk = 2048,
						 .rule = SC_SCAN_SELECTIVE},
};

/* The sizes on one rank. */
struct sizes {
	const struct mixer *of;
	double heads, d_k, d_v, keys, values, conv;
};

static struct sizes sizes_of(const struct dims *x, enum sc_mixer mixer)
{
	const struct sc_linear_mixer *m = &x->model->linear[mixer - SC_MIX_FIRST_LINEAR];
	struct sizes out = {.of = &MIXERS[mixer - SC_MIX_FIRST_LINEAR],
			    .heads = (double)m->value_heads / x->tp,
			    .d_k = (double)m->key_dim,
			    .d_v = (double)m->value_dim,
			    .conv = (double)m->conv};

	out.keys = (double)m->key_heads / x->tp * out.d_k;
	out.values = out.heads * out.d_v;
	return out;
}

static double width(const struct sizes *z, const struct widths *w)
{
	return w->keys * z->keys + w->values * z->values + w->heads * z->heads;
}

/* Adds decays and the output's gate, from narrow products that each rank has whole (Kimi-Linear,
 * modeling_kimi.py: f_a, f_b, g_a, g_b). */
static void put_gates(struct part_list *to, const struct sizes *z, double rank)
{
	const struct dims *x = to->x;
	const double decays = z->keys;

	put_linear(to, (struct part){0, SC_NAME_GATES, z->d_k + rank, x->h, z->d_k + rank,
				     .flags = PART_REPLICATED});
	put_linear(to, (struct part){0, SC_NAME_GATES, decays, z->d_k, decays * x->tp,
				     .flags = PART_ADAPTED})
		->params = decays;
	if (rank > 0)
		put_linear(to, (struct part){0, SC_NAME_GATES, z->values, rank, z->values * x->tp,
					     .flags = PART_ADAPTED});
}

/* Adds the products of steps: each rank multiplies its channels to all of the steps' narrow inputs,
 * B and C, which are summed up, and these to its channels' steps (mamba_ssm, mamba_simple.py:
 * x_proj, dt_proj). */
static void put_steps(struct part_list *to, const struct sizes *z, double rank)
{
	const double narrow = rank + 2 * z->d_k, tp = to->x->tp;

	part_put(to, (struct part){SC_PART_INNER, SC_NAME_GATES, narrow, z->values, narrow,
				   .joined = 1, .copies = 1, .macs = narrow * z->values * tp});
	part_put(to,
		 (struct part){SC_PART_INNER, SC_NAME_GATES, z->values, rank, 0, .joined = 1,
			       .copies = 1, .macs = rank * z->values * tp, .params = z->values});
}

/* It keeps what the convolution reads and writes; keys and queries normed, for each head; a chunk's
 * system and decays in fp32; and the output before and behind its norm. */
void put_linear_attention(struct part_list *to, enum sc_mixer mixer)
{
	const struct dims *x = to->x;
	const struct sizes z = sizes_of(x, mixer);
	const double rank = (double)x->model->linear[mixer - SC_MIX_FIRST_LINEAR].gate_rank;
	const bool full_gate = z.of->channel_decays && rank < 1;
	double in = width(&z, &z.of->in) + (full_gate ? z.values : 0),
	       channels = z.conv > 0 ? width(&z, &z.of->conv) : 0;
	double scan = 2 * z.heads + z.values;

	if (z.of->selective) /* states at each chunk's end, in fp32 (selective_scan_interface.py) */
		scan = 4 * z.values * z.d_k / z.of->chunk;
	else if (z.of->rule != SC_SCAN_DECAY)
		scan += 2 * z.heads * z.d_k + z.heads * z.of->chunk;

	put_linear(to, (struct part){0, SC_NAME_QKV, in, x->h, in * x->tp,
				     .flags = PART_ADAPTED | PART_ENTERS});
	if (z.of->channel_decays)
		put_gates(to, &z, rank);
	if (channels > 0)
		part_put(to, (struct part){SC_PART_CONV, 0, channels, z.conv,
					   z.of->combined ? 0 : channels * x->tp,
					   .macs = channels * z.conv * x->tp,
					   .params = channels * (z.conv + z.of->combined),
					   .mixer = mixer});
	if (z.of->selective)
		put_steps(to, &z, rank);
	part_put(to, (struct part){SC_PART_SCAN, 0, z.values, 0, (scan + z.values) * x->tp,
				   .macs = z.of->state_macs * z.values * z.d_k * x->tp,
				   .params = z.of->selective
						     ? z.values * (z.d_k + 1)
						     : z.of->head_params * z.heads +
							       (z.of->wide_norm ? z.values : z.d_v),
				   .mixer = mixer});
	put_linear(to, (struct part){0, SC_NAME_PROJ, x->h, z.values, 0,
				     .flags = PART_ADAPTED | PART_LEAVES});
}

/* Adds the depthwise convolution, with its activation. */
static void conv(const struct dims *x, const struct part *p, bool backward)
{
	struct sc_op op = {SC_OP_CONV,
			   x->storage,
			   {.conv = {.batch = x->b,
				     .seq = x->s,
				     .channels = p->n,
				     .width = p->k,
				     .backward = backward}}};

	sc_block_add_op(x->block, x->env, backward ? SC_NAME_CONV_GRAD : SC_NAME_CONV, &op);
}

void conv_forward(const struct dims *x, const struct part *p)
{
	conv(x, p, false);
}

void conv_backward(const struct dims *x, const struct part *p)
{
	if (MIXERS[p->mixer - SC_MIX_FIRST_LINEAR].combined)
		conv(x, p, false);
	conv(x, p, true);
}

/* Adds the scan, behind norms of queries and keys if the rule has them, and its gated output's. */
static void scan(const struct dims *x, const struct part *p, bool backward)
{
	const struct sizes z = sizes_of(x, p->mixer);
	double norms = z.of->rule == SC_SCAN_DECAY ? 0 : 2 * z.heads * z.d_k * (backward ? 3 : 2);
	struct sc_op op = {SC_OP_SCAN,
			   x->storage,
			   {.scan = {.rule = z.of->rule,
				     .batch = x->b,
				     .seq = x->s,
				     .k_heads = z.keys / z.d_k,
				     .v_heads = z.heads,
				     .k_dim = z.d_k,
				     .v_dim = z.d_v,
				     .chunk = z.of->chunk,
				     .backward = backward}}};

	if (z.of->selective && x->tp > 1)
		add_tp(x, SC_ALL_REDUCE,
		       x->tokens * ((double)x->model->mamba1.gate_rank + 2 * z.d_k), 0);
	norms += z.values * (backward ? 5 : 3);
	if (!z.of->selective) /* else the kernel gates its output */
		add_rowwise(x, backward ? SC_NAME_NORM_GRAD : SC_NAME_NORM,
			    x->tokens * norms * x->e, z.of->rule == SC_SCAN_DECAY ? 1 : 3);
	sc_block_add_op(x->block, x->env, backward ? SC_NAME_SCAN_GRAD : SC_NAME_SCAN, &op);
}

void scan_forward(const struct dims *x, const struct part *p)
{
	scan(x, p, false);
}

void scan_backward(const struct dims *x, const struct part *p)
{
	scan(x, p, true);
}
