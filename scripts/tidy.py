#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over the files of a target at once: most of its time goes into headers, which they share.

  scripts/tidy.py BUILD-FOLDER FILE...

The units are those that the build folder compiles (preset lint: ten files in each). Checks that only look into the
main file (unused using-declarations) therefore see nothing here: .clang-tidy leaves them out. Ends with 1 if clang-tidy has
something to say, or if a file is in no unit.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

from units import units_of

PROGRAM = "clang-tidy-19"
# What is included is a header to clang-tidy, sources as well.
FILTER = r"--header-filter=(include/gpuwarden|src|apps|sim|preload)/.*\.[ch]pp$"


def run(unit):
    """What clang-tidy says about a translation unit, and whether it is content."""
    command = [PROGRAM, "--quiet", FILTER, "--checks=-bugprone-suspicious-include", str(unit.path), "--", *unit.options]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout or (done.stderr if done.returncode != 0 else ""), done.returncode == 0


def main():
    wanted = {pathlib.Path(name).resolve() for name in sys.argv[2:]}
    left, units = set(wanted), []
    for unit in units_of(sys.argv[1]):
        # A file that is in several targets is looked at once.
        if left & set(unit.files):
            left -= set(unit.files)
            units.append(unit)
    for file in sorted(left):
        print(f"not linted, since it is not built: {file}")
    fine = not left
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for text, content in pool.map(run, units):
            print(text, end="")
            fine = fine and content
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
