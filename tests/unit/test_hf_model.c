/* config.json of Hugging Face as a model: shapes written from their published fields give the
 * published numbers of parameters; what costs and is not understood is an error. */
#include <unistd.h>

#include "predict/predict.h"
#include "predict/transformer/transformer_ops.h"
#include "request_fixture.h"
#include "runner.h"

/* The count of the model's card, or of its file's index. */
static const struct {
	const char *name;
	double params;
	const char *json;
} MODELS[] = {
	{"llama-2-7b", 6738415616.0,
	 "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, "
	 "\"num_attention_heads\": 32, \"num_key_value_heads\": 32, \"intermediate_size\": 11008, "
	 "\"vocab_size\": 32000, \"tie_word_embeddings\": false}"},
	{"llama-2-13b", 13015864320.0,
	 "{\"model_type\": \"llama\", \"hidden_size\": 5120, \"num_hidden_layers\": 40, "
	 "\"num_attention_heads\": 40, \"num_key_value_heads\": 40, \"intermediate_size\": 13824, "
	 "\"vocab_size\": 32000, \"tie_word_embeddings\": false}"},
	{"llama-2-70b", 68976648192.0,
	 "{\"model_type\": \"llama\", \"hidden_size\": 8192, \"num_hidden_layers\": 80, "
	 "\"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"intermediate_size\": 28672, "
	 "\"vocab_size\": 32000, \"tie_word_embeddings\": false}"},
	{"llama-3-8b", 8030261248.0,
	 "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, "
	 "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336, "
	 "\"vocab_size\": 128256, \"tie_word_embeddings\": false, \"rope_theta\": 500000.0}"},
	{"llama-3-70b", 70553706496.0,
	 "{\"model_type\": \"llama\", \"hidden_size\": 8192, \"num_hidden_layers\": 80, "
	 "\"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"intermediate_size\": 28672, "
	 "\"vocab_size\": 128256, \"tie_word_embeddings\": false}"},
	{"llama-3.1-405b", 405853388800.0,
	 "{\"model_type\": \"llama\", \"hidden_size\": 16384, \"num_hidden_layers\": 126, "
	 "\"num_attention_heads\": 128, \"num_key_value_heads\": 8, \"intermediate_size\": 53248, "
	 "\"vocab_size\": 128256, \"tie_word_embeddings\": false}"},
	{"llama-3.2-1b", 1235814400.0,
	 "{\"model_type\": \"llama\", \"hidden_size\": 2048, \"num_hidden_layers\": 16, "
	 "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 8192, "
	 "\"vocab_size\": 128256, \"tie_word_embeddings\": true, \"head_dim\": 64}"},
	{"llama-3.2-3b", 3212749824.0,
	 "{\"model_type\": \"llama\", \"hidden_size\": 3072, \"num_hidden_layers\": 28, "
	 "\"num_attention_heads\": 24, \"num_key_value_heads\": 8, \"intermediate_size\": 8192, "
	 "\"vocab_size\": 128256, \"tie_word_embeddings\": true, \"head_dim\": 128}"},
	{"mistral-7b-v0.1", 7241732096.0,
	 "{\"model_type\": \"mistral\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, "
	 "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336, "
	 "\"vocab_size\": 32000, \"tie_word_embeddings\": false, \"sliding_window\": 4096}"},
	{"mistral-7b-v0.3", 7248023552.0,
	 "{\"model_type\": \"mistral\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, "
	 "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336, "
	 "\"vocab_size\": 32768, \"tie_word_embeddings\": false}"},
	{"mistral-nemo-12b", 12247782400.0,
	 "{\"model_type\": \"mistral\", \"hidden_size\": 5120, \"num_hidden_layers\": 40, "
	 "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336, "
	 "\"vocab_size\": 131072, \"tie_word_embeddings\": false, \"head_dim\": 128}"},
	{"qwen3-vl-4b, its language half", 4022468096.0,
	 "{\"model_type\": \"qwen3_vl\", \"tie_word_embeddings\": true, \"image_token_id\": 1, "
	 "\"vision_config\": {\"hidden_size\": 1024, \"depth\": 24}, \"text_config\": {"
	 "\"model_type\": \"qwen3_vl_text\", \"hidden_size\": 2560, \"num_hidden_layers\": 36, "
	 "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"head_dim\": 128, "
	 "\"intermediate_size\": 9728, \"vocab_size\": 151936}}"},
	{"llama-4-scout, its language half", 107769861120.0,
	 "{\"model_type\": \"llama4\", \"text_config\": {\"model_type\": \"llama4_text\", "
	 "\"hidden_size\": 5120, \"num_hidden_layers\": 48, \"num_attention_heads\": 40, "
	 "\"num_key_value_heads\": 8, \"head_dim\": 128, \"intermediate_size\": 8192, "
	 "\"intermediate_size_mlp\": 16384, \"num_local_experts\": 16, "
	 "\"num_experts_per_tok\": 1, \"interleave_moe_layer_step\": 1, "
	 "\"attention_chunk_size\": 8192, \"vocab_size\": 202048}}"},
	{"minimax-m2", 228689764864.0,
	 "{\"model_type\": \"minimax_m2\", \"hidden_size\": 3072, \"num_hidden_layers\": 62, "
	 "\"num_attention_heads\": 48, \"num_key_value_heads\": 8, \"head_dim\": 128, "
	 "\"intermediate_size\": 1536, \"num_local_experts\": 256, \"num_experts_per_tok\": 8, "
	 "\"use_mtp\": true, \"num_mtp_modules\": 3, \"use_routing_bias\": true, "
	 "\"shared_intermediate_size\": 0, \"vocab_size\": 200064}"},
	{"kimi-k2", 1026408232448.0,
	 "{\"model_type\": \"kimi_k2\", \"hidden_size\": 7168, \"num_hidden_layers\": 61, "
	 "\"num_attention_heads\": 64, \"num_key_value_heads\": 64, \"intermediate_size\": 18432, "
	 "\"moe_intermediate_size\": 2048, \"first_k_dense_replace\": 1, "
	 "\"n_routed_experts\": 384, \"n_shared_experts\": 1, \"num_experts_per_tok\": 8, "
	 "\"n_group\": 1, \"topk_group\": 1, \"seq_aux\": true, \"q_lora_rank\": 1536, "
	 "\"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, "
	 "\"v_head_dim\": 128, \"num_nextn_predict_layers\": 0, \"vocab_size\": 163840}"},
	{"mixtral-8x7b", 46702792704.0,
	 "{\"model_type\": \"mixtral\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, "
	 "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336, "
	 "\"vocab_size\": 32000, \"tie_word_embeddings\": false, \"num_local_experts\": 8, "
	 "\"num_experts_per_tok\": 2}"},
	{"mixtral-8x22b", 140630071296.0,
	 "{\"model_type\": \"mixtral\", \"hidden_size\": 6144, \"num_hidden_layers\": 56, "
	 "\"num_attention_heads\": 48, \"num_key_value_heads\": 8, \"intermediate_size\": 16384, "
	 "\"vocab_size\": 32768, \"tie_word_embeddings\": false, \"num_local_experts\": 8, "
	 "\"num_experts_per_tok\": 2}"},
	{"qwen2-0.5b", 494032768.0,
	 "{\"model_type\": \"qwen2\", \"hidden_size\": 896, \"num_hidden_layers\": 24, "
	 "\"num_attention_heads\": 14, \"num_key_value_heads\": 2, \"intermediate_size\": 4864, "
	 "\"vocab_size\": 151936, \"tie_word_embeddings\": true, \"use_sliding_window\": false, "
	 "\"sliding_window\": 32768, \"max_window_layers\": 24}"},
	{"qwen2-1.5b", 1543714304.0,
	 "{\"model_type\": \"qwen2\", \"hidden_size\": 1536, \"num_hidden_layers\": 28, "
	 "\"num_attention_heads\": 12, \"num_key_value_heads\": 2, \"intermediate_size\": 8960, "
	 "\"vocab_size\": 151936, \"tie_word_embeddings\": true}"},
	{"qwen2-7b", 7615616512.0,
	 "{\"model_type\": \"qwen2\", \"hidden_size\": 3584, \"num_hidden_layers\": 28, "
	 "\"num_attention_heads\": 28, \"num_key_value_heads\": 4, \"intermediate_size\": 18944, "
	 "\"vocab_size\": 152064, \"tie_word_embeddings\": false}"},
	{"qwen2-72b", 72706203648.0,
	 "{\"model_type\": \"qwen2\", \"hidden_size\": 8192, \"num_hidden_layers\": 80, "
	 "\"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"intermediate_size\": 29568, "
	 "\"vocab_size\": 152064, \"tie_word_embeddings\": false}"},
	{"qwen2.5-3b", 3085938688.0,
	 "{\"model_type\": \"qwen2\", \"hidden_size\": 2048, \"num_hidden_layers\": 36, "
	 "\"num_attention_heads\": 16, \"num_key_value_heads\": 2, \"intermediate_size\": 11008, "
	 "\"vocab_size\": 151936, \"tie_word_embeddings\": true}"},
	{"qwen2.5-14b", 14770033664.0,
	 "{\"model_type\": \"qwen2\", \"hidden_size\": 5120, \"num_hidden_layers\": 48, "
	 "\"num_attention_heads\": 40, \"num_key_value_heads\": 8, \"intermediate_size\": 13824, "
	 "\"vocab_size\": 152064, \"tie_word_embeddings\": false}"},
	{"qwen2.5-32b", 32763876352.0,
	 "{\"model_type\": \"qwen2\", \"hidden_size\": 5120, \"num_hidden_layers\": 64, "
	 "\"num_attention_heads\": 40, \"num_key_value_heads\": 8, \"intermediate_size\": 27648, "
	 "\"vocab_size\": 152064, \"tie_word_embeddings\": false}"},
	{"qwen3-0.6b", 596049920.0,
	 "{\"model_type\": \"qwen3\", \"hidden_size\": 1024, \"num_hidden_layers\": 28, "
	 "\"num_attention_heads\": 16, \"num_key_value_heads\": 8, \"intermediate_size\": 3072, "
	 "\"vocab_size\": 151936, \"tie_word_embeddings\": true, \"head_dim\": 128}"},
	{"qwen3-1.7b", 1720574976.0,
	 "{\"model_type\": \"qwen3\", \"hidden_size\": 2048, \"num_hidden_layers\": 28, "
	 "\"num_attention_heads\": 16, \"num_key_value_heads\": 8, \"intermediate_size\": 6144, "
	 "\"vocab_size\": 151936, \"tie_word_embeddings\": true, \"head_dim\": 128}"},
	{"qwen3-4b", 4022468096.0,
	 "{\"model_type\": \"qwen3\", \"hidden_size\": 2560, \"num_hidden_layers\": 36, "
	 "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 9728, "
	 "\"vocab_size\": 151936, \"tie_word_embeddings\": true, \"head_dim\": 128}"},
	{"qwen3-8b", 8190735360.0,
	 "{\"model_type\": \"qwen3\", \"hidden_size\": 4096, \"num_hidden_layers\": 36, "
	 "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 12288, "
	 "\"vocab_size\": 151936, \"tie_word_embeddings\": false, \"head_dim\": 128}"},
	{"qwen3-14b", 14768307200.0,
	 "{\"model_type\": \"qwen3\", \"hidden_size\": 5120, \"num_hidden_layers\": 40, "
	 "\"num_attention_heads\": 40, \"num_key_value_heads\": 8, \"intermediate_size\": 17408, "
	 "\"vocab_size\": 151936, \"tie_word_embeddings\": false, \"head_dim\": 128}"},
	{"qwen3-32b", 32762123264.0,
	 "{\"model_type\": \"qwen3\", \"hidden_size\": 5120, \"num_hidden_layers\": 64, "
	 "\"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"intermediate_size\": 25600, "
	 "\"vocab_size\": 151936, \"tie_word_embeddings\": false, \"head_dim\": 128}"},
	{"qwen3-30b-a3b", 30532122624.0,
	 "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 2048, \"num_hidden_layers\": 48, "
	 "\"num_attention_heads\": 32, \"num_key_value_heads\": 4, \"intermediate_size\": 6144, "
	 "\"vocab_size\": 151936, \"tie_word_embeddings\": false, \"head_dim\": 128, "
	 "\"num_experts\": 128, \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 768, "
	 "\"decoder_sparse_step\": 1, \"mlp_only_layers\": []}"},
	{"qwen3-235b-a22b", 235093634560.0,
	 "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 4096, \"num_hidden_layers\": 94, "
	 "\"num_attention_heads\": 64, \"num_key_value_heads\": 4, \"intermediate_size\": 12288, "
	 "\"vocab_size\": 151936, \"tie_word_embeddings\": false, \"head_dim\": 128, "
	 "\"num_experts\": 128, \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 1536, "
	 "\"decoder_sparse_step\": 1, \"mlp_only_layers\": []}"},
	{"gemma-2b", 2506172416.0,
	 "{\"model_type\": \"gemma\", \"hidden_size\": 2048, \"num_hidden_layers\": 18, "
	 "\"num_attention_heads\": 8, \"num_key_value_heads\": 1, \"intermediate_size\": 16384, "
	 "\"vocab_size\": 256000, \"tie_word_embeddings\": true, \"head_dim\": 256}"},
	{"gemma-7b", 8537680896.0,
	 "{\"model_type\": \"gemma\", \"hidden_size\": 3072, \"num_hidden_layers\": 28, "
	 "\"num_attention_heads\": 16, \"num_key_value_heads\": 16, \"intermediate_size\": 24576, "
	 "\"vocab_size\": 256000, \"tie_word_embeddings\": true, \"head_dim\": 256}"},
	{"gemma-2-2b", 2614341888.0,
	 "{\"model_type\": \"gemma2\", \"hidden_size\": 2304, \"num_hidden_layers\": 26, "
	 "\"num_attention_heads\": 8, \"num_key_value_heads\": 4, \"intermediate_size\": 9216, "
	 "\"vocab_size\": 256000, \"head_dim\": 256, \"sliding_window\": 4096, "
	 "\"query_pre_attn_scalar\": 256, \"final_logit_softcapping\": 30.0}"},
	{"gemma-2-9b", 9241705984.0,
	 "{\"model_type\": \"gemma2\", \"hidden_size\": 3584, \"num_hidden_layers\": 42, "
	 "\"num_attention_heads\": 16, \"num_key_value_heads\": 8, \"intermediate_size\": 14336, "
	 "\"vocab_size\": 256000, \"head_dim\": 256, \"sliding_window\": 4096}"},
	{"gemma-2-27b", 27227128320.0,
	 "{\"model_type\": \"gemma2\", \"hidden_size\": 4608, \"num_hidden_layers\": 46, "
	 "\"num_attention_heads\": 32, \"num_key_value_heads\": 16, \"intermediate_size\": 36864, "
	 "\"vocab_size\": 256000, \"head_dim\": 128, \"sliding_window\": 4096}"},
	{"gemma-3-270m", 268098176.0,
	 "{\"model_type\": \"gemma3_text\", \"hidden_size\": 640, \"num_hidden_layers\": 18, "
	 "\"num_attention_heads\": 4, \"num_key_value_heads\": 1, \"intermediate_size\": 2048, "
	 "\"vocab_size\": 262144, \"head_dim\": 256, \"sliding_window\": 512, "
	 "\"_sliding_window_pattern\": 6, \"rope_local_base_freq\": 10000.0}"},
	{"gemma-3-1b", 999885952.0,
	 "{\"model_type\": \"gemma3_text\", \"hidden_size\": 1152, \"num_hidden_layers\": 26, "
	 "\"num_attention_heads\": 4, \"num_key_value_heads\": 1, \"intermediate_size\": 6912, "
	 "\"vocab_size\": 262144, \"head_dim\": 256, \"sliding_window\": 512, "
	 "\"sliding_window_pattern\": 6}"},
	{"deepseek-v2-lite", 15706484224.0,
	 "{\"model_type\": \"deepseek_v2\", \"hidden_size\": 2048, \"num_hidden_layers\": 27, "
	 "\"num_attention_heads\": 16, \"num_key_value_heads\": 16, \"intermediate_size\": 10944, "
	 "\"vocab_size\": 102400, \"tie_word_embeddings\": false, \"n_routed_experts\": 64, "
	 "\"num_experts_per_tok\": 6, \"n_shared_experts\": 2, \"moe_intermediate_size\": 1408, "
	 "\"first_k_dense_replace\": 1, \"moe_layer_freq\": 1, \"q_lora_rank\": null, "
	 "\"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, "
	 "\"v_head_dim\": 128}"},
	{"deepseek-v2", 235741434880.0,
	 "{\"model_type\": \"deepseek_v2\", \"hidden_size\": 5120, \"num_hidden_layers\": 60, "
	 "\"num_attention_heads\": 128, \"num_key_value_heads\": 128, "
	 "\"intermediate_size\": 12288, \"vocab_size\": 102400, \"tie_word_embeddings\": false, "
	 "\"n_routed_experts\": 160, \"num_experts_per_tok\": 6, \"n_shared_experts\": 2, "
	 "\"moe_intermediate_size\": 1536, \"first_k_dense_replace\": 1, \"moe_layer_freq\": 1, "
	 "\"q_lora_rank\": 1536, \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, "
	 "\"qk_rope_head_dim\": 64, \"v_head_dim\": 128}"},
	{"deepseek-v3", 671026419200.0,
	 "{\"model_type\": \"deepseek_v3\", \"hidden_size\": 7168, \"num_hidden_layers\": 61, "
	 "\"num_attention_heads\": 128, \"num_key_value_heads\": 128, "
	 "\"intermediate_size\": 18432, \"vocab_size\": 129280, \"tie_word_embeddings\": false, "
	 "\"n_routed_experts\": 256, \"num_experts_per_tok\": 8, \"n_shared_experts\": 1, "
	 "\"moe_intermediate_size\": 2048, \"first_k_dense_replace\": 3, \"moe_layer_freq\": 1, "
	 "\"q_lora_rank\": 1536, \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, "
	 "\"qk_rope_head_dim\": 64, \"v_head_dim\": 128, \"num_nextn_predict_layers\": 1}"},
	/* As transformers builds them. */
	{"qwen3-next-80b-a3b", 79674391296.0,
	 "{\"model_type\": \"qwen3_next\", \"hidden_size\": 2048, \"num_hidden_layers\": 48, "
	 "\"num_attention_heads\": 16, \"num_key_value_heads\": 2, \"head_dim\": 256, "
	 "\"intermediate_size\": 5120, \"vocab_size\": 151936, \"tie_word_embeddings\": false, "
	 "\"full_attention_interval\": 4, \"linear_conv_kernel_dim\": 4, "
	 "\"linear_key_head_dim\": 128, \"linear_num_key_heads\": 16, "
	 "\"linear_num_value_heads\": 32, \"linear_value_head_dim\": 128, \"num_experts\": 512, "
	 "\"num_experts_per_tok\": 10, \"moe_intermediate_size\": 512, "
	 "\"shared_expert_intermediate_size\": 512, \"use_sliding_window\": false}"},
	{"qwen3.5-27b, its language half cut to eight layers", 5586951488.0,
	 "{\"model_type\": \"qwen3_5\", \"tie_word_embeddings\": false, \"text_config\": "
	 "{\"model_type\": \"qwen3_5_text\", \"hidden_size\": 5120, \"num_hidden_layers\": 8, "
	 "\"num_attention_heads\": 24, \"num_key_value_heads\": 4, \"head_dim\": 256, "
	 "\"intermediate_size\": 17408, \"vocab_size\": 248320, \"attn_output_gate\": true, "
	 "\"linear_conv_kernel_dim\": 4, \"linear_key_head_dim\": 128, "
	 "\"linear_num_key_heads\": 16, \"linear_num_value_heads\": 48, "
	 "\"linear_value_head_dim\": 128, \"layer_types\": [\"linear_attention\", "
	 "\"linear_attention\", \"linear_attention\", \"full_attention\", "
	 "\"linear_attention\", \"linear_attention\", \"linear_attention\", "
	 "\"full_attention\"]}}"},
	{"nemotron-3-super-120b-a12b, its first eight layers and one of attention", 13040373248.0,
	 "{\"model_type\": \"nemotron_h\", \"hidden_size\": 4096, \"num_hidden_layers\": 9, "
	 "\"hybrid_override_pattern\": \"MEMEMEM*E\", \"num_attention_heads\": 32, "
	 "\"num_key_value_heads\": 2, \"head_dim\": 128, \"intermediate_size\": 2688, "
	 "\"vocab_size\": 131072, \"tie_word_embeddings\": false, \"mamba_num_heads\": 128, "
	 "\"mamba_head_dim\": 64, \"ssm_state_size\": 128, \"n_groups\": 8, \"conv_kernel\": 4, "
	 "\"n_routed_experts\": 512, \"num_experts_per_tok\": 22, \"n_shared_experts\": 1, "
	 "\"moe_intermediate_size\": 2688, \"moe_shared_expert_intermediate_size\": 5376, "
	 "\"moe_latent_size\": 1024}"},
	{"gpt2", 124439808.0,
	 "{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, "
	 "\"n_positions\": 1024, \"n_ctx\": 1024, \"vocab_size\": 50257}"},
	{"gpt2-medium", 354823168.0,
	 "{\"model_type\": \"gpt2\", \"n_embd\": 1024, \"n_layer\": 24, \"n_head\": 16, "
	 "\"n_positions\": 1024, \"vocab_size\": 50257}"},
	{"gpt2-large", 774030080.0,
	 "{\"model_type\": \"gpt2\", \"n_embd\": 1280, \"n_layer\": 36, \"n_head\": 20, "
	 "\"n_positions\": 1024, \"vocab_size\": 50257}"},
	{"gpt2-xl", 1557611200.0,
	 "{\"model_type\": \"gpt2\", \"n_embd\": 1600, \"n_layer\": 48, \"n_head\": 25, "
	 "\"n_positions\": 1024, \"n_inner\": null, \"vocab_size\": 50257}"},
	{"pythia-1b", 1011781632.0,
	 "{\"model_type\": \"gpt_neox\", \"hidden_size\": 2048, \"num_hidden_layers\": 16, "
	 "\"num_attention_heads\": 8, \"intermediate_size\": 8192, \"vocab_size\": 50304, "
	 "\"tie_word_embeddings\": false, \"rotary_pct\": 0.25}"},
	{"pythia-6.9b", 6857302016.0,
	 "{\"model_type\": \"gpt_neox\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, "
	 "\"num_attention_heads\": 32, \"intermediate_size\": 16384, \"vocab_size\": 50432, "
	 "\"tie_word_embeddings\": false}"},
	{"pythia-12b", 11846072320.0,
	 "{\"model_type\": \"gpt_neox\", \"hidden_size\": 5120, \"num_hidden_layers\": 36, "
	 "\"num_attention_heads\": 40, \"intermediate_size\": 20480, \"vocab_size\": 50688, "
	 "\"tie_word_embeddings\": false}"},
	{"gpt-neox-20b", 20554567680.0,
	 "{\"model_type\": \"gpt_neox\", \"hidden_size\": 6144, \"num_hidden_layers\": 44, "
	 "\"num_attention_heads\": 64, \"intermediate_size\": 24576, \"vocab_size\": 50432, "
	 "\"tie_word_embeddings\": false}"},
	{"opt-1.3b", 1315758080.0,
	 "{\"model_type\": \"opt\", \"hidden_size\": 2048, \"num_hidden_layers\": 24, "
	 "\"num_attention_heads\": 32, \"ffn_dim\": 8192, \"max_position_embeddings\": 2048, "
	 "\"vocab_size\": 50272, \"word_embed_proj_dim\": 2048, \"layerdrop\": 0.0}"},
	{"opt-6.7b", 6658473984.0,
	 "{\"model_type\": \"opt\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, "
	 "\"num_attention_heads\": 32, \"ffn_dim\": 16384, \"max_position_embeddings\": 2048, "
	 "\"vocab_size\": 50272, \"word_embed_proj_dim\": 4096}"},
	{"opt-13b", 12853473280.0,
	 "{\"model_type\": \"opt\", \"hidden_size\": 5120, \"num_hidden_layers\": 40, "
	 "\"num_attention_heads\": 40, \"ffn_dim\": 20480, \"max_position_embeddings\": 2048, "
	 "\"vocab_size\": 50272, \"word_embed_proj_dim\": 5120}"},
	{"opt-30b", 29974540288.0,
	 "{\"model_type\": \"opt\", \"hidden_size\": 7168, \"num_hidden_layers\": 48, "
	 "\"num_attention_heads\": 56, \"ffn_dim\": 28672, \"max_position_embeddings\": 2048, "
	 "\"vocab_size\": 50272, \"word_embed_proj_dim\": 7168}"},
	{"falcon-7b", 6921720704.0,
	 "{\"model_type\": \"falcon\", \"hidden_size\": 4544, \"num_hidden_layers\": 32, "
	 "\"num_attention_heads\": 71, \"num_kv_heads\": 71, \"multi_query\": true, "
	 "\"new_decoder_architecture\": false, \"vocab_size\": 65024, \"alibi\": false, "
	 "\"bias\": false}"},
	{"falcon-40b", 41303293952.0,
	 "{\"model_type\": \"falcon\", \"hidden_size\": 8192, \"num_hidden_layers\": 60, "
	 "\"num_attention_heads\": 128, \"num_kv_heads\": 8, \"multi_query\": true, "
	 "\"new_decoder_architecture\": true, \"vocab_size\": 65024}"},
	{"phi-3-mini-4k", 3821079552.0,
	 "{\"model_type\": \"phi3\", \"hidden_size\": 3072, \"num_hidden_layers\": 32, "
	 "\"num_attention_heads\": 32, \"num_key_value_heads\": 32, \"intermediate_size\": 8192, "
	 "\"vocab_size\": 32064, \"tie_word_embeddings\": false, \"sliding_window\": 2047, "
	 "\"original_max_position_embeddings\": 4096}"},
	{"phi-3-medium-4k", 13960238080.0,
	 "{\"model_type\": \"phi3\", \"hidden_size\": 5120, \"num_hidden_layers\": 40, "
	 "\"num_attention_heads\": 40, \"num_key_value_heads\": 10, \"intermediate_size\": 17920, "
	 "\"vocab_size\": 32064, \"tie_word_embeddings\": false}"},
	{"phi-4", 14659507200.0,
	 "{\"model_type\": \"phi3\", \"hidden_size\": 5120, \"num_hidden_layers\": 40, "
	 "\"num_attention_heads\": 40, \"num_key_value_heads\": 10, \"intermediate_size\": 17920, "
	 "\"vocab_size\": 100352, \"tie_word_embeddings\": false}"},
	{"gpt-oss-20b", 20914757184.0,
	 "{\"model_type\": \"gpt_oss\", \"hidden_size\": 2880, \"num_hidden_layers\": 24, "
	 "\"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"intermediate_size\": 2880, "
	 "\"vocab_size\": 201088, \"tie_word_embeddings\": false, \"head_dim\": 64, "
	 "\"num_local_experts\": 32, \"num_experts_per_tok\": 4, \"experts_per_token\": 4, "
	 "\"sliding_window\": 128, \"swiglu_limit\": 7.0, \"initial_context_length\": 4096}"},
	{"gpt-oss-120b", 116829156672.0,
	 "{\"model_type\": \"gpt_oss\", \"hidden_size\": 2880, \"num_hidden_layers\": 36, "
	 "\"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"intermediate_size\": 2880, "
	 "\"vocab_size\": 201088, \"tie_word_embeddings\": false, \"head_dim\": 64, "
	 "\"num_local_experts\": 128, \"num_experts_per_tok\": 4, \"sliding_window\": 128}"},
	{"jamba-v0.1", 51570323328.0,
	 "{\"architectures\": [\"JambaForCausalLM\"], \"attention_dropout\": 0.0, "
	 "\"attn_layer_offset\": 4, \"attn_layer_period\": 8, \"bos_token_id\": 1, "
	 "\"eos_token_id\": 2, \"expert_layer_offset\": 1, \"expert_layer_period\": 2, "
	 "\"hidden_act\": \"silu\", \"hidden_size\": 4096, \"initializer_range\": 0.02, "
	 "\"intermediate_size\": 14336, \"mamba_conv_bias\": true, \"mamba_d_conv\": 4, "
	 "\"mamba_d_state\": 16, \"mamba_dt_rank\": 256, \"mamba_expand\": 2, "
	 "\"mamba_proj_bias\": false, \"model_type\": \"jamba\", "
	 "\"num_attention_heads\": 32, \"num_experts\": 16, \"num_experts_per_tok\": 2, "
	 "\"num_hidden_layers\": 32, \"num_key_value_heads\": 8, "
	 "\"num_logits_to_keep\": 1, \"output_router_logits\": false, "
	 "\"pad_token_id\": 0, \"rms_norm_eps\": 1e-06, "
	 "\"router_aux_loss_coef\": 0.001, \"sliding_window\": null, "
	 "\"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", "
	 "\"use_cache\": true, \"use_mamba_kernels\": true, \"vocab_size\": 65536}"},
	{"gemma-4-26b-a4b", 25233141790.0,
	 "{\"model_type\": \"gemma4_text\", \"attention_k_eq_v\": true, "
	 "\"enable_moe_block\": true, \"global_head_dim\": 512, \"head_dim\": 256, "
	 "\"hidden_size\": 2816, \"hidden_size_per_layer_input\": 0, "
	 "\"intermediate_size\": 2112, \"moe_intermediate_size\": 704, "
	 "\"num_attention_heads\": 16, \"num_experts\": 128, "
	 "\"num_global_key_value_heads\": 2, \"num_hidden_layers\": 30, "
	 "\"num_key_value_heads\": 8, \"num_kv_shared_layers\": 0, "
	 "\"sliding_window\": 1024, \"tie_word_embeddings\": true, "
	 "\"top_k_experts\": 8, \"use_bidirectional_attention\": \"vision\", "
	 "\"use_double_wide_mlp\": false, \"vocab_size\": 262144}"},
	{"bert-base-uncased", 109514298.0,
	 "{\"model_type\": \"bert\", \"hidden_size\": 768, \"num_hidden_layers\": 12, "
	 "\"num_attention_heads\": 12, \"intermediate_size\": 3072, "
	 "\"max_position_embeddings\": 512, \"type_vocab_size\": 2, \"vocab_size\": 30522, "
	 "\"hidden_dropout_prob\": 0.1}"},
	{"bert-large-uncased", 335174458.0,
	 "{\"model_type\": \"bert\", \"hidden_size\": 1024, \"num_hidden_layers\": 24, "
	 "\"num_attention_heads\": 16, \"intermediate_size\": 4096, "
	 "\"max_position_embeddings\": 512, \"type_vocab_size\": 2, \"vocab_size\": 30522}"},
};

