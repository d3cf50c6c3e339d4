# A job of 2 replicas and 2 stages, 2 micro-batches, 3 steps; rank 0 is slow. Times in seconds.
# One-forward-one-backward: 0.010 forward, 0.020 backward, 0.001 to send.
function row(type, start, end, seq) {
	printf "%d,%d,%d,%d,%s,%.6f,%.6f,%d,0,%d,%d\n", dp, stage, stage * 2 + dp, step, type, start, end - start, seq, seq, stage
}
function most(a, b) { return a > b ? a : b }
BEGIN {
	print "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc"
	for (step = 1; step <= 3; step++) {
		for (dp = 0; dp < 2; dp++) {
			slow = dp == 0 ? 1.5 : 1
			f = 0.010 * slow * (1 + step / 100); b = 0.020 * slow; F = 0.010; B = 0.020; t = 0.001
			f0 = f; f1 = 2 * f                          # ends of the forwards of stage 0
			r0 = f0 + t; F0 = r0 + F; B0 = F0 + B       # stage 1: first micro-batch
			r1 = most(f1, F0) + t; F1 = most(r1, B0) + F; B1 = F1 + B
			g0 = B0 + t; b0 = most(g0, f1) + b          # stage 0: gradients come back
			g1 = most(B1, b0) + t; b1 = g1 + b
			end[dp] = b1
			stage = 0
			row("forward-compute", 0, f0, 0); row("forward-compute", f0, f1, 1)
			row("forward-send", f0, r0, 0); row("forward-send", f1, r1, 1)
			row("backward-recv", f0, g0, 0); row("backward-recv", b0, g1, 1)
			row("backward-compute", g0, b0, 0); row("backward-compute", g1, b1, 1)
			stage = 1
			row("forward-recv", 0, r0, 0); row("forward-recv", F0, r1, 1)
			row("forward-compute", r0, F0, 0); row("forward-compute", B0, F1, 1)
			row("backward-compute", F0, B0, 0); row("backward-compute", F1, B1, 1)
			row("backward-send", B0, g0, 0); row("backward-send", B1, g1, 1)
			last[dp] = B1
		}
		for (dp = 0; dp < 2; dp++) {
			s = most(end[0], end[1]) + 0.004
			S = most(last[0], last[1]) + 0.004
			c = most(s, S) + 0.001
			stage = 0; row("grads-reduce-scatter", end[dp], s, 0); row("optimizer-clip-main-grad", s, c, 0)
			row("optimizer", c, c + 0.003, 0)
			stage = 1; row("grads-reduce-scatter", last[dp], S, 0); row("optimizer-clip-main-grad", S, c, 0)
			row("optimizer", c, c + 0.003, 0)
		}
	}
}
