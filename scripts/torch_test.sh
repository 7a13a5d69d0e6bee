#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tests of the parts for PyTorch: with the pinned PyTorch of PyPI, which may not be missing, and with Debian's.
#   scripts/torch_test.sh [ARGUMENTS FOR pytest...]
source "$(dirname "$0")/lib.sh"
export PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1
# What torch.compile makes does not outlive the tests.
TORCHINDUCTOR_CACHE_DIR=$(mktemp -d)
export TORCHINDUCTOR_CACHE_DIR
trap 'rm -rf "$TORCHINDUCTOR_CACHE_DIR"' EXIT

scripts/python_env.sh
need_python_venv torch-venv tests/python/pytorch/requirements.txt
[ -x build/torch-venv/bin/python ] || die "no build/torch-venv: PyPI could not be reached, and these tests may not be left out"
# The launcher is compared with torchrun.
[ -x build/release/bin/gpuwarden ] || die "no build/release/bin/gpuwarden: cmake --preset release && cmake --build build/release"
say "tests for PyTorch ($(build/torch-venv/bin/python -c 'import torch; print(torch.__version__)'))"
GPUWARDEN_REQUIRE_TORCH=1 build/torch-venv/bin/python -m pytest -q -p no:cacheprovider tests/python/pytorch "$@"

say "tests for LibTorch"
cmake -S bindings/libtorch -B build/libtorch -G Ninja \
  -DCMAKE_PREFIX_PATH="$(build/torch-venv/bin/python -c 'import torch; print(torch.utils.cmake_prefix_path)')" >/dev/null
cmake --build build/libtorch -- --quiet
ctest --test-dir build/libtorch --output-on-failure -j 2

# Debian's PyTorch is older than most of what is offered here: it has to say so, and the rest has to work.
older=(optimize optimize_steps optimize_cache benchmark memory measure agreement inputs launchers)
if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  say "tests for PyTorch ($(/usr/bin/python3 -c 'import torch; print(torch.__version__)'), Debian)"
  [ -x build/torch-debian-venv/bin/pytest ] || {
    /usr/bin/python3 -m venv --system-site-packages build/torch-debian-venv
    grep -E '^(pytest|hypothesis)==' tests/python/pytorch/requirements.txt |
      xargs build/torch-debian-venv/bin/pip install -q --disable-pip-version-check
  }
  build/torch-debian-venv/bin/python -m pytest -q -p no:cacheprovider $(printf 'tests/python/pytorch/test_%s.py ' "${older[@]}") "$@"
fi
