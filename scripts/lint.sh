#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formatting, static analysis, and each file by itself: includes what it uses, hides no name.
source "$(dirname "$0")/lib.sh"
need_packages "${build_packages[@]}" "${lint_packages[@]}" "${python_packages[@]}"
build=build/lint
cmake --preset lint >/dev/null
# What is generated is included.
cmake --build "$build" -j "$jobs" --target generated -- --quiet

say "clang-format"
git ls-files -co --exclude-standard '*.cpp' '*.hpp' '*.c' '*.h' | xargs clang-format-19 --dry-run --Werror

say "each file by itself"
scripts/alone.py "$build"

say "clang-tidy"
need_python_venv python-venv scripts/python_requirements.txt
[ -x build/python-venv/bin/clang-tidy ] || die "no build/python-venv: PyPI could not be reached"
git ls-files -co --exclude-standard 'src/*.cpp' 'apps/*.cpp' 'sim/*.cpp' 'preload/*.cpp' |
  xargs scripts/tidy.py "$build"

say "Python: ruff and mypy"
build/python-venv/bin/ruff check -q python tests/python
build/python-venv/bin/mypy --no-error-summary

say "docs/messages.md is up to date"
scripts/messages.py --check

say "docs/python/reference is up to date"
scripts/python_reference.py --check

say "shell scripts parse"
for script in scripts/*.sh .ci/run; do bash -n "$script"; done

say "file and function sizes"
# Files past 500 lines are a design smell that no other tool here reports.
git ls-files -co --exclude-standard 'src/*' 'include/*' 'apps/*' 'sim/*.cpp' 'sim/*.hpp' 'preload/*' 'tests/*.cpp' |
  xargs wc -l | awk '$2 != "total" && $1 > 500 { print "too long: " $2 " (" $1 " lines)"; bad = 1 } END { exit bad }'
