#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the tests need, builds the release preset, and runs every test.
#   scripts/test.sh [ARGUMENTS FOR ctest...]
source "$(dirname "$0")/lib.sh"

need_packages "${build_packages[@]}" "${test_packages[@]}" "${python_packages[@]}"
enable_nonfree
need_packages "${stranger_packages[@]}" "${tool_packages[@]}"
need_python_venv strangers-python tests/strangers/requirements.txt

say "building (build/release)"
cmake --preset release -DGPUWARDEN_TESTS=ON -DGPUWARDEN_BENCH=OFF >/dev/null
cmake --build build/release -j "$jobs" -- --quiet

say "testing"
# The proofs against NVIDIA's header, by nvtop and gpustat, and with Slurm and torchrun may not be skipped here: their
# packages were installed.
export GPUWARDEN_REQUIRE_NVML_H=1 GPUWARDEN_REQUIRE_STRANGERS=1 GPUWARDEN_REQUIRE_TOOLS=1
# Packaging has a step of its own in .ci/run.
run_tests ctest --test-dir build/release --output-on-failure -j $((jobs * 2)) -LE package "$@"

# The wheel, from what was just built; with tests named on the command line only those run.
if [ $# = 0 ]; then scripts/python_test.sh build/release; fi
