# A rank as torch.profiler writes it: products of several sizes, forward with TF32 on tensor cores and backward
# without, three of each or -v n=N (then norms of one to three kernels, too); each forward's
# kernel runs beside an all-reduce, each backward's alone.
function event(cat, name, tid, ts, dur, args) {
	printf ",\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{%s}}", cat, name, cat == "kernel" ? 0 : 9, tid, ts, dur, args
}
function launch(stream, name, at, ts, dur, args) {
	event("cuda_runtime", "cudaLaunchKernel", 1, at, 3, "\"correlation\":" ++id)
	event("kernel", name, stream, ts, dur, "\"device\":0,\"stream\":" stream ",\"correlation\":" id args)
}
function product(op, m, n, k, at) {
	event("cpu_op", op, 1, at, 20, op == "aten::addmm" ? sprintf("\"Input Dims\":[[%d],[%d,%d],[%d,%d]],\"Input type\":[\"float\",\"float\",\"float\"]", n, m, k, k, n) : sprintf("\"Input Dims\":[[%d,%d],[%d,%d]],\"Input type\":[\"float\",\"float\"]", m, k, k, n))
}
BEGIN {
	printf "{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":0,\"name\":\"NVIDIA A100-SXM4-80GB\"}],\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":0,\"world_size\":2},\"traceEvents\":[{\"ph\":\"M\",\"name\":\"process_name\",\"ts\":0,\"pid\":9,\"tid\":0,\"args\":{\"name\":\"python\"}}"
	for (i = 1; i <= (n ? n : 3); i++) {
		at = 1000 * i
		product("aten::addmm", 64 * i, 128, 256 * i, at)
		launch(7, "cutlass_80_tensorop_s1688gemm_64x64_tn", at + 5, at + 20, 10 * i)
		launch(20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", at + 30, at + 25, 100, ",\"Collective name\":\"allreduce\",\"In msg nelems\":1024,\"Out msg nelems\":1024,\"Group size\":2,\"dtype\":\"Float\",\"Process Group Name\":\"0\"")
		event("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 1, at + 300, 90, "")
		product("aten::mm", 256 * i, 128, 64 * i, at + 320)
		launch(7, "ampere_sgemm_64x64_nn", at + 325, at + 340, 20 * i)
		if (n)
			event("cpu_op", "aten::group_norm", 1, at + 500, 40, "")
		for (k = 0; n && k <= i % 3; k++)
			launch(7, "norm_kernel", at + 505 + 10 * k, at + 900 + 5 * k, 4)
	}
	print "]}"
}
