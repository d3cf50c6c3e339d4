# Two ranks of two hosts as torch.profiler writes them: 20 all-reduces that end together, and a kernel before
# each. The clock of rank 1 is 250 us ahead.
function event(cat, name, tid, ts, dur, args) {
	printf ",\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{%s}}", cat, name, cat == "kernel" ? 0 : 9, tid, ts + 250 * rank, dur, args >file
}
function launch(stream, name, ts, dur, args) {
	event("cuda_runtime", "cudaLaunchKernel", 1, ts - 9, 3, "\"correlation\":" ++id)
	event("kernel", name, stream, ts, dur, "\"device\":0,\"stream\":" stream ",\"correlation\":" id args)
}
BEGIN {
	for (rank = 0; rank < 2; rank++) {
		file = "rank" rank ".json"
		id = 0
		printf "{\"schemaVersion\":1,\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":%d,\"world_size\":2},\"traceEvents\":[{\"ph\":\"M\",\"name\":\"process_name\",\"ts\":0,\"pid\":9,\"tid\":0,\"args\":{\"name\":\"python\"}}", rank >file
		for (i = 1; i <= 20; i++) {
			launch(7, "ampere_sgemm_128x64_nn", i * 1000, 400 + 10 * rank)
			launch(20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", i * 1000 + 450 + 20 * rank, 70 - 20 * rank, ",\"Collective name\":\"allreduce\",\"In msg nelems\":1024,\"Out msg nelems\":1024,\"Group size\":2,\"dtype\":\"Float\",\"Process Group Name\":\"0\"")
		}
		print "]}" >file
		close(file)
	}
}
