# A run of 2 ranks as torch.profiler writes it: 3 steps of forward, backward with gradients of 1, 1 and 2 MiB
# beside it, an optimizer, and a copy that the host waits for. Rank 1 computes longer; rank 0 waits for it.
# With -v ranks=1 only rank 0 is written; -v bytes=0 leaves the sizes out; -v devices=N lists that many of the
# host; -v world=N says that there were so many ranks.
function event(cat, name, tid, ts, dur, args) {
	printf ",\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{%s}}", cat, name, cat ~ /^(kernel|gpu_memcpy)$/ ? 0 : 9, tid, ts, dur, args >file
}
function launch(tid, stream, cat, name, ts, dur, args) {
	call += 4
	event("cuda_runtime", cat == "kernel" ? "cudaLaunchKernel" : "cudaMemcpyAsync", tid, call, cat == "kernel" ? 3 : ts + dur + 4 - call, "\"correlation\":" ++id)
	event(cat, name, stream, ts, dur, "\"device\":0,\"stream\":" stream ",\"correlation\":" id args)
	return ts + dur
}
function reduce(mib, ready, end) {
	if (ready < reduced)
		ready = reduced + 1
	reduced = end
	launch(2, 20, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", ready, end - ready, bytes == "0" ? "" : ",\"Collective name\":\"allreduce\",\"In msg nelems\":" mib * 262144 ",\"Out msg nelems\":" mib * 262144 ",\"Group size\":" (world ? world : 2) ",\"dtype\":\"Float\",\"Process Group Name\":\"0\"")
}
function step(n, slow,   begin, t, last, both) {
	begin = 1000 + n * 100000
	call = reduced = begin
	t = launch(1, 7, "kernel", "ampere_sgemm_128x64_tn", begin + 10, 10000 * slow)
	both = begin + 10 + 10000 * 1.5
	for (last = 1; last <= 3; last++) {
		t = launch(2, 7, "kernel", "ampere_sgemm_128x64_nn", t, 5000 * slow)
		both += 5000 * 1.5
		reduce(last == 3 ? 2 : 1, t + 1, both + 1 + (last == 3 ? 5000 : 3000))
	}
	t = launch(1, 7, "kernel", "multi_tensor_apply_kernel", both + 1 + 5000 + 3, 4000)
	t = launch(1, 7, "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", t + 1, 500)
	event("user_annotation", "train_step", 1, begin, t + 30 - begin, "")
	event("user_annotation", "ProfilerStep#" n, 1, begin, t + 40 - begin, "")
}
BEGIN {
	for (rank = 0; rank < (ranks ? ranks : 2); rank++) {
		file = "rank" rank ".json"
		id = 0
		printf "{\"schemaVersion\":1," >file
		if (devices) {
			printf "\"deviceProperties\":[" >file
			for (n = 0; n < devices; n++)
				printf "%s{\"id\":%d,\"name\":\"Tesla V100\"}", n ? "," : "", n >file
			printf "]," >file
		}
		printf "\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":%d,\"world_size\":%d},\"traceEvents\":[{\"ph\":\"M\",\"name\":\"process_name\",\"ts\":0,\"pid\":9,\"tid\":0,\"args\":{\"name\":\"python\"}}", rank, world ? world : 2 >file
		for (n = 0; n < 3; n++)
			step(n, rank ? 1.5 : 1)
		print "]}" >file
		close(file)
	}
}
