#!/usr/bin/env bash
# Builds SoftIB and runs all its tests: test.sh [--quick]
#
#   --quick   only the release build with its unit, style and InfiniBand integration tests
#
# Installs missing packages, stops at the first part that fails, and ends with `N passed, N failed, N skipped`.
# SOFTIB_TEST_MINUTES (24; 0: any) is how long it may take: on slow machines the sanitizers' parts, which come last, are
# left out where they would take longer, and count as skipped.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
. scripts/common.sh
. scripts/packages.sh

quick=0
case ${1:-} in
  --quick) quick=1 ;;
  "") ;;
  *) die "usage: test.sh [--quick]" ;;
esac

logs=build/test-logs
rm -rf "$logs"
mkdir -p "$logs"

# Every process that a test starts has this in its environment, so that what stays behind is found.
SOFTIB_TEST_RUN=$$-$(date +%s)
SOFTIB_RUNTIME_DIR=$(mktemp -d -t softib-test-XXXXXX) || exit 1
export SOFTIB_TEST_RUN SOFTIB_RUNTIME_DIR
unset LD_PRELOAD SOFTIB_FABRIC_DIR SOFTIB_HOST
minutes=${SOFTIB_TEST_MINUTES:-24}
[[ $minutes =~ ^[0-9]+$ ]] || die "SOFTIB_TEST_MINUTES is a number of minutes, not '$minutes'"
started=$SECONDS

left_behind() {
  local folder pid
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    [[ $pid == "$$" || $pid == "$BASHPID" ]] && continue
    if grep -qszx "SOFTIB_TEST_RUN=$SOFTIB_TEST_RUN" "$folder/environ"; then printf '%s\n' "$pid"; fi
  done
}

