#compdef stepcast
# zsh completion of stepcast, made by: stepcast --completion zsh
_stepcast_keys() { compadd -S '' -- ${(f)"$(stepcast help keys 2>/dev/null | awk '/^  [a-z]/ { print $1 "=" }')"} }
_stepcast_devices() { compadd -- ${(f)"$(stepcast devices 2>/dev/null | awk 'NR > 1 { print $1 }')"} }
_stepcast() {
	local -a commands=(
		'predict:predict the time of one iteration from a config'
		'sweep:predict many cases over one config'
		'search:find the best split of a model over GPUs, proven under the model'
		'scale:strong or weak scaling, with the best split at each number of GPUs'
		'compare:configs and recordings side by side\: what differs, and what it does'
		'validate:compare predictions with measured times'
		'shard:rank sharding plans of embedding tables, and search for one'
		'c3:what overlapping computation and communication gains'
		'schedule:draw, compare, check or write pipeline schedules'
		'op:time one operation on one GPU, or one collective'
		'collective:time a collective over sizes, or an algorithm file'
		'fit:fit a profile'\''s coefficients to measured times'
		'record:run a command and record what it does on the GPUs'
		'import:read traces of other tools into trace files of our own'
		'export:write traces as Chrome/Perfetto JSON or CSV, or tables of measured times'
		'info:say what trace files have\: ranks, events by class, streams, losses'
		'replay:simulate recorded iterations again, as they were or with changes'
		'config:check a config, show it with every default filled in, or make one of other programs'\'' files'
		'devices:list the GPUs that are shipped'
		'models:list the models that are shipped'
		'clusters:list the clusters that are shipped'
		'software:list the software profiles that are shipped'
		'examples:list the example configs that are shipped'
		'page:the HTML page of a result that was saved as JSON'
		'help:show what a command does')
	if (( CURRENT == 2 )); then
		_describe command commands
		return
	fi
	local command=$words[2]
	shift words
	(( CURRENT-- ))
	case $command in
	predict) _arguments \
		'*--set[override one key of the config, as parallel.tp=4; may be given again]:PATH=VALUE:_stepcast_keys' \
		'--json[write JSON to stdout]' \
		'--confidence[share of measured times that the band holds (default 80)]:PCT:' \
		'--explain[add the largest contributors, what 10 % more of each resource would buy, and what other settings would do]' \
		'--require-fit[end with exit code 3 where it does not fit the memory]' \
		'*--price[of a GPU, or of those GPUs, for an hour, as cluster.price_usd_gpu_hour\: say what a step costs; may be given again]:USD|GPU=USD:' \
		'--tokens[say what a run over so many tokens takes and costs, as 15T; kWh are of the GPUs'\'' board power (tdp_w) alone]:N:' \
		'--samples[the same over so many samples]:N:' \
		'--timeline[write the simulated timeline for Perfetto or chrome\://tracing]:FILE.json:_files' \
		'--chakra[write it as Chakra execution traces, DIR/chakra.N.et for class N of ranks; with --detail full with each operation and collective]:DIR:' \
		'--report[write the result as an HTML page, too]:FILE.html:_files' \
		'--detail[coarse simulates layers as blocks (default), full simulates every operation]:coarse|full:(coarse full)' \
		'--no-jump[simulate every micro-batch instead of skipping the proven steady state]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	sweep) _arguments \
		'--table[one case a row; header cells with a dot are config keys, others are carried through]:CASES.csv:_files' \
		'*--grid[one axis of a grid; given again, all combinations, the last axis fastest]:PATH=A,B,...:_stepcast_keys' \
		'--confidence[share of measured times that the band holds (default 80)]:PCT:' \
		'--json[write JSON to stdout; the CSV then only to -o]' \
		'*--price[of a GPU, or of those GPUs, for an hour, as cluster.price_usd_gpu_hour\: say what a step costs; may be given again]:USD|GPU=USD:' \
		'--tokens[say what a run over so many tokens takes and costs, as 15T; kWh are of the GPUs'\'' board power (tdp_w) alone]:N:' \
		'--samples[the same over so many samples]:N:' \
		'--report[write the result as an HTML page, too]:FILE.html:_files' \
		'*--set[override one key of the config, as parallel.tp=4; may be given again]:PATH=VALUE:_stepcast_keys' \
		'--jobs[threads (default\: one a processor); results do not depend on it]:N:' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	search) _arguments \
		'*--choose[search this key too\: these values, or its usual ones; may be given again]:KEY\[=A,B,...\]:' \
		'*--fix[do not search this key; may be given again]:KEY=VALUE:' \
		'--all[search the whole split, though the config gives it]' \
		'--gpus[so many GPUs, or from so many on, doubled, to so many]:N|FROM\:TO:' \
		'--device[GPUs to choose from]:A,B,...:_stepcast_devices' \
		'--objective[time (default), throughput (of a GPU), cost or energy; two\: their Pareto front]:WHAT\[,WHAT\]:' \
		'*--price[of a GPU, or of those GPUs, for an hour, as cluster.price_usd_gpu_hour\: say what a step costs; may be given again]:USD|GPU=USD:' \
		'--tokens[say what a run over so many tokens takes and costs, as 15T; kWh are of the GPUs'\'' board power (tdp_w) alone]:N:' \
		'--samples[the same over so many samples]:N:' \
		'--memory-margin[share of a GPU'\''s memory that stays free (default\: 0.05)]:SHARE:' \
		'--time-limit[then give the best so far, and how far it can be from the best]:SECONDS:' \
		'--out-cases[write every candidate\: state, floor, memory, time]:FILE.csv:_files' \
		'--confidence[share of measured times that the band holds (default 80)]:PCT:' \
		'--json[write JSON to stdout]' \
		'--report[write the result as an HTML page, too]:FILE.html:_files' \
		'*--set[override one key of the config, as parallel.tp=4; may be given again]:PATH=VALUE:_stepcast_keys' \
		'--jobs[threads (default\: one a processor); results do not depend on it]:N:' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	scale) _arguments \
		'--gpus[so many GPUs, or from so many on, doubled, to so many]:N|FROM\:TO:' \
		'--weak[the batch grows with the GPUs (default\: it stays)]' \
		'--given[what the config gives of the split stays (default\: all of it is searched)]' \
		'*--choose[search this key too; may be given again]:KEY\[=A,B,...\]:' \
		'*--fix[do not search this key; may be given again]:KEY=VALUE:' \
		'--memory-margin[share of a GPU'\''s memory that stays free (default\: 0.05)]:SHARE:' \
		'*--price[of a GPU, or of those GPUs, for an hour, as cluster.price_usd_gpu_hour\: say what a step costs; may be given again]:USD|GPU=USD:' \
		'--tokens[say what a run over so many tokens takes and costs, as 15T; kWh are of the GPUs'\'' board power (tdp_w) alone]:N:' \
		'--samples[the same over so many samples]:N:' \
		'--time-limit[of each size\: then its best so far, which is not proven]:SECONDS:' \
		'--confidence[share of measured times that the band holds (default 80)]:PCT:' \
		'--json[write JSON to stdout]' \
		'--report[write the result as an HTML page, too]:FILE.html:_files' \
		'*--set[override one key of the config, as parallel.tp=4; may be given again]:PATH=VALUE:_stepcast_keys' \
		'--jobs[threads (default\: one a processor); results do not depend on it]:N:' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	compare) _arguments \
		'*--set[override one key of the config, as parallel.tp=4; may be given again]:PATH=VALUE:_stepcast_keys' \
		'--confidence[share of measured times that the band holds (default 80)]:PCT:' \
		'--report[write the result as an HTML page, too]:FILE.html:_files' \
		'--json[write JSON to stdout]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	validate) _arguments \
		'--kind[rows are times of one operation or collective in time_us, as fit reads them, each on its own device, and no CONFIG is given\: gemm, attention, attention_decode, rowwise, optimizer, embedding, host or collective]:KIND:(gemm attention attention_decode rowwise optimizer embedding host collective interference)' \
		'--device[with --kind\: only rows of this GPU]:NAME:_stepcast_devices' \
		'--table[one measured case a row, with a column measured_ms; header cells with a dot are config keys]:CASES.csv:_files' \
		'*--where[take only rows with this value; given again, all must hold]:COLUMN=VALUE:' \
		'*--by[also score each value of the column; may be given again]:COLUMN:' \
		'--max-mape[end with exit code 3 if the mean absolute error is above PCT percent]:PCT:' \
		'--out-cases[write each case with its error, or why it was skipped]:FILE.csv:_files' \
		'--choices[also judge the choice of split\: rows that differ in nothing but parallel.*, micro-batch, recomputation and offload]' \
		'--confidence[share of measured times that the band holds (default 80)]:PCT:' \
		'--leave-out[make a row'\''s band without the measured rows that have the same\: suite, cluster.gpu, training.software, model, nodes, bits]:COLUMN,...:' \
		'--out-likeness[write the errors of the rows as configs/likeness.csv has them, from which bands are made]:FILE.csv:_files' \
		'--report[write the result as an HTML page, too]:FILE.html:_files' \
		'*--set[override one key of the config, as parallel.tp=4; may be given again]:PATH=VALUE:_stepcast_keys' \
		'--jobs[threads (default\: one a processor); results do not depend on it]:N:' \
		'--json[write JSON to stdout]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	shard) _arguments \
		'*--plan[rank this plan; may be given again]:FILE:_files' \
		'--search[search for a plan, at most so long; 0 is one quick descent, the same on every machine (default if no --plan and no --baseline is given)]:SECONDS:' \
		'--time-limit[the same as --search]:SECONDS:' \
		'--objective[what a plan is ranked by\: the predicted step (default), or the busiest rank as that planner costs it]:iteration|torchrec|hugectr:(iteration torchrec hugectr)' \
		'--device-constants[torchrec\: the bandwidths of the config'\''s GPU and cluster in place of its own]' \
		'*--baseline[rank this planner'\''s plan, or all of them; may be given again]:NAME:' \
		'*--constraint[hold the search to it\: "pin TABLE rank=R type=T tier=K", "forbid TABLE ...", "together A B", "apart A B"; may be given again]:TEXT:' \
		'--constraints[the same, one a line]:FILE:_files' \
		'--current[rank this plan, and search from it on, within --max-moved-gib and --max-moved-tables]:FILE:_files' \
		'--max-moved-gib[with --current\: weights that may move (default\: any)]:GIB:' \
		'--max-moved-tables[with --current\: tables that may change (default\: any)]:N:' \
		'--diff[say what changes from this plan to the best one]:FILE:_files' \
		'--pareto[the best cost for less and less GPU memory]' \
		'--draws[draws of model error and drift for best %, regret and ties (default 1000, fewer for more than 4,000 tables, 200 for a plan alone; 0\: none)]:N:' \
		'--kernel-error[one sigma of the kernels'\'' model (default\: the device'\''s embedding spread)]:PCT:' \
		'--collective-error[one sigma of each collective'\''s model (default\: the fabric'\''s spread)]:PCT:' \
		'--drift[one sigma of a table'\''s lookups, from those given (default 10)]:PCT:' \
		'--seed[of all that is random (default 1)]:N:' \
		'--confidence[share of measured times that the band holds (default 80)]:PCT:' \
		'--report[write the result as an HTML page, too]:FILE.html:_files' \
		'*--set[override one key of the config, as parallel.tp=4; may be given again]:PATH=VALUE:_stepcast_keys' \
		'--json[write JSON to stdout]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	c3) _arguments \
		'--table[one pair a row\: device, gpus, dtype, kind, m, n, k, collective, bytes, policy; without policy each is tried under all]:CASES.csv:_files' \
		'--measured[the same with measured compute_us, comm_us, serial_us, overlapped_us\: predictions beside them]:TABLE.csv:_files' \
		'--from[a recording\: kernels that ran beside communication, and the same alone]:DIR:_files' \
		'*--gemm[a matrix product, in bf16 if not said; may be given again]:M,N,K\[,DTYPE\]:' \
		'*--collective[what runs beside each of them, as all_gather\:64M; may be given again]:KIND\:BYTES:' \
		'--kind[of --gemm\: independent (default), all_gather_gemm or gemm_reduce_scatter]:KIND:(independent all_gather_gemm gemm_reduce_scatter)' \
		'--cluster[of --gemm\: the cluster, as clusters/selene.yaml]:FILE:_files' \
		'--device[of --gemm\: the GPU; with --from\: predict for it (default\: as the trace names it)]:ID:_stepcast_devices' \
		'--gpus[of --gemm\: ranks of the collective (default\: the GPUs of a node)]:N:' \
		'--bytes[sizes of the collective to find the best policy of, doubled each time (default 1M\:1G)]:FROM\:TO:' \
		'*--set[override one key of the config, as parallel.tp=4; may be given again]:PATH=VALUE:_stepcast_keys' \
		'*--policy[predict each pair under this policy in place of its own; may be given again]:NAME:' \
		'*--by[also score each value of the column; may be given again]:COLUMN:' \
		'--report[write the result as an HTML page, too]:FILE.html:_files' \
		'--json[write JSON to stdout]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	schedule) _arguments \
		'--pp[pipeline stages (default\: 4)]:P:' \
		'--micro-batches[micro-batches of a step (default\: twice the stages)]:M:' \
		'--virtual-stages[interleaved, breadth-first\: chunks a stage (default\: 2)]:V:' \
		'--replicas[chimera\: pipelines at once (default\: 2)]:N:' \
		'--waves[hanayo\: waves (default\: 1)]:N:' \
		'--times[of a stage\: forward, backward of inputs, of weights, and of what is sent (default\: 1, 1, 1, 0); kept=K\: the share of activations that backward of weights still needs (1)]:f=T,b=T,w=T,send=T:' \
		'*--stage-times[where stages differ\: what of --times the first has otherwise; given again, the second, and so on]:f=T,b=T,w=T:' \
		'--optimize[zb-1p, zb-2p\: look for a better order of the same memory, and say how far from the best possible it may be]' \
		'*--set[override one key of the config, as parallel.tp=4; may be given again]:PATH=VALUE:_stepcast_keys' \
		'--report[write the result as an HTML page, too]:FILE.html:_files' \
		'--json[write JSON to stdout]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- 1f1b gpipe interleaved breadth-first zb-h1 zb-h2 zb-1p zb-2p zb-v v-half v-min chimera hanayo dualpipe dualpipev gems; _files }' ;;
	op) _arguments \
		'--device[the GPU, as a100-sxm-80gb]:NAME:_stepcast_devices' \
		'--cluster[collective\: the cluster, as clusters/selene.yaml (default\: the GPU'\''s usual node)]:FILE:_files' \
		'--beside[another operation on a stream of its own, launched just after it on the same GPU\: how long both take]:'\''KIND KEY=VALUE...'\'':' \
		'--json[write JSON to stdout]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- gemm attention attention_decode rowwise optimizer embedding collective; _files }' ;;
	collective) _arguments \
		'--cluster[the cluster, as clusters/dgx-h100.yaml]:FILE:_files' \
		'--device[the GPU, as h100-sxm-80gb, in its usual node]:NAME:_stepcast_devices' \
		'--bytes[a size, or sizes from A to B, each F times the one before (default\: 8\:16G\:x2); K, M, G are powers of 1,024]:N|A\:B\[\:xF\]:' \
		'--nodes[hosts (default\: those that --ranks or the algorithm'\''s GPUs fill, else 1)]:N:' \
		'--ranks[GPUs (default\: all of the hosts, or the algorithm'\''s)]:N:' \
		'--algorithm[an algorithm in MSCCL'\''s XML, or a common one by name\: proved, walked at each size, and compared with the library'\''s own choice; or one of the library'\''s, as tree]:FILE.xml|NAME\[\:PROTOCOL\[\:CxI\]\]:_files' \
		'--write[write the common algorithm of --algorithm as MSCCL'\''s XML; what is timed is read from it]:FILE.xml:_files' \
		'--measured[measured times, beside\: CSV with bytes and time_us, or what nccl-tests printed]:FILE:_files' \
		'--sends[all_to_all, in place of --bytes\: what each rank sends to each, columns from, to and bytes]:FILE.csv:_files' \
		'*--beside[another that begins with it between the same GPUs, as all_gather\:64M; may be given again]:KIND\:BYTES:' \
		'--place[jobs of so many GPUs on one node at once, each with this collective\: which GPUs to give them (a node whose wiring is known, without switches)]:G,G...:' \
		'--report[write the result as an HTML page, too]:FILE.html:_files' \
		'--json[write JSON to stdout]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- all_reduce all_gather reduce_scatter broadcast reduce gather scatter all_to_all send_recv; _files }' ;;
	fit) _arguments \
		'--kind[which model\: gemm, attention, attention_decode, rowwise, optimizer, embedding, host, collective or interference; or iteration]:KIND:(gemm attention attention_decode rowwise optimizer embedding host collective interference iteration)' \
		'--table[measured times, one a row, plain or gzip; of collectives also what nccl-tests printed]:CSV:_files' \
		'--device[the GPU, as a100-sxm-80gb\: its rows are taken, its profile is where the fit starts]:NAME:_stepcast_devices' \
		'*--where[take only rows with this value, or pattern as alps_*; given again, all must hold]:COLUMN=VALUE:' \
		'*--swap[read column A as B and B as A]:A=B:' \
		'--folds[parts that are held out in turn (default\: 5); a shape is never split]:K:' \
		'--leave-out[in place of folds\: predict the rows of each value of the column by a fit of the others; of device\: of all devices, by their datasheets; collective, of machine\: of all machines; iteration\: of columns A,B,..., for each of their values together]:COLUMN:' \
		'*--hold-out[in place of folds\: predict the rows with any of these values by a fit of the others]:COLUMN=VALUE:' \
		'*--keep[with --leave-out machine\: coefficients that stay as the profile has them, since other measurements set them; a pattern as '\''links nvlink4.*'\''; may be given again]:BLOCK.NAME:' \
		'--launch[sources whose times hold a launch\: auto (default\: where the shortest are far above the model), none or all]:WHICH:(auto none all)' \
		'--curves[gemm, collective\: keep the measured times by size, too; of collectives -o writes a whole fabric file]' \
		'--report[write the result as an HTML page, too]:FILE.html:_files' \
		'*--coef[iteration\: a coefficient, as software.host_op_us or device.gemm.power_eff; may be given again]:NAME\[=START\]:' \
		'--start-from-profile[iteration\: search from the profile'\''s values alone, not from other places, too]' \
		'*--set[override one key of the config, as parallel.tp=4; may be given again]:PATH=VALUE:_stepcast_keys' \
		'--jobs[threads (default\: one a processor); results do not depend on it]:N:' \
		'--json[write JSON to stdout]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	record) _arguments \
		'--iteration-range[the NVTX range that is one iteration (default\: found by what repeats)]:NAME:' \
		'--no-pack[leave the traces as they were written\: larger, readable all the same]' \
		'--recover[run nothing; make whole what killed processes left in DIR]:DIR:' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	import) _arguments \
		'--rank[the rank of the one FILE (default\: what it says, else its name, else its place)]:N:' \
		'--mate[the Kineto trace of the same run as the execution trace FILE\: its times, the ops of both]:TRACE:_files' \
		'--jobs[threads (default\: one a processor); results do not depend on it]:N:' \
		'--json[write JSON to stdout]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	export) _arguments \
		'--format[chrome (default)\: JSON as PyTorch'\''s profiler writes it, for Perfetto and HTA; csv\: events; ops, collectives, host\: tables of what was measured]:chrome|csv|ops|collectives|host:(chrome csv ops collectives host)' \
		'--rank[only this rank (default\: all in one file)]:R:' \
		'--clock[chrome and csv of several ranks\: times on one clock, that of the first (default), or each as its host'\''s clock had it]:merged|own:(merged own)' \
		'--device[tables\: the GPU in the column device, as fit is to find it\: a100-sxm-80gb (default\: what the trace calls it)]:NAME:_stepcast_devices' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	info) _arguments \
		'--check[read every event, not only the index; damage is exit code 3]' \
		'--report[write the result as an HTML page, too]:FILE.html:_files' \
		'--json[write JSON to stdout]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	replay) _arguments \
		'*--scale[operations take FACTOR times as long, as kernel\:gemm=0.8; may be given again, factors multiply]:SELECTOR=FACTOR:' \
		'*--replace[operations take what those of their type do over all ranks, or what our models say; may be given again, the last that matches an operation holds]:SELECTOR=mean|model:' \
		'*--set[another number of GPUs\: more or fewer data-parallel replicas]:gpus=N:' \
		'*--without-straggler[a rank is no slower than the others are on average]:RANK:' \
		'--gaps[launch gaps of a changed replay (default auto\: typical, trimmed of outliers)]:auto|measured|typical|none:(auto measured typical none)' \
		'--overlap[collectives run beside nothing (none), or beside all that the trace does not say to wait for them (free); default\: as-recorded]:none|as-recorded|free:(as-recorded none free)' \
		'--missing[ranks that were not recorded\: as late as they were (recorded, the default), or as early as the recorded ones (symmetric)]:recorded|symmetric:(recorded symmetric)' \
		'--what-if[the cost of each rank'\''s slowness, and slowdowns by rank, stage and operation (default\: yes)]' \
		'--step[whose critical path and timeline are shown (default\: that of the median time)]:STEP:' \
		'--cluster[the config whose GPUs and network our models are asked about]:CONFIG:_files' \
		'--iteration-range[the NVTX ranges or annotations that are iterations (default\: ProfilerStep, else optimizer calls, else ranges named step or iteration, else what repeats)]:PATTERN:' \
		'--json[write JSON to stdout]' \
		'--timeline[write the simulated timeline for Perfetto or chrome\://tracing]:FILE.json:_files' \
		'--report[write the result as an HTML page, too]:FILE.html:_files' \
		'--jobs[threads (default\: one a processor); results do not depend on it]:N:' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	config) _arguments \
		'*--set[override one key of the config, as parallel.tp=4; may be given again]:PATH=VALUE:_stepcast_keys' \
		'--lenient[import\: go without the keys that are not understood, and list them]' \
		'--shim[import\: write programs there that stand for torchrun, python, srun, sbatch and the like, print their arguments and end]:DIR:' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- check show import; _files }' ;;
	devices) _arguments \
		'--json[write JSON to stdout]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	models) _arguments \
		'--json[write JSON to stdout]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	clusters) _arguments \
		'--json[write JSON to stdout]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	software) _arguments \
		'--json[write JSON to stdout]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	examples) _arguments \
		'--json[write JSON to stdout]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	page) _arguments \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- ; _files }' ;;
	help) _arguments \
		'--man[print the man page (roff) instead]' \
		'--markdown[of keys\: as Markdown tables]' \
		'--help[show this text and end]' \
		'--version[show the version and end]' \
		'--output[write the result here (default\: stdout)]:FILE:_files' \
		'--verbose[say more on stderr; given twice, still more]' \
		'--quiet[say nothing on stderr but errors]' \
		'--progress[show progress on stderr (default\: if it is a terminal)]' \
		'*:word:{ compadd -- predict sweep search scale compare validate shard c3 schedule op collective fit record import export info replay config devices models clusters software examples page help; _files }' ;;
	esac
}
if [ "$funcstack[1]" = _stepcast ]; then
	_stepcast "$@"
else
	compdef _stepcast stepcast
fi
