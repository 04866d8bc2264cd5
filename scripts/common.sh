# shellcheck shell=bash
# Sourced by demo.sh and test.sh, in the root folder: messages, and building a preset.

say() { printf '\n== %s\n' "$*"; }

die() {
  printf '%s\n' "$*" >&2
  exit 1
}

jobs() { nproc 2>/dev/null || echo 2; }

# Configures and builds a preset, quietly: build_preset PRESET LOG [BUILD ARGUMENT...]. On a terminal it shows ninja's
# progress in one line. The log has everything. A build folder that is new compiles several files at once (a unity
# build) after headers that are parsed once, which takes less than a third of the time; one that a developer has
# configured stays as it is.
build_preset() {
  local preset=$1 log=$2 whole=()
  shift 2
  [[ -e build/$preset/CMakeCache.txt ]] || whole=(-DCMAKE_UNITY_BUILD=ON)
  if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    # Else it keeps nothing of what uses precompiled headers.
    export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:+$CCACHE_SLOPPINESS,}pch_defines,time_macros
  fi
  cmake --preset "$preset" "${whole[@]}" >"$log" 2>&1 || return 1
  if [[ -t 1 ]]; then
    cmake --build --preset "$preset" -j "$(jobs)" "$@" 2>&1 | tee -a "$log" |
      sed -un 's/^\(\[[0-9]*\/[0-9]*\]\).*/\1/p' | while read -r progress; do printf '\r   %s ' "$progress"; done
    local built=${PIPESTATUS[0]}
    printf '\r%20s\r' ''
    return "$built"
  fi
  cmake --build --preset "$preset" -j "$(jobs)" "$@" >>"$log" 2>&1
}
