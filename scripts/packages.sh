# shellcheck shell=bash disable=SC2034
# Sourced by demo.sh and test.sh: installs the Debian/Ubuntu packages that are missing, and only those.
#
#   need_packages LIST...    e.g. need_packages "${packages_build[@]}" "${packages_run[@]}"
#
# An entry `a|b|c` is met by any of its names (they differ between releases); an entry that ends in `|` is wished for,
# and its absence is only told.

packages_build=(
  g++ cmake ninja-build pkg-config
  libcli11-dev libfmt-dev libspdlog-dev libexpected-dev nlohmann-json3-dev libyaml-cpp-dev
  libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev
  libibverbs-dev libibumad-dev libnl-3-dev libnl-route-3-dev linux-libc-dev libhwy-dev "lowdown|"
)
packages_run=(
  rdma-core ibverbs-utils ibverbs-providers perftest qperf
  python3 procps util-linux
)
packages_test=(
  python3-pyverbs git iproute2 iputils-ping infiniband-diags opensm "ibutils|" rdmacm-utils librdmacm-dev
  netcat-traditional "iperf|" "ucx-utils|" "libfabric-bin|" "openmpi-bin|" "libopenmpi-dev|" "netpipe-openmpi|"
  "mpich|" "libmpich-dev|" "python3-pip|" "python3-setuptools|" "python3-wheel|"
)

_package_installed() {
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

_package_available() {
  local candidate
  candidate=$(LC_ALL=C apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: //p')
  [[ -n $candidate && $candidate != "(none)" ]]
}

# Prints the entries of its arguments that no installed package meets.
_packages_missing() {
  local entry name names
  for entry in "$@"; do
    IFS='|' read -ra names <<<"$entry"
    for name in "${names[@]}"; do
      _package_installed "$name" && continue 2
    done
    printf '%s\n' "$entry"
  done
}

# Chooses the first name of an entry that the package lists know.
_package_choose() {
  local name names
  IFS='|' read -ra names <<<"$1"
  for name in "${names[@]}"; do
    if _package_available "$name"; then
      printf '%s\n' "$name"
      return 0
    fi
  done
  return 1
}

# Splits entries into _chosen (package names to install) and _unknown (entries that no package list knows).
_packages_choose() {
  local entry name
  _chosen=() _unknown=()
  for entry in "$@"; do
    if name=$(_package_choose "$entry"); then
      _chosen+=("$name")
    else
      _unknown+=("$entry")
    fi
  done
}

# Runs apt-get as root, waiting for another one that holds the lock.
_apt_get() {
  local as_root=()
  ((EUID == 0)) || as_root=(sudo -n)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l \
    apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 -qq "$@" </dev/null
}

_packages_can_install() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "This is not a Debian or Ubuntu system; please install the counterparts of: $*" >&2
    return 1
  fi
  ((EUID == 0)) && return 0
  if ! command -v sudo >/dev/null; then
    echo "Neither root nor sudo; please ask an administrator to run: apt-get install $*" >&2
    return 1
  fi
  if ! sudo -n true 2>/dev/null && ! { [[ -t 0 ]] && sudo -v; }; then
    echo "sudo asks for a password; please run: sudo apt-get install $*" >&2
    return 1
  fi
}

# Tells about unknown entries; fails when one of them is not merely wished for.
_packages_report_unknown() {
  local entry failed=0
  for entry in "$@"; do
    if [[ $entry == *'|' ]]; then
      echo "Not in this release, doing without: ${entry%|}"
    else
      echo "No package list of this system knows: $entry" >&2
      failed=1
    fi
  done
  return $failed
}

need_packages() {
  local missing
  if ! command -v dpkg-query >/dev/null; then
    _packages_can_install "$@"
    return
  fi
  mapfile -t missing < <(_packages_missing "$@")
  ((${#missing[@]})) || return 0
  _packages_choose "${missing[@]}"
  if ((${#_unknown[@]})) || ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then
    _packages_can_install "${missing[@]}" || return 1
    echo "Updating the package lists"
    _apt_get update || return 1
    _packages_choose "${missing[@]}"
  fi
  _packages_report_unknown "${_unknown[@]}" || return 1
  ((${#_chosen[@]})) || return 0
  _packages_can_install "${_chosen[@]}" || return 1
  echo "Installing packages: ${_chosen[*]}"
  if ! _apt_get install --no-install-recommends -y "${_chosen[@]}" >/dev/null; then
    echo "Trying again with fresh package lists"
    _apt_get update && _apt_get install --no-install-recommends -y "${_chosen[@]}" >/dev/null
  fi
}
