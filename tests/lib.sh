# shellcheck shell=bash
# Shared by the runners of cases (bash, sourced). Needs $STEPCAST, the program.
# A case runs in a scratch copy of its files with `configs` beside them, as in the source tree.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CASE_TIMEOUT_S=${CASE_TIMEOUT_S:-120}
name= # of the case that runs
n_passed=0
n_failed=0

if [ ! -x "${STEPCAST:=$root/build/release/stepcast}" ]; then
	echo "no program at $STEPCAST: build it, or set STEPCAST" >&2
	exit 1
fi
program=$(realpath "$STEPCAST")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin" "$scratch/out"
ln -s "$program" "$scratch/bin/stepcast"
export STEPCAST=$scratch/bin/stepcast LC_ALL=C
unset STEPCAST_CONFIGS

# new_scratch: an empty $work folder that sees the shipped configs.
new_scratch() {
	work=$scratch/work
	rm -rf "$work"
	mkdir "$work"
	ln -s "$root/configs" "$work/configs"
}

# run_in_scratch SCRIPT: leaves stdout, stderr and the exit code in $scratch/out.
run_in_scratch() {
	local code=0
	(cd "$work" && timeout "$CASE_TIMEOUT_S" sh "$1" </dev/null) \
		>"$scratch/out/stdout" 2>"$scratch/out/stderr" || code=$?
	echo "$code" >"$scratch/out/exit"
}

# problem TEXT...: says what is wrong with the case $name, once with its name.
problem() {
	[ "$case_ok" = yes ] && echo "FAILED $name"
	case_ok=no
	printf '%s\n' "$@"
}

# expect_same WHAT WANTED_FILE GOT_FILE
expect_same() {
	cmp -s "$2" "$3" || problem "$(diff -u --label "$1 wanted" --label "$1 got" "$2" "$3" | head -n 40)"
}

end_case() {
	if [ "$case_ok" = yes ]; then
		n_passed=$((n_passed + 1))
	else
		n_failed=$((n_failed + 1))
	fi
}

# summary: the line that scripts/test adds up; fails if a case failed, or if there was none.
summary() {
	echo "cases: $n_passed passed, $n_failed failed"
	[ $n_failed -eq 0 ] && [ $n_passed -gt 0 ]
}
