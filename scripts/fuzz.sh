#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzzers and runs each for a while from its seeds.  scripts/fuzz.sh [SECONDS EACH, default 10]
source "$(dirname "$0")/lib.sh"
seconds=${1:-10}
need_packages "${build_packages[@]}" "${lint_packages[@]}" clang-19 libclang-rt-19-dev
cmake --preset asan >/dev/null
cmake --build build/asan -j "$jobs" --target fuzzers -- --quiet

# One fuzzer; its output is shown whole, so that those of several do not mix.
fuzz_one() {
  local name out status=0
  name=$(basename "$1" _fuzz)
  mkdir -p "build/asan/corpus/$name"
  out=$("$1" -max_total_time="$2" -rss_limit_mb=2048 -timeout=10 -artifact_prefix="build/asan/$name-" -verbosity=0 \
    -print_final_stats=1 "build/asan/corpus/$name" "fuzz/corpus/$name" 2>&1) || status=$?
  echo "fuzzed $name for $2 s: $(grep -E 'ERROR|SUMMARY|number_of_executed_units|Test unit' <<<"$out")"
  return "$status"
}
export -f fuzz_one

fuzzers=(build/asan/bin/*_fuzz)
[ "${#fuzzers[@]}" -ge 3 ] || die "only ${#fuzzers[@]} fuzzers were built"
say "fuzzing ${#fuzzers[@]} readers for $seconds s each"
printf '%s\n' "${fuzzers[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz_one "$1" "$2"' _ {} "$seconds"