static const char *write_json(const char *text)
{
	char path[] = "/tmp/stepcast-hf-XXXXXX";
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return sc_arena_strdup(&arena, path);
}

FIXTURE(requests_begin, requests_end)

LOOP_TEST(parameters_are_as_published, N_OF(MODELS))
{
	const char *path = write_json(MODELS[_i].json);
	struct sc_config cfg;
	struct sc_model_params params;
	double ratio;

	sc_config_init(&cfg);
	set_all(&cfg,
		"cluster.gpu=h100-sxm-80gb training.software=hf-pytorch gpus=1 training.global_batch=8");
	set_all(&cfg, sc_arena_printf(&arena, "model=%s", path));
	unlink(path);
	if (cfg.model.seq < 0)
		set_all(&cfg, "model.seq=2048");
	sc_transformer_model_params(resolve_config(&cfg), &params);
	ratio = params.total / MODELS[_i].params;
	/* The transform layer before BERT's output, 0.5 %, is in no count of ours. */
	ck_assert_msg(fabs(ratio - 1) < (cfg.model.family == SC_BERT ? 6e-3 : 1e-3),
		      "%s: %.5f of the published parameters", MODELS[_i].name, ratio);
}

/* A file that says whether queries and keys are normalized goes before its type (Llama 4 Maverick).
 */
