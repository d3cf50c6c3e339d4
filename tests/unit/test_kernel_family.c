/* Families of kernels: names as the profilers of the traces in ../shared write them (long ones
 * cut), and of libraries that are not in these. */
#include "runner.h"
#include "trace/graph/kernel_family.h"
#include "trace/import/kernel_words.h"

static const struct {
	const char *name;
	enum sc_kernel_family family;
} NAMES[] = {
	/* clang-format off */
	/* experts' exchanges of 2026: DeepEP 2, HybridEP, MORI, Mooncake; what copies within a GPU */
	{"void deep_ep::elastic::hybrid_dispatch_impl<false, true, 24>(int)", SC_FAMILY_COLLECTIVE},
	{"void deep_ep::elastic::combine_impl<24>(int)", SC_FAMILY_COLLECTIVE},
	{"void deep_ep::elastic::dispatch_copy_epilogue_impl<8>(int)", SC_FAMILY_ELEMENTWISE},
	{"void hybrid_ep::dispatch_kernel<hybrid_ep::dispatch_kernel_param_t>(int)", SC_FAMILY_COLLECTIVE},
	{"void hybrid_ep::combine_kernel<4>(int)", SC_FAMILY_COLLECTIVE},
	{"hybrid_ep::device_sync_kernel(unsigned int*, unsigned int*)", SC_FAMILY_COLLECTIVE},
	{"void hybrid_ep::permute_kernel<4>(int)", SC_FAMILY_SORT},
	{"EpDispatchInterNodeKernel_bf16", SC_FAMILY_COLLECTIVE},
	{"EpCombineIntraNodeKernel_bf16_nop2p", SC_FAMILY_COLLECTIVE},
	{"mooncake_ep_jit_dispatch_kernel", SC_FAMILY_COLLECTIVE},
	{"ncclSymkDevKernel_ReduceScatter_LDMC_sum_bf16(ncclSymkDevWorkArgs4K)", SC_FAMILY_COLLECTIVE},
	{"flash_fwd_splitkv_combine_kernel", SC_FAMILY_ATTENTION},
	{"cudnn_generated_fort_native_sdpa_sm100_flash_fprop_f16_knob_7", SC_FAMILY_ATTENTION},
	{"kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at_", SC_FAMILY_ATTENTION},
	{"void deep_gemm::sm100_fp8_gemm_1d1d_impl<0, 0, 128u>", SC_FAMILY_GEMM},
	{"void deep_gemm::sm90_fp8_mqa_logits<64u, 128u>", SC_FAMILY_ATTENTION},
	{"gmm_kernel", SC_FAMILY_GEMM},
	/* linear attention, Mamba, Muon */
	{"chunk_gated_delta_rule_fwd_kernel_h_blockdim64", SC_FAMILY_ATTENTION},
	{"chunk_fwd_kernel_o", SC_FAMILY_ATTENTION},
	{"chunk_bwd_kernel_dqkwg", SC_FAMILY_ATTENTION},
	{"recompute_w_u_fwd_kernel", SC_FAMILY_ATTENTION},
	{"chunk_scaled_dot_kkt_fwd_kernel", SC_FAMILY_ATTENTION},
	{"_chunk_scan_fwd_kernel", SC_FAMILY_ATTENTION},
	{"_chunk_state_bwd_dx_kernel", SC_FAMILY_ATTENTION},
	{"_state_passing_fwd_kernel", SC_FAMILY_ATTENTION},
	{"void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128> >", SC_FAMILY_ATTENTION},
	{"ns_line_1_kernel", SC_FAMILY_OPTIMIZER},
	{"_XXT_kernel", SC_FAMILY_OPTIMIZER},
	{"newton_schulz_kernel", SC_FAMILY_OPTIMIZER},
	{"void muon_kernel<float>", SC_FAMILY_OPTIMIZER},
	{"void transformer_engine::hadamard_transform::HadamardAmaxTmaKernel<4>", SC_FAMILY_ELEMENTWISE},
	{"void transformer_engine::(anonymous namespace)::amax_kernel<4>", SC_FAMILY_REDUCTION},
	{"_unpermute_kernel", SC_FAMILY_SORT},
	{"void moe::dev::routing::routingDeepSeek::routingMainKernel<4>", SC_FAMILY_SORT},
	{"attn_fwd",
	 SC_FAMILY_ATTENTION},
	{"sage_fwd", SC_FAMILY_ATTENTION},
	{"sage_quant_kernel", SC_FAMILY_ATTENTION},
	{"void flashinfer::BatchPrefillWithPagedKVCacheKernel<(flashinfer::MaskMode)1>",
	 SC_FAMILY_ATTENTION},
	{"void cutlass::device_kernel<flash::FlashAttnBwdPreprocess<cute::tuple<cute::C<"
	 "64>, cute::C<192> >, cute::tuple<cute::C<64>, cute::C<128> >, cutlass::bfloat1"
	 "6_t, float, cu",
	 SC_FAMILY_ATTENTION},
	{"void flash::compute_attn_ws<Flash_fwd_kernel_traits<192, 128, 128, 12, 2, fals"
	 "e, 1, cutlass::bfloat16_t, 128>, true, flash::SingleTileScheduler, flash::SeqL"
	 "enTraits<true>",
	 SC_FAMILY_ATTENTION},
	{"void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64"
	 ", 128, 128, 4, false, false, cutlass::bfloat16_t, pytorch_flash::Flash_kernel_"
	 "traits<64, 128",
	 SC_FAMILY_ATTENTION},
	{"ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
	 SC_FAMILY_COLLECTIVE},
	{"ncclKernel_AllReduce",
	 SC_FAMILY_COLLECTIVE},
	{"ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*"
	 ")",
	 SC_FAMILY_COLLECTIVE},
	{"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
	 SC_FAMILY_COLLECTIVE},
	{"void dpsk::ep::internode::cached_notify<false>(int, int, int, int, int*, int, "
	 "int, int const*, int const*, int*, void*, void**, int**, int, int, int, int*, "
	 "bool, int)",
	 SC_FAMILY_COLLECTIVE},
	{"Memcpy DtoD (Device -> Device)",
	 SC_FAMILY_COPY},
	{"Memcpy DtoH (Device -> Pinned)",
	 SC_FAMILY_COPY},
	{"Memcpy HtoD (Host -> Device)",
	 SC_FAMILY_COPY},
	{"Memset (Device)",
	 SC_FAMILY_COPY},
	{"SubTensorOpWithCastTensor1d",
	 SC_FAMILY_COPY},
	{"SubTensorOpWithScalar1d",
	 SC_FAMILY_COPY},
	{"_copy_tensor_kernel",
	 SC_FAMILY_COPY},
	{"batched_transpose_4x64_half",
	 SC_FAMILY_COPY},
	{"transpose_CNHW2NCHW_V2_2D_WG_off64",
	 SC_FAMILY_COPY},
	{"transpose_NCHW2CNHW_V2_2D_WG_off64",
	 SC_FAMILY_COPY},
	{"void cuda::batched_transpose<512, 128, 1, 1>(unsigned char const*, unsigned ch"
	 "ar*, int, int, int)",
	 SC_FAMILY_COPY},
	{"void cudnn::cnn::im2col4d_kernel<float, long>(cudnn::cnn::im2col4d_params, cud"
	 "nnConvolutionStruct, cudnnTensor4dStruct, float const*, float*)",
	 SC_FAMILY_COPY},
	{"void nchwToNhwcKernel<float, float, float, true, false, (cudnnKernelDataType_t"
	 ")0>(int, int, int, int, float const*, float*, float, float)",
	 SC_FAMILY_COPY},
	{"void nhwcToNchwKernel<float, float, float, true, false, (cudnnKernelDataType_t"
	 ")0>(int, int, int, int, float const*, float*, float, float)",
	 SC_FAMILY_COPY},
	{"_ZN2at6native54_GLOBAL__N__d8ceb000_21_DistributionNormal_cu_17e44f7d43distrib"
	 "ution_elementwise_grid_stride_kernelIfLi4EZNS0_9templates4cuda20normal_and_tra"
	 "nsformIffLm4EP",
	 SC_FAMILY_ELEMENTWISE},
	{"rotary_kernel",
	 SC_FAMILY_ELEMENTWISE},
	{"triton__0d1d2d",
	 SC_FAMILY_ELEMENTWISE},
	{"triton__0d1d2d3d",
	 SC_FAMILY_ELEMENTWISE},
	{"triton__0d1d2d3d4d5d",
	 SC_FAMILY_ELEMENTWISE},
	{"triton__0d1d2d3d4d5d6d",
	 SC_FAMILY_ELEMENTWISE},
	{"triton__0d1d2d3d4d5d6d7d8d9d10d11d12d13d14",
	 SC_FAMILY_ELEMENTWISE},
	{"triton_poi_fused_add_cos_sin_0",
	 SC_FAMILY_ELEMENTWISE},
	{"void at::native::(anonymous namespace)::adaptive_average_pool<float>(float con"
	 "st*, float*, int, int, int, int, long, long, long)",
	 SC_FAMILY_ELEMENTWISE},
	{"void cuda::cast_back_impl<__nv_fp8x2_e4m3>(void const*, void*, float const*, i"
	 "nt, int, int, int)",
	 SC_FAMILY_ELEMENTWISE},
	{"void cuda::per_token_cast_back_special_fmt_impl<3>(void const*, void*, float c"
	 "onst*, long, long)",
	 SC_FAMILY_ELEMENTWISE},
	{"void cuda::per_token_cast_to_fp8_with_fp8_special_fmt<__nv_bfloat16, 128, 3>(_"
	 "_nv_bfloat16 const*, void*, float*, int, bool, float)",
	 SC_FAMILY_ELEMENTWISE},
	{"void cuda::swiglu_backward<__nv_bfloat16>(void const*, void const*, void*, int"
	 ", int)",
	 SC_FAMILY_ELEMENTWISE},
	{"void cuda::swiglu_weight_backward_with_weight_impl<__nv_bfloat16>(float*, __nv"
	 "_bfloat16 const*, __nv_bfloat16 const*, int const*, int, int)",
	 SC_FAMILY_ELEMENTWISE},
	{"void cudnn::ops::scalePackedTensor_kernel<float, float>(long, float*, float)",
	 SC_FAMILY_ELEMENTWISE},
	{"void fbgemm_gpu::(anonymous namespace)::_compute_FP8_quantize_cuda_kernel<floa"
	 "t>(float const*, float const*, int, int, unsigned char*, bool)",
	 SC_FAMILY_ELEMENTWISE},
	{"split_embedding_backward_codegen_adagrad_unweighted_find_long_segments(at::Gen"
	 "ericPackedTensorAccessor<int, 1ul, at::RestrictPtrTraits, int>, at::GenericPac"
	 "kedTensorAcces",
	 SC_FAMILY_EMBEDDING},
	{"void bounds_check_indices_kernel<long>(at::GenericPackedTensorAccessor<long, 1"
	 "ul, at::RestrictPtrTraits, int>, at::GenericPackedTensorAccessor<long, 1ul, at"
	 "::RestrictPtrT",
	 SC_FAMILY_EMBEDDING},
	{"void dense_embedding_codegen_forward_unweighted_kernel<float, float, float, lo"
	 "ng, 1ul, 8ul>(at::GenericPackedTensorAccessor<float, 1ul, at::RestrictPtrTrait"
	 "s, long>, at::",
	 SC_FAMILY_EMBEDDING},
	{"void fbgemm_gpu::(anonymous namespace)::_FP8rowwise_to_float_cuda_kernel<float"
	 ">(unsigned char const*, int, int, float*, bool)",
	 SC_FAMILY_EMBEDDING},
	{"void fbgemm_gpu::_block_bucketize_sparse_features_cuda_kernel1<int, int>(int, "
	 "int, int const*, int, int const*, int const*, int*)",
	 SC_FAMILY_EMBEDDING},
	{"void fbgemm_gpu::_offsets_range_cuda_kernel<int>(long, long, int const*, int*)",
	 SC_FAMILY_EMBEDDING},
	{"void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int, int const*, int cons"
	 "t*, int*)",
	 SC_FAMILY_EMBEDDING},
	{"void linearize_index_kernel<long>(at::GenericPackedTensorAccessor<long, 1ul, a"
	 "t::RestrictPtrTraits, int>, at::GenericPackedTensorAccessor<long, 1ul, at::Res"
	 "trictPtrTraits",
	 SC_FAMILY_EMBEDDING},
	{"void permute_pooled_embs_kernel<float>(float const*, long const*, long const*,"
	 " long const*, float*, long, long, long)",
	 SC_FAMILY_EMBEDDING},
	{"void recat_copy_async_kernel<float>(long const*, long const*, float const*, fl"
	 "oat*, long, long, long)",
	 SC_FAMILY_EMBEDDING},
	{"void split_embedding_backward_codegen_adagrad_unweighted_kernel_cta_per_row_1<"
	 "float, float, float, 1ul, 8>(at::GenericPackedTensorAccessor<float, 2ul, at::R"
	 "estrictPtrTrai",
	 SC_FAMILY_EMBEDDING},
	{"ampere_gcgemm_64x64_nt",
	 SC_FAMILY_GEMM},
	{"ampere_sgemm_128x128_tt",
	 SC_FAMILY_GEMM},
	{"ampere_sgemm_32x128_nt",
	 SC_FAMILY_GEMM},
	{"ampere_sgemm_32x128_tn",
	 SC_FAMILY_GEMM},
	{"ampere_sgemm_32x32_sliced1x4_nn",
	 SC_FAMILY_GEMM},
	{"ampere_sgemm_64x64_nn",
	 SC_FAMILY_GEMM},
	{"cask_cudnn::computeBOffsetsKernel(cask_cudnn::ComputeBOffsetsParams)",
	 SC_FAMILY_GEMM},
	{"cask_cudnn::computeOffsetsKernel(cask_cudnn::ComputeOffsetsParams)",
	 SC_FAMILY_GEMM},
	{"cask_cudnn::computeWgradBOffsetsKernel(cask_cudnn::ComputeWgradBOffsetsParams)",
	 SC_FAMILY_GEMM},
	{"cask_cudnn_infer::computeBOffsetsKernel(cask_cudnn_infer::ComputeBOffsetsParam"
	 "s)",
	 SC_FAMILY_GEMM},
	{"cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1",
	 SC_FAMILY_GEMM},
	{"cudnn_infer_ampere_scudnn_128x64_relu_xregs_large_nn_v1",
	 SC_FAMILY_GEMM},
	{"cudnn_infer_volta_scudnn_128x64_relu_small_nn_v1",
	 SC_FAMILY_GEMM},
	{"cudnn_train_volta_scudnn_128x128_stridedB_splitK_medium_nn_v1",
	 SC_FAMILY_GEMM},
	{"volta_scudnn_128x32_sliced1x4_ldg4_relu_exp_small_nhwc_tn_v1",
	 SC_FAMILY_GEMM},
	{"volta_scudnn_128x64_relu_interior_nn_v1",
	 SC_FAMILY_GEMM},
	{"volta_scudnn_128x64_relu_medium_nn_v1",
	 SC_FAMILY_GEMM},
	{"volta_scudnn_128x64_relu_small_nn_v1",
	 SC_FAMILY_GEMM},
	{"volta_scudnn_128x64_relu_xregs_large_nn_v1",
	 SC_FAMILY_GEMM},
	{"volta_scudnn_128x64_stridedB_small_nn_v1",
	 SC_FAMILY_GEMM},
	{"volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
	 SC_FAMILY_GEMM},
	{"volta_sgemm_32x32_sliced1x4_nn",
	 SC_FAMILY_GEMM},
	{"volta_sgemm_64x64_nn",
	 SC_FAMILY_GEMM},
	{"volta_sgemm_64x64_nt",
	 SC_FAMILY_GEMM},
	{"volta_sgemm_64x64_tn",
	 SC_FAMILY_GEMM},
	{"volta_sgemm_64x64_tt",
	 SC_FAMILY_GEMM},
	{"void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float, float>"
	 "(long, float, float const*, float*, float*)",
	 SC_FAMILY_NORM},
	{"void at::native::batch_norm_backward_kernel<c10::BFloat16, c10::BFloat16, floa"
	 "t, int>(at::GenericPackedTensorAccessor<c10::BFloat16 const, 3ul, at::DefaultP"
	 "trTraits, int>",
	 SC_FAMILY_NORM},
	{"void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 32, true, 1>(float, fl"
	 "oat, float, float, cudnnTensorStruct, float const*, cudnnTensorStruct, float c"
	 "onst*, cudnnTe",
	 SC_FAMILY_NORM},
	{"void cudnn::bn_bw_1C11_singleread<float, 512, true, 1, 2, 0>(cudnn::bn_bw_1C11"
	 "_args<float>)",
	 SC_FAMILY_NORM},
	{"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(cudnnTensorS"
	 "truct, float const*, cudnnTensorStruct, float*, float const*, float const*, fl"
	 "oat, float, fl",
	 SC_FAMILY_NORM},
	{"void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(cudnn::bn_fw_t"
	 "r_1C11_args<float>)",
	 SC_FAMILY_NORM},
	{"void layer_norm::ln_bwd_finalize_kernel<layer_norm::Kernel_traits_finalize<512"
	 "u, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, unsigned"
	 " int, false, 1",
	 SC_FAMILY_NORM},
	{"void layer_norm::ln_fwd_kernel<layer_norm::Kernel_traits<__nv_bfloat16, __nv_b"
	 "float16, __nv_bfloat16, __nv_bfloat16, float, unsigned int, 512u, 1u, 4u, 1u, "
	 "16u, layer_nor",
	 SC_FAMILY_NORM},
	{"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::"
	 "(anonymous namespace)::TensorListMetadata<2>, at::native::(anonymous namespace"
	 ")::BinaryOpLis",
	 SC_FAMILY_OPTIMIZER},
	{"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, floa"
	 "t, float, float, float, float, float, adamMode_t, float, int, int>(int, int vo"
	 "latile*, Tenso",
	 SC_FAMILY_OPTIMIZER},
	{"at::cuda::(anonymous namespace)::spin_kernel(long)",
	 SC_FAMILY_OTHER},
	{"cuda::aux_fi_impl(long const*, float*, int, int, int, int)",
	 SC_FAMILY_OTHER},
	{"cuda::unique_group_indices_impl(long*, int, int, int)",
	 SC_FAMILY_OTHER},
	{"void at::to_dense_representation_kernel<float>(long, long, long const*, float "
	 "const*, long const*, float*)",
	 SC_FAMILY_OTHER},
	{"void compute_cuda_kernel<long>(long*, long*, long*, long, long)",
	 SC_FAMILY_OTHER},
	{"void cuda::clean_and_count_expert<512>(long const*, int*, int*, int*, int*, in"
	 "t*, int, int, int, int)",
	 SC_FAMILY_OTHER},
	{"void cuda::get_fused_mapping<512>(long const*, int*, int*, int*, int*, int*, i"
	 "nt*, int const*, int, int, int)",
	 SC_FAMILY_OTHER},
	{"void dpsk::ep::cuda::get_dispatch_layout<256, 32, 8>(long const*, int*, int*, "
	 "int*, bool*, int, int, int, int)",
	 SC_FAMILY_OTHER},
	{"void scal_kernel<float, float, 1, false, 6, 5, 5, 3>(cublasTransposeParams<flo"
	 "at>, float const*, float*, float const*)",
	 SC_FAMILY_OTHER},
	{"void at::native::(anonymous namespace)::nll_loss_backward_reduce_cuda_kernel_2"
	 "d<float, long>(float*, float*, long*, float*, float*, bool, int, int, long, lo"
	 "ng)",
	 SC_FAMILY_REDUCTION},
	{"void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d"
	 "<float, float, long>(float*, float*, float*, long*, float*, bool, long, long, "
	 "long, long)",
	 SC_FAMILY_REDUCTION},
	{"void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, at::native:"
	 ":MaxOps<float>, unsigned int, float, 4> >(at::native::ReduceOp<float, at::nati"
	 "ve::MaxOps<flo",
	 SC_FAMILY_REDUCTION},
	{"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<bool, at::native::"
	 "func_wrapper_t<bool, at::native::and_kernel_cuda(at::TensorIterator&)::{lambda"
	 "()#1}::operato",
	 SC_FAMILY_REDUCTION},
	{"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<c10::BFloat16, at:"
	 ":native::MeanOps<c10::BFloat16, float, float, c10::BFloat16>, unsigned int, c1"
	 "0::BFloat16, 4",
	 SC_FAMILY_REDUCTION},
	{"void cunn_ClassNLLCriterion_updateGradInput_kernel<float>(float*, float*, long"
	 "*, float*, float*, int, int, int, int, long)",
	 SC_FAMILY_REDUCTION},
	{"void cunn_ClassNLLCriterion_updateOutput_kernel<float, float>(float*, float*, "
	 "float*, long*, float*, int, int, int, int, long)",
	 SC_FAMILY_REDUCTION},
	{"void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true"
	 ">(float*, float const*, int, int, int)",
	 SC_FAMILY_SOFTMAX},
	{"void (anonymous namespace)::indexing_backward_kernel<float, 4>(long*, long*, f"
	 "loat*, float*, long, long, long, long, bool)",
	 SC_FAMILY_SORT},
	{"void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, l"
	 "ong, unsigned int, 2, 2, -2, true>(at::cuda::detail::TensorInfo<c10::BFloat16,"
	 " unsigned int>",
	 SC_FAMILY_SORT},
	{"void at::native::(anonymous namespace)::indexSelectLargeIndex<float, int, unsi"
	 "gned int, 1, 1, -2, true>(at::cuda::detail::TensorInfo<float, unsigned int>, a"
	 "t::cuda::detai",
	 SC_FAMILY_SORT},
	{"void at::native::(anonymous namespace)::indexSelectLargeIndex<long, long, unsi"
	 "gned int, 1, 1, -2, true>(at::cuda::detail::TensorInfo<long, unsigned int>, at"
	 "::cuda::detail",
	 SC_FAMILY_SORT},
	{"void at::native::(anonymous namespace)::searchsorted_cuda_kernel<float, long>("
	 "long*, float const*, float const*, long const*, long, long, long, bool, bool)",
	 SC_FAMILY_SORT},
	{"void at::native::_scatter_gather_elementwise_kernel<128, 4, at::native::_cuda_"
	 "scatter_fill_internal_kernel<at::native::OpaqueType<1> >::operator()<at::nativ"
	 "e::TensorAssig",
	 SC_FAMILY_SORT},
	{"void at::native::indexFuncLargeIndex<float, int, unsigned int, 1, 1, -2, true,"
	 " at::native::(anonymous namespace)::ReduceAdd>(at::cuda::detail::TensorInfo<fl"
	 "oat, unsigned ",
	 SC_FAMILY_SORT},
	{"void at_cuda_detail::cub::DeviceScanInitKernel<at_cuda_detail::cub::ScanTileSt"
	 "ate<long, true> >(at_cuda_detail::cub::ScanTileState<long, true>, int)",
	 SC_FAMILY_SORT},
	{"void cub::DeviceCompactInitKernel<cub::ReduceByKeyScanTileState<int, int, true"
	 ">, int*>(cub::ReduceByKeyScanTileState<int, int, true>, int, int*)",
	 SC_FAMILY_SORT},
	{"void cub::DeviceRadixSortExclusiveSumKernel<cub::DeviceRadixSortPolicy<long, i"
	 "nt, int>::Policy800, int>(int*)",
	 SC_FAMILY_SORT},
	{"void cub::DeviceRadixSortHistogramKernel<cub::DeviceRadixSortPolicy<long, int,"
	 " int>::Policy800, false, long, int>(int*, long const*, int, int, int)",
	 SC_FAMILY_SORT},
	{"void cub::DeviceScanInitKernel<cub::ScanTileState<int, true> >(cub::ScanTileSt"
	 "ate<int, true>, int)",
	 SC_FAMILY_SORT},
	{"void cub::DeviceScanInitKernel<cub::ScanTileState<long, true> >(cub::ScanTileS"
	 "tate<long, true>, int)",
	 SC_FAMILY_SORT},
	{"void cuda::topk_sum_and_topk_idx<16, 64>(float const*, long*, int, int, int, i"
	 "nt, int)",
	 SC_FAMILY_SORT},
	/* not in these traces */
	{"void multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned lo"
	 "ng, unsigned int**, unsigned long, unsigned long)",
	 SC_FAMILY_COLLECTIVE},
	{"void c10d::symmetric_memory::multimem_one_shot_all_reduce_kernel<c10::BFloat16"
	 ", 16>(c10::BFloat16*)",
	 SC_FAMILY_COLLECTIVE},
	{"void one_shot_all_reduce_kernel<c10::BFloat16, 16, 8>(c10::BFloat16**)",
	 SC_FAMILY_COLLECTIVE},
	{"void tensorrt_llm::kernels::twoShotAllReduceKernel<__nv_bfloat16, 8, true>(ten"
	 "sorrt_llm::kernels::AllReduceParams)",
	 SC_FAMILY_COLLECTIVE},
	{"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
	 SC_FAMILY_COLLECTIVE},
	{"userbuffers_fp16_sum_inplace_gpu_rr_rs_oop_sms_mc(int, int)",
	 SC_FAMILY_COLLECTIVE},
	{"void oneflow::cuda::softmax::BlockAllReduceSoftmax<float>(float*)",
	 SC_FAMILY_SOFTMAX},
	{"void multi_tensor_apply_kernel<TensorListMetadata<4>, LAMBStage1Functor<float,"
	 " float>>(int)",
	 SC_FAMILY_OPTIMIZER},
	{"_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_15sin_kernel_cudaERNS_"
	 "18TensorIteratorBaseEENKUlvE0_clEvENKUlvE0_clEvEUlfE_EEviT0_",
	 SC_FAMILY_ELEMENTWISE},
	{"void kokkos::parallel_for<hydro::advance(double)::{lambda(int)#1}>(hydro::adva"
	 "nce(double)::{lambda(int)#1})",
	 SC_FAMILY_OTHER},
	{"void Kokkos::Impl::cuda_parallel_launch_local_memory<Kokkos::Impl::ParallelFor"
	 "<main::{lambda(int)#1}>>(int)",
	 SC_FAMILY_OTHER},
	{"void calc_lambda_flux(double*)",
	 SC_FAMILY_OTHER},
	{"triton_red_fused__to_copy_add_mean_3",
	 SC_FAMILY_REDUCTION},
	{"triton_per_fused_native_layer_norm_native_layer_norm_backward_7",
	 SC_FAMILY_NORM},
	{"triton_tem_fused_mm_12",
	 SC_FAMILY_GEMM},
	{"nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT",
	 SC_FAMILY_GEMM},
	{"volta_fp16_s884cudnn_fp16_128x128_ldg8_relu_exp_small_nhwc_tn_v1",
	 SC_FAMILY_GEMM},
	{"fmha_v2_flash_attention_bf16_64_64_S_qkv_128_sm90_kernel",
	 SC_FAMILY_ATTENTION},
	{"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_"
	 "4x1x1_kernel0_0",
	 SC_FAMILY_ATTENTION},
	/* clang-format on */
};
enum { N_NAMES = sizeof(NAMES) / sizeof(NAMES[0]) };

