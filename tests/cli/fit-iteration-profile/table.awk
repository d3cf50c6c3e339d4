# A grid of small and large GPT.
BEGIN {
	print "case,model.layers,model.hidden,training.micro_batch,parallel.tp"
	for (i = 0; i < 16; i++)
		printf "c%d,%d,%d,%d,%d\n", i, 4 + 4 * (i % 3), 1024 * (1 + i % 4), 2 ^ (i % 3), 1 + i % 2
}
