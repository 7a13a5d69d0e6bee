#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh Debian 12 to the main job: installs what is missing, builds the release preset, and runs a small program
# on two GPUs: this machine's, if it has them, else on a simulated node with eight.
source "$(dirname "$0")/lib.sh"

need_packages "${build_packages[@]}"
say "building (build/release)"
cmake --preset release -DGPUWARDEN_TESTS=OFF -DGPUWARDEN_BENCH=OFF >/dev/null
cmake --build build/release -j "$jobs" --target gpuwarden gpuwarden_example_job -- --quiet

gpuwarden=build/release/bin/gpuwarden
job=build/release/bin/gpuwarden-example-job
count=2
simulate=()
real=$("$gpuwarden" select --all --json 2>/dev/null | grep -o '"uuid"' | wc -l) || true
if [ "$real" -ge 1 ]; then
  say "this machine has $real free GPU(s)"
  [ "$real" -ge 2 ] || count=1
else
  say "no GPU here: a simulated node with 8 H100 stands in (nothing it shows is measured)"
  simulate=(--simulate h100x8)
fi

say "gpuwarden list"
"$gpuwarden" list "${simulate[@]}"
say "gpuwarden run -n $count --nproc-per-node gpu -- $(basename "$job")"
"$gpuwarden" run "${simulate[@]}" -n "$count" --nproc-per-node gpu -- "$job"
