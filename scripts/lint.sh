#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formatting and static analysis.  scripts/lint.sh [CLANG BUILD FOLDER, default build/asan]
source "$(dirname "$0")/lib.sh"
build=${1:-build/asan}
need_packages "${lint_packages[@]}"
[ -f "$build/compile_commands.json" ] || die "$build is not configured: cmake --preset asan"

say "clang-format"
git ls-files -co --exclude-standard '*.cpp' '*.hpp' '*.c' '*.h' | xargs clang-format-19 --dry-run --Werror

say "clang-tidy"
git ls-files -co --exclude-standard 'src/*.cpp' 'apps/*.cpp' 'sim/*.cpp' 'preload/*.cpp' |
  xargs scripts/tidy.py "$build"

say "docs/messages.md is up to date"
scripts/messages.py --check

say "shell scripts parse"
for script in scripts/*.sh .ci/run; do bash -n "$script"; done

say "file and function sizes"
# Files past 500 lines are a design smell that no other tool here reports.
git ls-files -co --exclude-standard 'src/*' 'include/*' 'apps/*' 'sim/*.cpp' 'sim/*.hpp' 'preload/*' 'tests/*.cpp' |
  xargs wc -l | awk '$2 != "total" && $1 > 500 { print "too long: " $2 " (" $1 " lines)"; bad = 1 } END { exit bad }'