TEST(norms_of_queries_are_the_files)
{
	for (int has = 0; has < 2; has++) {
		struct sc_config cfg;
		const char *path = write_json(sc_arena_printf(
			&arena,
			"{\"model_type\": \"llama4_text\", \"hidden_size\": 1024, "
			"\"num_hidden_layers\": 4, \"num_attention_heads\": 8, "
			"\"intermediate_size\": 2048, \"intermediate_size_mlp\": 4096, "
			"\"num_local_experts\": 4, \"num_experts_per_tok\": 1, "
			"\"vocab_size\": 32000, \"use_qk_norm\": %s}",
			has ? "true" : "false"));

		sc_config_init(&cfg);
		set_all(&cfg,
			sc_arena_printf(&arena,
					"cluster.gpu=h100-sxm-80gb gpus=1 training.global_batch=8 "
					"model=%s model.seq=2048",
					path));
		unlink(path);
		ck_assert_int_eq(resolve_config(&cfg)->config.model.qk_norm, has);
	}
}

/* What is refused, and the field that the message names. */
static const struct {
	const char *json, *named;
} REFUSED[] = {
	{"{\"model_type\": \"lama\"}", "llama"},
	{"{\"model_type\": [1]}", "model_type"},
	{"{\"model_type\": \"llama\", \"num_memory_blocks\": 4}", "num_memory_blocks"},
	{"{\"model_type\": \"qwen3_moe\", \"decoder_sparse_step\": 0}", "experts_every"},
	{"{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [3]}", "mlp_only_layers"},
	{"{\"model_type\": \"deepseek_v2\", \"moe_layer_freq\": 2}", "moe_layer_freq"},
	{"{\"model_type\": \"bert\", \"is_encoder_decoder\": true}", "is_encoder_decoder"},
	{"{\"model_type\": \"opt\", \"hidden_size\": 1024, \"word_embed_proj_dim\": 512}",
	 "word_embed_proj_dim"},
	{"{\"model_type\": \"llama\", \"hidden_size\": \"wide\"}", "hidden"},
	{"{\"model_type\": \"llama\", \"hidden_size\": 4096.5}", "hidden"},
	{"{\"model_type\": \"llama\", \"hidden_size\": -1}", "hidden"},
	{"{\"model_type\": \"llama\", ", "missing"},
	{"{\"model_type\": \"llama\", \"has_memory\": true}", "has_memory"},
	{"{\"model_type\": \"gemma3_text\", \"use_bidirectional_attention\": true}",
	 "use_bidirectional_attention"},
	{"{\"model_type\": \"gpt_oss\", \"sliding_window\": 4, \"layer_types\": [\"linear\"]}",
	 "layer_types"},
	{"{\"model_type\": \"qwen3_next\", \"num_hidden_layers\": 9, "
	 "\"full_attention_interval\": 4}",
	 "full_attention_interval"},
	{"{\"model_type\": \"qwen2\", \"num_hidden_layers\": 8, \"sliding_window\": 4, "
	 "\"use_sliding_window\": true, \"max_window_layers\": 4}",
	 "max_window_layers"},
};

LOOP_TEST(what_is_not_understood_is_named, N_OF(REFUSED))
{
	const char *path = write_json(REFUSED[_i].json);
	const struct sc_setting set = {"model", path, "test"};
	struct sc_err err = {.code = SC_OK};
	struct sc_config cfg;

	sc_config_init(&cfg);
	ck_assert_int_ne(sc_config_set(&cfg, &set, &arena, &err), 0);
	unlink(path);
	ck_assert_msg(strstr(err.text, REFUSED[_i].named) != NULL, "%s", err.text);
}
