# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts: where the project is, how packages get installed. Sourced, not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export DEBIAN_FRONTEND=noninteractive
jobs=$(nproc)

say() { printf '\n== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo --preserve-env=DEBIAN_FRONTEND "$@"
  else die "installing packages needs root or sudo: $*"
  fi
}

is_installed() { dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

# Mirrors fail now and then, and somebody else may be installing.
apt=(apt-get -o Acquire::Retries=5 -o Acquire::http::Timeout=30 -o DPkg::Lock::Timeout=600)
apt_is_fresh=
refresh_apt() {
  [ -n "$apt_is_fresh" ] || as_root "${apt[@]}" update -qq
  apt_is_fresh=1
}

# without_services COMMAND...: packages that it installs start no servers; a machine's own policy is left alone.
without_services() (
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'as_root rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
  fi
  "$@"
)

# need_packages NAME...: installs those that are missing; asks the mirror only if one is.
need_packages() {
  local missing=() name
  for name in "$@"; do is_installed "$name" || missing+=("$name"); done
  [ ${#missing[@]} = 0 ] && return 0
  say "installing ${missing[*]}"
  refresh_apt
  without_services as_root "${apt[@]}" install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null ||
    die "could not install: ${missing[*]}"
}

# Debian's contrib and non-free hold nvtop, gpustat and NVIDIA's nvml.h. Adds them from the mirror already in use.
enable_nonfree() {
  local target uri release keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  if apt-cache policy libnvidia-ml-dev nvtop 2>/dev/null | grep -c 'Candidate: [0-9]' | grep -qx 2; then return 0; fi
  refresh_apt
  target=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
           awk '$2 == "bookworm" && $3 == "main" && !seen++')
  [ -n "$target" ] || die "no Debian 12 (bookworm) main archive among the apt sources"
  read -r uri release _ <<<"$target"
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: contrib non-free\nSigned-By: %s\n' "$uri" "$release" "$keyring" |
    as_root tee /etc/apt/sources.list.d/gpuwarden-nonfree.sources >/dev/null
  apt_is_fresh=
  refresh_apt
}

# need_python_venv FOLDER REQUIREMENTS: a Python of its own under build/ with the pinned packages of PyPI; made anew when
# they change. Without a way to PyPI it is left out: the tests that want it say so.
need_python_venv() {
  local folder=build/$1 requirements=$2
  cmp -s "$requirements" "$folder/requirements.txt" && return 0
  say "installing $(grep -c '^[a-z]' "$requirements") packages from PyPI into $folder"
  rm -rf "$folder"
  if /usr/bin/python3 -m venv "$folder" && "$folder/bin/pip" install -q --disable-pip-version-check --retries 3 -r "$requirements"; then
    cp "$requirements" "$folder/requirements.txt"
  else
    rm -rf "$folder"
    printf 'warning: PyPI gave no packages for %s; its tests are skipped, or fail where they are required\n' "$folder" >&2
  fi
}

# beside NAME COMMAND...: runs it beside what follows; what it says goes to build/NAME.log. It does not outlive the script.
declare -A beside_pids=()
beside() {
  local name=$1
  shift
  setsid "$@" >"build/$name.log" 2>&1 </dev/null &
  beside_pids[$name]=$!
  trap 'for pid in "${beside_pids[@]}"; do kill -- "-$pid" 2>/dev/null || true; done' EXIT
}

# finish NAME: waits for it and shows what it said; fails as it did.
finish() {
  local rc=0
  wait "${beside_pids[$1]}" || rc=$?
  unset "beside_pids[$1]"
  cat "build/$1.log"
  return "$rc"
}

build_packages=(g++ cmake ninja-build ccache libfmt-dev nlohmann-json3-dev libyaml-cpp-dev libpugixml-dev libarchive-dev libre2-dev libsqlite3-dev zlib1g-dev libncurses-dev libevent-dev libssl-dev libcurl4-openssl-dev pkgconf)
# What the page of `gpuwarden serve` is made with; a build without them has everything else.
page_packages=(nodejs esbuild node-typescript libjs-dygraphs)
test_packages=("${page_packages[@]}" chromium libgtest-dev libgmock-dev libbenchmark-dev python3 tmux procps zsh fish groff-base environment-modules prometheus wrk openssl)
# Peers for memory_bench: each only where it can be had, none is needed.
bench_packages=(libvulkan-dev libmimalloc-dev libjemalloc-dev)
stranger_packages=(libnvidia-ml-dev nvtop gpustat python3-venv)
# For the wheel and its tests.
python_packages=(python3-dev python3-venv)
# Whose files and command lines the planner writes: a Slurm, torchrun, and a reader of JSON Schema (tests/emit,
# tests/slurm_jobs). OpenSSH and network namespaces for hosts of a test's own (tests/sshd).
tool_packages=(openssh-server openssh-client iproute2 munge slurmctld slurmd slurm-client python3-torch python3-jsonschema python3-yaml)
driver_test_packages=(debootstrap dpkg-dev apt-utils python3 util-linux)
lint_packages=(python3 clang-19 clang-format-19 libclang-rt-19-dev lld-19)

# run_tests ctest ARGUMENTS...: all it says on a terminal; elsewhere the summary, and before it what failing tests said:
# a summary alone names no test of a program that runs several, so their names stand again right before its last line.
run_tests() {
  if [ -t 1 ]; then "$@"; return; fi
  local log rc=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || rc=$?
  if [ $rc != 0 ]; then
    grep -nE '\[  FAILED  \]|: Failure$|ERROR: |SUMMARY: |WARNING: ThreadSanitizer|terminate called|\*\*\*(Failed|Timeout|Exception)' "$log" |
      cut -c1-300 | head -n 60 || true
    grep -A 14 -E ': Failure$|ERROR: AddressSanitizer|WARNING: ThreadSanitizer' "$log" | cut -c1-300 | head -n 120 || true
  fi
  tail -n 25 "$log" | head -n -1
  if [ $rc != 0 ]; then sed -n 's/^\[  FAILED  \] \([^ ,]*\) .*/\1/p' "$log" | sort -u | head -n 20; fi
  tail -n 1 "$log"
  rm -f "$log"
  return $rc
}
