#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The memory pool beside other allocators: builds with whatever peers can be had here and runs every benchmark.
#   scripts/memory_bench.sh [FOLDER FOR JSON, default build/release/memory_bench]
# Traces: memtraces below GPUWARDEN_CORPUS; without it only what needs none runs. VMA: -DGPUWARDEN_VMA_DIR= of the build.
source "$(dirname "$0")/lib.sh"
need_packages "${build_packages[@]}"
for package in "${bench_packages[@]}"; do
  (need_packages "$package") || say "going on without $package"
done
cmake --preset release >/dev/null
cmake --build build/release --target memory_bench
out=${1:-build/release/memory_bench}
mkdir -p "$out"
failed=0
benchmarks=(grid serving threads pingpong soak)
[ -d "${GPUWARDEN_CORPUS:-}/memtraces" ] && benchmarks=(validate traces symbolic capped "${benchmarks[@]}")
for benchmark in "${benchmarks[@]}"; do
  say "$benchmark"
  build/release/bin/memory_bench "$benchmark" --json >"$out/$benchmark.json" || failed=1
done
say "results: $out"
exit $failed
