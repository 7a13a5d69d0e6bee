#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over several files at once: most of its time goes into headers, which the files of a room share.

  scripts/tidy.py BUILD-FOLDER FILE...

Files with the same compiler options are included into one translation unit. Files that do not go together
(helpers of the same name) come into different ones. Ends with 1 if clang-tidy has something to say.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

PROGRAM = "clang-tidy-19"
COMPILER = "clang++-19"
AT_ONCE = 12
# What is included is a header to clang-tidy, sources as well.
FILTER = r"--header-filter=(include/gpuwarden|src|apps|sim)/.*\.[ch]pp$"


def options_of(entry):
    """The compiler's options without the compiler, its launcher, the file and the output."""
    words = shlex.split(entry["command"])
    first = next(i for i, word in enumerate(words) if re.search(r"clang\+\+[-\d]*$", word))
    kept, skip = [], False
    for word in words[first + 1 :]:
        if skip or word in ("-c", entry["file"]):
            skip = False
        elif word == "-o":
            skip = True
        else:
            kept.append(word)
    return tuple(kept)


def misfits(unit, files, options):
    """Those of the files that do not go together with the ones before them; all but the first if nobody knows."""
    check = [COMPILER, "-fsyntax-only", "-w", "-ferror-limit=0", "-fno-caret-diagnostics", *options, str(unit)]
    done = subprocess.run(check, capture_output=True, text=True)
    if done.returncode == 0:
        return []
    named = set(re.findall(r"^(.+?):\d+:\d+: (?:fatal )?error: ", done.stderr, re.MULTILINE))
    return [file for file in files[1:] if str(file) in named] or files[1:]


def make_units(folder, files, options):
    """Translation units that compile, and single files, which together are all of the files."""
    left = files
    while left:
        chosen, left = left[:AT_ONCE], left[AT_ONCE:]
        while len(chosen) > 1:
            unit = folder / f"{chosen[0].parent.name}_{chosen[0].stem}_{len(chosen)}.cpp"
            unit.write_text("".join(f'#include "{file}"\n' for file in chosen))
            odd = misfits(unit, chosen, options)
            if not odd:
                yield unit
                break
            chosen = [file for file in chosen if file not in odd]
            left = odd + left
        else:
            yield chosen[0]


def run(unit, options):
    """What clang-tidy says about a translation unit, and whether it is content."""
    command = [PROGRAM, "--quiet", FILTER, "--checks=-bugprone-suspicious-include", str(unit), "--", *options, "-Wno-shadow"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout or (done.stderr if done.returncode != 0 else ""), done.returncode == 0


def lint_group(folder, files, options, pool):
    return [pool.submit(run, unit, options) for unit in make_units(folder, files, options)]


def main():
    build = pathlib.Path(sys.argv[1])
    wanted = {pathlib.Path(name).resolve() for name in sys.argv[2:]}
    groups = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        if file in wanted:
            wanted.discard(file)
            groups.setdefault(options_of(entry), []).append(file)
    for file in sorted(wanted):
        print(f"not linted, since it is not built: {file}")
    folder = build.resolve() / "tidy"
    folder.mkdir(exist_ok=True)
    fine = not wanted
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for job in [job for options, files in groups.items() for job in lint_group(folder, sorted(files), options, pool)]:
            text, content = job.result()
            print(text, end="")
            fine = fine and content
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
