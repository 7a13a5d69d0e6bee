#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzzers and runs each for a while from its seeds.  scripts/fuzz.sh [SECONDS EACH, default 10]
source "$(dirname "$0")/lib.sh"
seconds=${1:-10}
need_packages "${build_packages[@]}" clang-19 libclang-rt-19-dev
cmake --preset fuzz >/dev/null
cmake --build build/fuzz -j "$jobs" --target fuzzers -- --quiet
found=0
for fuzzer in build/fuzz/bin/*_fuzz; do
  name=$(basename "$fuzzer" _fuzz)
  found=$((found + 1))
  say "fuzzing $name for $seconds s"
  mkdir -p "build/fuzz/corpus/$name"
  "$fuzzer" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -artifact_prefix="build/fuzz/$name-" -verbosity=0 \
    -print_final_stats=1 "build/fuzz/corpus/$name" "fuzz/corpus/$name" 2>&1 | grep -E 'ERROR|SUMMARY|number_of_executed_units|Test unit'
done
[ "$found" -ge 3 ] || die "only $found fuzzers were built"
