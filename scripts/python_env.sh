#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a Python in which the tree's own package can be imported: build/python-venv with the pinned tools of
# scripts/python_requirements.txt, and the extension, compiled against the archives of a build that is there.
#   scripts/python_env.sh [BUILD]     (build/release)
source "$(dirname "$0")/lib.sh"
built=$(realpath "${1:-build/release}")
[ -e "$built/gpuwarden-archives.cmake" ] || die "$built holds no build of gpuwarden: cmake --preset release && cmake --build build/release"

need_python_venv python-venv scripts/python_requirements.txt
python=$PWD/build/python-venv/bin/python
[ -x "$python" ] || die "no build/python-venv: PyPI could not be reached"

say "building gpuwarden._core (build/python)"
cmake -S bindings/python -B build/python -G Ninja -DCMAKE_BUILD_TYPE=Release -DGPUWARDEN_BUILD="$built" \
  -DGPUWARDEN_PYTHON_INPLACE=ON -DPython_EXECUTABLE="$python" >/dev/null
cmake --build build/python -- --quiet

# What is found by its path is always the tree as it is.
"$python" -c 'import pathlib, sys, sysconfig
pathlib.Path(sysconfig.get_path("purelib"), "gpuwarden-tree.pth").write_text(sys.argv[1] + "\n")' "$PWD/python"
"$python" -c 'import gpuwarden; print("gpuwarden", gpuwarden.__version__, "at", gpuwarden.__path__[0])'