# Ends what this run left behind, and nothing else.
clean_up() {
  local pid
  for pid in $(left_behind); do kill -KILL "$pid" 2>/dev/null; done
  rm -rf "$SOFTIB_RUNTIME_DIR"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

results=()

total() { python3 tests/summary.py "${results[@]}"; }

fail() {
  printf '\nFAILED: %s. The end of its log (%s):\n\n' "$1" "$2"
  tail -n 60 "$2"
  # Last, since some only see the end of it.
  [[ -n ${3:-} ]] && python3 tests/summary.py --failures "$3"
  printf '\nFAILED: %s\n' "$1"
  local counted
  counted=$(total)
  # A part that failed without counting (a build, say) is one failure.
  [[ $counted == *" 0 failed"* ]] && counted=${counted/ 0 failed/ 1 failed}
  printf '%s\n' "$counted"
  exit 1
}

# part NAME COMMAND...: runs it with the output in a log, and counts what the log counts.
part() {
  local name=$1 log=$logs/${1//[^a-z0-9]/-}.log begin=$SECONDS
  shift
  say "$name"
  if ! "$@" >"$log" 2>&1; then
    results+=(--log "$log")
    fail "$name" "$log"
  fi
  results+=(--log "$log")
  printf '   %s (%d s)\n' "$(python3 tests/summary.py --log "$log")" $((SECONDS - begin))
}

# Builds a preset beside what follows, with what the tests leave of the processors; build() waits for it.
build_ahead() {
  (
    renice -n 19 -p "$BASHPID" >/dev/null 2>&1
    build_preset "$1" "$logs/build-$1.log"
  ) >/dev/null 2>&1 &
  ahead[$1]=$!
}

declare -A ahead=()
build() {
  local preset=$1 begin=$SECONDS status=0
  say "build: $preset"
  if [[ -n ${ahead[$preset]:-} ]]; then
    # What is left of it is not to wait any more.
    renice -n 0 -p $(left_behind) >/dev/null 2>&1
    wait "${ahead[$preset]}" || status=1
  else
    build_preset "$preset" "$logs/build-$preset.log" || status=1
  fi
  ((status == 0)) || fail "build of $preset" "$logs/build-$preset.log"
  printf '   done (%d s)\n' $((SECONDS - begin))
}

# has_time NAME SECONDS: whether a part that takes about so long still has the time. Else it counts as skipped.
has_time() {
  local left=$((minutes * 60 - SECONDS + started)) log=$logs/${1//[^a-z0-9]/-}.log
  ((minutes == 0 || $2 <= left)) && return
  say "$1"
  printf '   skipped: it takes about %d s here, and of %d minutes %d s are left (SOFTIB_TEST_MINUTES=0: run all)\n' \
    "$2" "$minutes" "$((left > 0 ? left : 0))"
  echo "0 passed, 0 failed, 1 skipped" >"$log"
  results+=(--log "$log")
  return 1
}

# A build that nobody wants any more.
give_up_ahead() {
  kill -TERM $(left_behind) 2>/dev/null
  wait "${ahead[$1]}" 2>/dev/null
  unset "ahead[$1]"
}

# A sanitizer's shadow memory needs the classic address layout on kernels with much address randomisation.
classic_layout=()
setarch "$(uname -m)" -R true 2>/dev/null && classic_layout=(setarch "$(uname -m)" -R)

# ctests NAME PRESET [CTEST ARGUMENT...]
ctests() {
  local name=$1 preset=$2 log=$logs/${1//[^a-z0-9]/-}.log begin=$SECONDS details status=0
  shift 2
  say "$name"
  local layout=()
  [[ $preset == *san ]] && layout=("${classic_layout[@]}")
  # Reports go to files: a test may have taken its own stderr away, or that of a program that it runs.
  rm -f "$logs/report-$preset".*
  SOFTIB_SANITIZER_OPTIONS=":log_path=$PWD/$logs/report-$preset" \
    "${layout[@]}" ctest --preset "$preset" "$@" >"$log" 2>&1 || status=1
  ((status == 0)) || head -n 50 "$logs/report-$preset".* >>"$log" 2>/dev/null || true
  details=$logs/${name//[^a-z0-9]/-}.details.log
  cp "build/$preset/Testing/Temporary/LastTest.log" "$details" 2>/dev/null && results+=(--ctest "$details")
  ((status == 0)) || fail "$name" "$log" "$details"
  printf '   %s (%d s)\n' "$(python3 tests/summary.py --ctest "$details")" $((SECONDS - begin))
}

# Gives each recorded input to its fuzz target: fuzz/corpus/NAME to the program NAME.
replay_fuzz() {
  local corpus target passed=0 failed=0
  for corpus in fuzz/corpus/*/; do
    target=build/asan/bin/$(basename "$corpus")
    if "${classic_layout[@]}" "$target" "$corpus"; then
      passed=$((passed + $(find "$corpus" -type f | wc -l)))
    else
      failed=$((failed + 1))
    fi
  done
  echo "$passed passed, $failed failed, 0 skipped"
  ((failed == 0 && passed > 0))
}

say "packages"
wanted=("${packages_build[@]}" "${packages_run[@]}" "${packages_test[@]}")
need_packages "${wanted[@]}" || die "Packages are missing."

build release
if ((quick)); then
  ctests "tests (quick)" release -LE '^kill$' -E '^integration\.ethernet$'
else
  unit_began=$SECONDS
  ctests "unit and style tests" release -LE '^(integration|kill)$'
  unit_took=$((SECONDS - unit_began))
  build_ahead asan
  ctests "stock programs between hosts" release -L '^integration$'
  ctests "killing test" release -L '^kill$'
  part "conformance" tests/conformance/run.sh
  part "pyverbs" tests/conformance/pyverbs.sh
  # With what is left of the build; the other one's needs a tenth of that.
  if has_time "unit tests, address and undefined-behaviour sanitizers" $((5 * unit_took / 2)); then
    build asan
    ctests "unit tests, address and undefined-behaviour sanitizers" asan
    part "recorded fuzz inputs, same sanitizers" replay_fuzz
  else
    give_up_ahead asan
  fi
  if has_time "engine tests, thread sanitizer" $((unit_took / 2)); then
    build tsan
    ctests "engine tests, thread sanitizer" tsan
  fi
fi

mapfile -t stray < <(left_behind)
if ((${#stray[@]})); then
  ps -o pid,ppid,etime,args -p "$(IFS=,; echo "${stray[*]}")" >"$logs/stray.log" 2>&1
  fail "no process left behind" "$logs/stray.log"
fi

say "all tests passed in $(((SECONDS - started) / 60)) min $(((SECONDS - started) % 60)) s"
total
