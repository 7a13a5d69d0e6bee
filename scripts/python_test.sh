#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel from a build that is there, installs it into a virtual environment of its own, and runs the tests of
# the Python package in it; then the same wheel beside Debian's own packages (its PyTorch).
#   scripts/python_test.sh [BUILD [ARGUMENTS FOR pytest...]]     (build/release)
source "$(dirname "$0")/lib.sh"
built=$(realpath "${1:-build/release}")
shift || true
need_python_venv python-venv scripts/python_requirements.txt
tools=$PWD/build/python-venv/bin
[ -x "$tools/python" ] || die "no build/python-venv: PyPI could not be reached"

say "what the source distribution holds (build/dist)"
rm -rf build/dist
"$tools/python" -c 'import scikit_build_core.build as backend; backend.build_sdist("build/dist")' >/dev/null
"$tools/python" tests/python/check_sdist.py build/dist/gpuwarden-*.tar.gz
# All that CMake names is in it: it configures as pip would. What it builds is what the tree builds.
rm -rf build/sdist
mkdir -p build/sdist/tree
tar -xf build/dist/gpuwarden-*.tar.gz -C build/sdist/tree --strip-components=1
cmake -S build/sdist/tree -B build/sdist/build -G Ninja -DCMAKE_BUILD_TYPE=Release -DGPUWARDEN_PYTHON=ON -DGPUWARDEN_TESTS=OFF \
  -DGPUWARDEN_BENCH=OFF -DPython_EXECUTABLE="$tools/python" >/dev/null
cmake --build build/sdist/build --target help | grep '^gpuwarden_python:' >/dev/null || die "the source distribution configures no gpuwarden_python"
rm -rf build/sdist

say "building the wheel (build/dist)"
"$tools/python" -m pip wheel . -q --no-deps --no-build-isolation -w build/dist --disable-pip-version-check \
  --config-settings=build-dir=build/wheel --config-settings=cmake.source-dir=bindings/python \
  --config-settings=build.targets=gpuwarden_python --config-settings=cmake.define.GPUWARDEN_BUILD="$built"
wheel=$(ls build/dist/gpuwarden-*.whl)
"$tools/python" tests/python/check_wheel.py "$wheel"

# Without the tree's own package on the path: what is tested is the wheel.
say "testing the wheel in build/wheel-venv"
/usr/bin/python3 -m venv build/wheel-venv
build/wheel-venv/bin/pip install -q --disable-pip-version-check --no-index --no-deps --force-reinstall "$wheel"
build/wheel-venv/bin/pip install -q --disable-pip-version-check \
  $(grep -E '^(pytest|hypothesis)==' scripts/python_requirements.txt)
build/wheel-venv/bin/pytest -q -p no:cacheprovider --ignore=tests/python/pytorch "${@:-tests/python}"

say "the wheel beside Debian's packages"
/usr/bin/python3 -m venv --system-site-packages build/debian-venv
build/debian-venv/bin/pip install -q --disable-pip-version-check --no-index --no-deps --force-reinstall "$wheel"
build/debian-venv/bin/python -c '
import gpuwarden, gpuwarden.torch
with gpuwarden.simulate("h100x8"):
    assert len(gpuwarden.snapshot().gpus) == 8
try:
    import torch
    print("gpuwarden", gpuwarden.__version__, "beside torch", torch.__version__)
except ImportError:
    print("no torch beside it")
'
