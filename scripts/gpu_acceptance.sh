#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that only a machine with a real NVIDIA GPU can show: the tests labelled gpu, the main job, the benchmarks.
# Needs no toolchain: it uses the programs of a finished build.  scripts/gpu_acceptance.sh [BUILD, default build/release]
# Writes a record to $OUT (default: docs/measurements). Changes no setting of the card.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
gpuwarden=$build/bin/gpuwarden
[ -x "$gpuwarden" ] || { echo "error: $gpuwarden is missing: build first" >&2; exit 2; }
command -v nvidia-smi >/dev/null || { echo "error: no nvidia-smi: this machine has no NVIDIA driver" >&2; exit 3; }

name=$(nvidia-smi --query-gpu=name --format=csv,noheader -i 0 | tr -c 'A-Za-z0-9\n' '-' | tr 'A-Z' 'a-z')
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader -i 0)
out=${OUT:-docs/measurements}
record=$out/$(date -u +%Y-%m-%d)-$name.md
mkdir -p "$out"
failed=0

# step TITLE COMMAND...: runs it and writes command, output and exit code into the record.
step() {
  local title=$1 code; shift
  printf '\n## %s\n\n    $ %s\n' "$title" "$*" >>"$record"
  "$@" > "$out/.step" 2>&1; code=$?
  sed 's/^/    /' "$out/.step" >>"$record"
  printf '\nexit code %s\n' "$code" >>"$record"
  [ "$code" = 0 ] || { failed=$((failed + 1)); echo "FAILED: $title"; }
  rm -f "$out/.step"
}

printf '# %s, driver %s, %s\n' "$name" "$driver" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >"$record"
export GPUWARDEN_LEASE_DIR=${GPUWARDEN_LEASE_DIR:-$(mktemp -d)}
step "The GPUs" "$gpuwarden" list
step "As JSON" "$gpuwarden" list --json
step "Everything that NVML tells" "$gpuwarden" snapshot
step "A choice" "$gpuwarden" select --explain -n 1
step "The tests labelled gpu" "$build/bin/gpu_tests"
step "The GPUs at work" "$gpuwarden" doctor --deep --only device
step "What the GPUs reach" "$gpuwarden" bench gpu
step "The main job" "$gpuwarden" run -n 1 --nproc-per-node gpu -- "$build/bin/gpuwarden-example-job"
[ -x "$build/bin/bench_list" ] && step "Cost of a listing (real library)" "$build/bin/bench_list" --real 20
if [ -x "$build/bin/memory_bench" ]; then
  bench=("$build/bin/memory_bench")
  step "The memory pool beside cudaMallocAsync: RMM's grid" "${bench[@]}" grid --upstream cuda --workload "random 1000 "
  step "The memory pool beside cudaMallocAsync: a server" "${bench[@]}" serving --upstream cuda --operations 1000
  if [ -d "${GPUWARDEN_CORPUS:-}/memtraces" ]; then
    step "The memory pool beside cudaMallocAsync: recorded traces" "${bench[@]}" traces --upstream cuda
    step "The memory pool beside cudaMallocAsync: random lengths" "${bench[@]}" symbolic --upstream cuda --steps 12 --rounds 1
  fi
fi
# PyTorch on its own allocator and on ours, where a PyTorch with CUDA is.
python=${PYTHON:-python3}
if "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  for allocator in pytorch gpuwarden; do
    step "Training steps of PyTorch on the allocator of $allocator" \
      env GPUWARDEN_TORCH_LIBRARY="$(realpath "$build")/lib/libgpuwarden_torch.so" \
      "$python" examples/pytorch/train.py --allocator "$allocator"
  done
  # Everything of the Python package that a GPU alone shows: models, the manager, allocator, publisher, profile, training.
  # Wants pytest beside PyTorch, and scripts/python_env.sh.
  step "The Python package's tests of CUDA" \
    env PYTHONPATH="$PWD/python" GPUWARDEN_REQUIRE_TORCH=1 GPUWARDEN_TORCH_LIBRARY="$(realpath "$build")/lib/libgpuwarden_torch.so" \
    "$python" -m pytest -q -s -rs -p no:cacheprovider -m cuda tests/python/pytorch
else
  printf '\n## PyTorch\n\nno PyTorch with CUDA here: not run\n' >>"$record"
fi
step "nvidia-smi says" nvidia-smi
step "nvidia-smi -q" nvidia-smi -q
echo "record: $record"
exit $((failed > 0))
