#!/usr/bin/env bash
# Runs verbs_conformance on SoftIB: on both link layers, with both ends on one host and with the ends on two hosts.
#
#   run.sh [--build FOLDER] [--filter GTEST_FILTER] [--huge]
#
# FOLDER is a build tree (default: build/release). Each test runs in a process of its own. Returns 1 when one fails that
# is not in provider-limits.txt, or when one of those there passes.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${SOFTIB_BUILD:-$here/../../build/release}
extra=()
while (($#)); do
  case $1 in
    --build) build=$2; shift 2 ;;
    --filter) extra+=("--gtest_filter=$2"); shift 2 ;;
    --huge) extra+=(--huge); shift ;;
    *) echo "usage: run.sh [--build FOLDER] [--filter GTEST_FILTER] [--huge]" >&2; exit 2 ;;
  esac
done
build=$(cd "$build" 2>/dev/null && pwd) || { echo "run.sh: no build tree; build first" >&2; exit 2; }
softib=$build/bin/softib
tests=${VERBS_CONFORMANCE:-$build/bin/verbs_conformance}
for program in "$softib" "$tests"; do
  [[ -x $program ]] || { echo "run.sh: $program is missing; build first" >&2; exit 2; }
done

SOFTIB_RUNTIME_DIR=$(mktemp -d -t softib-conformance-XXXXXX) || exit 1
export SOFTIB_RUNTIME_DIR SOFTIB_NAMESPACES=off
unset LD_PRELOAD SOFTIB_FABRIC_DIR SOFTIB_HOST
clean_up() {
  local name
  for name in infiniband ethernet; do "$softib" down --name "$name" >/dev/null 2>&1; done
  rm -rf "$SOFTIB_RUNTIME_DIR"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

status=0
# on TITLE FABRIC ARGUMENT...: a run with the first end on host0 of that fabric.
on() {
  local title=$1 fabric=$2
  shift 2
  printf '\n== %s, %s\n' "$fabric" "$title"
  "$softib" run --name "$fabric" host0 -- \
    "$tests" --isolate --expected "$here/provider-limits.txt" "${extra[@]}" "$@" || status=1
}

for layer in infiniband ethernet; do
  "$softib" up --name "$layer" --link-layer "$layer" "$here/fabric.yaml" || exit 1
  on "both ends on one host" "$layer"
  on "two hosts" "$layer" --peer "exec '$softib' run --name $layer host1 -- '$tests' --agent"
done
exit "$status"
