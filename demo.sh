#!/usr/bin/env bash
# Shows SoftIB at work: builds it, brings up two hosts, and runs the stock RDMA programs between them.
#
#   ./demo.sh
#
# Installs the packages that are missing (and says which). Everything it starts ends with it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. scripts/common.sh
. scripts/packages.sh

softib=build/release/bin/softib
runtime=
running=()

clean_up() {
  local pid
  for pid in "${running[@]}"; do kill "$pid" 2>/dev/null || true; done
  if [[ -n $runtime ]]; then
    "$softib" down >/dev/null 2>&1 || true
    rm -rf "$runtime"
  fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

free_port() {
  python3 -c 'import socket; s = socket.socket(socket.AF_INET6); s.bind(("::", 0)); print(s.getsockname()[1])'
}

wait_listening() {
  local port pid=$2 attempt
  port=$(printf '%04X' "$1")
  for ((attempt = 0; attempt < 1000; ++attempt)); do
    grep -qs "^ *[0-9]*: [0-9A-F]*:$port [0-9A-F:]* 0A " /proc/net/tcp /proc/net/tcp6 && return 0
    kill -0 "$pid" 2>/dev/null || return 1
    sleep 0.02
  done
  return 1
}

# measure PROGRAM OPTION...: the server on host0, the client on host1; leaves the client's output in $runtime/PROGRAM.
measure() {
  local program=$1 port server output=$runtime/$1
  port=$(free_port)
  "$softib" run host0 -- "$@" -d mlx5_0 -F -p "$port" >"$output.server" 2>&1 &
  server=$!
  running+=("$server")
  if ! wait_listening "$port" "$server" ||
    ! timeout 60 "$softib" run host1 -- "$@" -d mlx5_0 -F -p "$port" 127.0.0.1 >"$output" 2>&1 ||
    ! wait "$server"; then
    cat "$output.server" "$output" 2>/dev/null >&2 || true
    die "$program failed"
  fi
  running=()
}

# The last line of a perftest result table: its fields.
result_row() { awk '/^ *[0-9]+ +[0-9]+ +[0-9.]+/ {row = $0} END {print row}' "$runtime/$1"; }

bandwidth_line() {
  local bytes iterations average rate
  read -r bytes iterations _ average rate < <(result_row "$1")
  printf '   %-14s %9s B %9s times   %10.2f GB/s   %8.3f million messages/s\n' "$1" "$bytes" "$iterations" \
    "$(awk -v m="$average" 'BEGIN {print m * 1.048576 / 1000}')" "$rate"
}

latency_line() {
  local bytes iterations least typical
  read -r bytes iterations least _ typical _ < <(result_row "$1")
  printf '   %-14s %9s B %9s times   %10.2f us typical   %8.2f us at least\n' "$1" "$bytes" "$iterations" "$typical" \
    "$least"
}

say "packages"
need_packages "${packages_build[@]}" "${packages_run[@]}" || die "Packages are missing."
echo "   all there"

say "build (the log is build/demo-build.log)"
mkdir -p build
build_preset release build/demo-build.log --target src/all || {
  tail -n 40 build/demo-build.log
  die "The build failed."
}
echo "   done"

runtime=$(mktemp -d -t softib-demo-XXXXXX)
export SOFTIB_RUNTIME_DIR=$runtime/run SOFTIB_NAMESPACES=off
unset LD_PRELOAD SOFTIB_FABRIC_DIR SOFTIB_HOST

say "softib up"
"$softib" up

for host in host0 host1; do
  say "softib run $host -- ibv_devinfo"
  "$softib" run "$host" -- ibv_devinfo
done

say "perftest between host0 (server) and host1 (client)"
measure ib_write_bw -s 65536 -n 20000
measure ib_send_bw -s 65536 -n 20000
measure ib_write_lat -s 2 -n 20000
measure ib_read_lat -s 2 -n 20000
bandwidth_line ib_write_bw
bandwidth_line ib_send_bw
latency_line ib_write_lat
latency_line ib_read_lat

say "softib down"
"$softib" down
rm -rf "$runtime"
runtime=
