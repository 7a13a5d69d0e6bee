#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzzers and runs each from its seeds.  scripts/fuzz.sh [SECONDS EACH, default 10 [random]]
# Usually the same inputs every time, as many of them as the time allows: a change is judged by what it changes. With
# `random` others every time, for as long as asked, from what was found before (build/asan/corpus).
source "$(dirname "$0")/lib.sh"
seconds=${1:-10}
way=${2:-same}
case $way in same | random) ;; *) die "'$way' is no way to fuzz: random, or nothing" ;; esac
need_packages "${build_packages[@]}" "${lint_packages[@]}" clang-19 libclang-rt-19-dev
cmake --preset asan >/dev/null
cmake --build build/asan -j "$jobs" --target fuzzers -- --quiet

most_runs=20000  # of the same inputs; what a slow machine leaves out is their end

# One fuzzer; its output is shown whole, so that those of several do not mix.
fuzz_one() {
  local name corpus choice out status=0
  name=$(basename "$1" _fuzz)
  if [ "$3" = random ]; then
    corpus=build/asan/corpus/$name choice=()
  else
    corpus=build/asan/corpus-same/$name choice=(-seed=1 "-runs=$4")
    rm -rf "$corpus"
  fi
  mkdir -p "$corpus"
  out=$("$1" "${choice[@]}" -max_total_time="$2" -rss_limit_mb=2048 -timeout=60 -artifact_prefix="build/asan/$name-" \
    -verbosity=0 -print_final_stats=1 "$corpus" "fuzz/corpus/$name" 2>&1) || status=$?
  echo "fuzzed $name: $(grep -E 'ERROR|SUMMARY|number_of_executed_units|Test unit' <<<"$out")"
  return "$status"
}
export -f fuzz_one

fuzzers=(build/asan/bin/*_fuzz)
[ "${#fuzzers[@]}" -ge 3 ] || die "only ${#fuzzers[@]} fuzzers were built"
say "fuzzing ${#fuzzers[@]} readers for at most $seconds s each"
printf '%s\n' "${fuzzers[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz_one "$@"' _ {} "$seconds" "$way" "$most_runs"