LOOP_TEST(test_families, N_NAMES)
{
	ck_assert_msg(sc_kernel_family_of(NAMES[_i].name) == NAMES[_i].family, "%s: %s, not %s",
		      NAMES[_i].name, sc_kernel_family_name(sc_kernel_family_of(NAMES[_i].name)),
		      sc_kernel_family_name(NAMES[_i].family));
}

TEST(test_words)
{
	struct sc_kernel_words w;

	sc_kernel_words_split("void ns::LAMBStage2_softMax<At<int>, lambda()>::run(GemmArgs)", &w);
	ck_assert_str_eq(w.own.text, "void nslambstage2softmax run");
	ck_assert_str_eq(w.arguments.text, "at int lambda ");
	ck_assert(sc_words_have(&w.own, "lamb"));
	ck_assert(sc_words_have(&w.own, "softmax"));
	ck_assert(sc_words_have(&w.own, "max"));
	ck_assert(!sc_words_have(&w.own, "oft"));
	ck_assert(!sc_words_have(&w.own, "soft max"));
	ck_assert(!sc_words_have(&w.own, "gemm"));
	ck_assert(!sc_words_have(&w.arguments, "lamb"));
	sc_kernel_words_split("_ZN2ns3runINS_4GemmILi128ELb1EEEEEvS1_T0_", &w);
	ck_assert_str_eq(w.own.text, "nsrun");
	ck_assert(sc_words_have(&w.arguments, "gemm"));
	ck_assert(!sc_words_have(&w.own, "gemm"));
}

/* Whatever a trace says is a name: longer than there is room, brackets that do not close, lengths
 * that lie. */
TEST(test_hostile_names)
{
	static const char *const PARTS[] = {
		"_Z99999999999999999999", "<", "(", ">", "operator()", "lambda(", "S_", "Li", "x"};
	static char name[8192];
	struct sc_kernel_words w;

	for (size_t p = 0; p < sizeof(PARTS) / sizeof(PARTS[0]); p++) {
		name[0] = '\0';
		for (size_t n = 0; n + strlen(PARTS[p]) < sizeof(name) - 1; n += strlen(PARTS[p]))
			strcpy(name + n, PARTS[p]);
		sc_kernel_words_split(name, &w);
		ck_assert_uint_lt(w.own.n, SC_WORDS_MAX);
		ck_assert_uint_eq(strlen(w.own.text), w.own.n);
		ck_assert_uint_eq(strlen(w.arguments.text), w.arguments.n);
	}
	sc_kernel_words_split("", &w);
	ck_assert_uint_eq(w.own.n, 0);
}
