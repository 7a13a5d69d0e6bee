#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over the files of a target at once: most of its time goes into headers, which they share.

  scripts/tidy.py BUILD-FOLDER FILE...

The units are those that the build folder compiles (preset lint: ten files in each). Checks that only look into the
main file (unused using-declarations) therefore see nothing here: .clang-tidy leaves them out. Ends with 1 if clang-tidy has
something to say, or if a file is in no unit.

clang-tidy is that of build/python-venv (scripts/python_requirements.txt), the options those of Debian's clang.

A unit that clang-tidy was content with is not looked at again while nothing of it changes: what the preprocessor makes of
it, its options, the checks and the program. Such units are kept in gpuwarden/tidy below XDG_CACHE_HOME (~/.cache), as a
compiler cache keeps objects; delete that folder to look at all of them.
"""

import concurrent.futures
import functools
import hashlib
import os
import pathlib
import subprocess
import sys

from units import COMPILER, units_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = str(ROOT / "build/python-venv/bin/clang-tidy")
CONTENT = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "gpuwarden" / "tidy"
# What is included is a header to clang-tidy, sources as well.
FILTER = r"--header-filter=(include/gpuwarden|src|apps|sim|preload)/.*\.[ch]pp$"


@functools.cache
def judge():
    """What decides beside the unit: the program's version and what it looks for."""
    version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
    return version + (ROOT / ".clang-tidy").read_text() + FILTER


def fingerprint(unit):
    """The name under which a unit is kept that clang-tidy is content with; nothing where it cannot be preprocessed.
    Comments stay, for NOLINT is one; paths count from the checkout, so that another one of the same sources agrees."""
    done = subprocess.run([COMPILER, *unit.options, "-E", "-C", str(unit.path)], capture_output=True)
    if done.returncode != 0:
        return None
    here = str(ROOT).encode()
    read = hashlib.sha256(judge().encode())
    read.update("\0".join(unit.options).encode().replace(here, b""))
    read.update(done.stdout.replace(here, b""))
    return read.hexdigest()


def run(unit):
    """What clang-tidy says about a translation unit, and whether it is content."""
    name = fingerprint(unit)
    if name and (CONTENT / name).exists():
        return "", True
    command = [PROGRAM, "--quiet", FILTER, "--checks=-bugprone-suspicious-include", str(unit.path), "--", *unit.options]
    done = subprocess.run(command, capture_output=True, text=True)
    if name and done.returncode == 0:
        CONTENT.mkdir(parents=True, exist_ok=True)
        (CONTENT / name).touch()
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
