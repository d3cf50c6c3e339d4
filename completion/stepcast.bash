# bash completion of stepcast, made by: stepcast --completion bash
_stepcast()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
	local command=${COMP_WORDS[1]} words='' options='' values=''
	if [ "$COMP_CWORD" -eq 1 ]; then
		words="predict sweep search scale compare validate shard c3 schedule op collective fit record import export info replay config devices models clusters software examples page help --help --version --completion"
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
		return
	fi
	case $command in
	predict) words="" options=" --set --json --confidence --explain --require-fit --price --tokens --samples --timeline --chakra --report --detail --no-jump --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	sweep) words="" options=" --table --grid --confidence --json --price --tokens --samples --report --set --jobs -j --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	search) words="" options=" --choose --fix --all --gpus --device --objective --price --tokens --samples --memory-margin --time-limit --out-cases --confidence --json --report --set --jobs -j --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	scale) words="" options=" --gpus --weak --given --choose --fix --memory-margin --price --tokens --samples --time-limit --confidence --json --report --set --jobs -j --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	compare) words="" options=" --set --confidence --report --json --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	validate) words="" options=" --kind --device --table --where --by --max-mape --out-cases --choices --confidence --leave-out --out-likeness --report --set --jobs -j --json --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	shard) words="" options=" --plan --search --time-limit --objective --device-constants --baseline --constraint --constraints --current --max-moved-gib --max-moved-tables --diff --pareto --draws --kernel-error --collective-error --drift --seed --confidence --report --set --json --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	c3) words="" options=" --table --measured --from --gemm --collective --kind --cluster --device --gpus --bytes --set --policy --by --report --json --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	schedule) words="1f1b gpipe interleaved breadth-first zb-h1 zb-h2 zb-1p zb-2p zb-v v-half v-min chimera hanayo dualpipe dualpipev gems" options=" --pp --micro-batches --virtual-stages --replicas --waves --times --stage-times --optimize --set --report --json --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	op) words="gemm attention attention_decode rowwise optimizer embedding collective" options=" --device --cluster --beside --json --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	collective) words="all_reduce all_gather reduce_scatter broadcast reduce gather scatter all_to_all send_recv" options=" --cluster --device --bytes --nodes --ranks --algorithm --write --measured --sends --beside --place --report --json --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	fit) words="" options=" --kind --table --device --where --swap --folds --leave-out --hold-out --keep --launch --curves --report --coef --start-from-profile --set --jobs -j --json --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	record) words="" options=" --iteration-range --no-pack --recover --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	import) words="" options=" --rank --mate --jobs -j --json --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	export) words="" options=" --format --rank --clock --device --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	info) words="" options=" --check --report --json --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	replay) words="" options=" --scale --replace --set --without-straggler --gaps --overlap --missing --what-if --no-what-if --step --cluster --iteration-range --json --timeline --report --jobs -j --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	config) words="check show import" options=" --set --lenient --shim --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	devices) words="" options=" --json --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	models) words="" options=" --json --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	clusters) words="" options=" --json --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	software) words="" options=" --json --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	examples) words="" options=" --json --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	page) words="" options=" --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	help) words="predict sweep search scale compare validate shard c3 schedule op collective fit record import export info replay config devices models clusters software examples page help" options=" --man --markdown --help -h --version --output -o --verbose -v --quiet -q --progress --no-progress" ;;
	esac
	case $command:$before in
	predict:--set) words="$(stepcast help keys 2>/dev/null | awk '/^  [a-z]/ { print $1 "=" }')"; values=yes; compopt -o nospace 2>/dev/null ;;
	predict:--detail) words="coarse full"; values=yes ;;
	sweep:--grid) words="$(stepcast help keys 2>/dev/null | awk '/^  [a-z]/ { print $1 "=" }')"; values=yes; compopt -o nospace 2>/dev/null ;;
	sweep:--set) words="$(stepcast help keys 2>/dev/null | awk '/^  [a-z]/ { print $1 "=" }')"; values=yes; compopt -o nospace 2>/dev/null ;;
	search:--device) words="$(stepcast devices 2>/dev/null | awk 'NR > 1 { print $1 }')"; values=yes ;;
	search:--set) words="$(stepcast help keys 2>/dev/null | awk '/^  [a-z]/ { print $1 "=" }')"; values=yes; compopt -o nospace 2>/dev/null ;;
	scale:--set) words="$(stepcast help keys 2>/dev/null | awk '/^  [a-z]/ { print $1 "=" }')"; values=yes; compopt -o nospace 2>/dev/null ;;
	compare:--set) words="$(stepcast help keys 2>/dev/null | awk '/^  [a-z]/ { print $1 "=" }')"; values=yes; compopt -o nospace 2>/dev/null ;;
	validate:--kind) words="gemm attention attention_decode rowwise optimizer embedding host collective interference"; values=yes ;;
	validate:--device) words="$(stepcast devices 2>/dev/null | awk 'NR > 1 { print $1 }')"; values=yes ;;
	validate:--set) words="$(stepcast help keys 2>/dev/null | awk '/^  [a-z]/ { print $1 "=" }')"; values=yes; compopt -o nospace 2>/dev/null ;;
	shard:--objective) words="iteration torchrec hugectr"; values=yes ;;
	shard:--set) words="$(stepcast help keys 2>/dev/null | awk '/^  [a-z]/ { print $1 "=" }')"; values=yes; compopt -o nospace 2>/dev/null ;;
	c3:--kind) words="independent all_gather_gemm gemm_reduce_scatter"; values=yes ;;
	c3:--device) words="$(stepcast devices 2>/dev/null | awk 'NR > 1 { print $1 }')"; values=yes ;;
	c3:--set) words="$(stepcast help keys 2>/dev/null | awk '/^  [a-z]/ { print $1 "=" }')"; values=yes; compopt -o nospace 2>/dev/null ;;
	schedule:--set) words="$(stepcast help keys 2>/dev/null | awk '/^  [a-z]/ { print $1 "=" }')"; values=yes; compopt -o nospace 2>/dev/null ;;
	op:--device) words="$(stepcast devices 2>/dev/null | awk 'NR > 1 { print $1 }')"; values=yes ;;
	collective:--device) words="$(stepcast devices 2>/dev/null | awk 'NR > 1 { print $1 }')"; values=yes ;;
	fit:--kind) words="gemm attention attention_decode rowwise optimizer embedding host collective interference iteration"; values=yes ;;
	fit:--device) words="$(stepcast devices 2>/dev/null | awk 'NR > 1 { print $1 }')"; values=yes ;;
	fit:--launch) words="auto none all"; values=yes ;;
	fit:--set) words="$(stepcast help keys 2>/dev/null | awk '/^  [a-z]/ { print $1 "=" }')"; values=yes; compopt -o nospace 2>/dev/null ;;
	export:--format) words="chrome csv ops collectives host"; values=yes ;;
	export:--clock) words="merged own"; values=yes ;;
	export:--device) words="$(stepcast devices 2>/dev/null | awk 'NR > 1 { print $1 }')"; values=yes ;;
	replay:--gaps) words="auto measured typical none"; values=yes ;;
	replay:--overlap) words="as-recorded none free"; values=yes ;;
	replay:--missing) words="recorded symmetric"; values=yes ;;
	config:--set) words="$(stepcast help keys 2>/dev/null | awk '/^  [a-z]/ { print $1 "=" }')"; values=yes; compopt -o nospace 2>/dev/null ;;
	esac
	if [ "${word:0:1}" = - ] && [ -z "$values" ]; then
		words=$options
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
	if [ ${#COMPREPLY[@]} -eq 0 ] && [ -z "$values" ]; then
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
	fi
}
complete -o filenames -F _stepcast stepcast
