#!/usr/bin/env bash
# Runs the pyverbs tests that Debian ships with rdma-core on SoftIB, on both link layers, and says what passed, what was
# skipped and why, and what failed.
#
#   pyverbs.sh [--build FOLDER] [TEST...]     TEST as unittest names it: tests.test_qp, tests.test_mr.MRTest.test_reg_mr
#
# Needs python3-pyverbs. Returns 1 on a failure.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${SOFTIB_BUILD:-$here/../../build/release}
if [[ ${1:-} == --build ]]; then build=$2; shift 2; fi
softib=$(cd "$build" 2>/dev/null && pwd)/bin/softib
[[ -x $softib ]] || { echo "pyverbs.sh: $softib is missing; build first" >&2; exit 2; }
/usr/bin/python3 -c 'import pyverbs' 2>/dev/null || { echo "pyverbs.sh: python3-pyverbs is not installed" >&2; exit 2; }

work=$(mktemp -d -t softib-pyverbs-XXXXXX) || exit 1
export SOFTIB_RUNTIME_DIR=$work/run SOFTIB_NAMESPACES=off
unset LD_PRELOAD SOFTIB_FABRIC_DIR SOFTIB_HOST
clean_up() {
  local name
  for name in infiniband ethernet; do "$softib" down --name "$name" >/dev/null 2>&1; done
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# Container images often leave /usr/share/doc out: then the package itself is fetched for it.
get_tests() {
  local from=/usr/share/doc/rdma-core/tests
  if [[ ! -d $from ]]; then
    (cd "$work" && apt-get download rdma-core >/dev/null 2>&1 && dpkg -x rdma-core_*.deb package) ||
      { echo "pyverbs.sh: no $from, and rdma-core could not be fetched" >&2; return 1; }
    from=$work/package$from
  fi
  cp -r "$from" "$work/tests" && find "$work/tests" -name '*.gz' -exec gunzip -f {} +
}

# Reads unittest's verbose output. A verdict stands at the end of the test's line, of its
# description's, or alone behind what the test printed.
summary='
import collections, re, sys
verdict = re.compile(r"(?:\.\.\. |^)(ok|FAIL|ERROR|expected failure|unexpected success|skipped .*)$")
count, reasons, failed, name = collections.Counter(), collections.Counter(), [], ""
log = open(sys.argv[1], errors="replace").read()
for line in log.splitlines():
    if start := re.match(r"(test_\w+) \((.*)\)", line): name = f"{start[2]}"
    if not (end := verdict.search(line)): continue
    word = end[1]
    if word.startswith("skipped"):
        count["skipped"] += 1
        reasons[word[len("skipped "):].strip("\x27\"")] += 1
    elif word in ("ok", "expected failure"): count["passed"] += 1
    else:
        count["failed"] += 1
        failed.append(name)
# A set-up that fails for a whole class or module has no line of its own.
failed += re.findall(r"^ERROR: (setUpClass .*|.*_FailedTest.*)$", log, re.M)
total = re.search(r"^Ran (\d+) tests?", log, re.M)
missing = int(total[1]) - sum(count.values()) if total else 1
for reason, times in reasons.most_common(): print(f"   skipped {times:4}  {reason}")
for test in failed: print(f"   FAILED  {test}")
if missing: print(f"   {missing} tests gave no verdict" if total else "   the run ended before its end")
bad = max(len(failed), count["failed"]) + missing
print(f"""{count["passed"]} passed, {bad} failed, {count["skipped"]} skipped""")
sys.exit(1 if bad else 0)
'

# The tests of rdma_cm ask the system for the addresses of a device's network interface. Hosts without a network of
# their own have none: an interface's name is put into the host's sysfs tree, and an `ip` that knows its address stands
# before the real one.
show_interface() {
  local name=$1 device
  "$softib" run --name "$name" host0 -- true
  device=$(cd "$SOFTIB_RUNTIME_DIR/$name/hosts/host0/sys/class/infiniband/mlx5_0/device" && pwd -P) || return 1
  mkdir -p "$device/net/softib0" "$work/bin"
  cat >"$work/bin/ip" <<'SCRIPT'
#!/bin/sh
case "$*" in
  *softib0*) echo '[{"address": "52:54:00:00:00:01", "addr_info": [{"local": "10.0.0.1"}]}]' ;;
  *) exec /sbin/ip "$@" ;;
esac
SCRIPT
  chmod +x "$work/bin/ip"
}

get_tests || exit 1
status=0
for layer in infiniband ethernet; do
  printf '\n== pyverbs, %s\n' "$layer"
  "$softib" up --name "$layer" --link-layer "$layer" >"$work/up.log" 2>&1 || { cat "$work/up.log"; exit 1; }
  show_interface "$layer" || exit 1
  (cd "$work" && PATH=$work/bin:$PATH timeout 900 \
    "$softib" run --name "$layer" host0 -- /usr/bin/python3 tests/run_tests.py -v "$@") >"$work/$layer.log" 2>&1
  if ! /usr/bin/python3 -c "$summary" "$work/$layer.log"; then
    status=1
    sed -n '/^=====/,$p' "$work/$layer.log"
    tail -n 5 "$work/$layer.log"
  fi
done
exit "$status"
