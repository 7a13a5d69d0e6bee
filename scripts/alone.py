#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parses each source file and each public header by itself, so that every one includes what it uses. Tests, which
share a precompiled header wherever they are built, are left out.

  scripts/alone.py BUILD-FOLDER

The build folder's compile_commands.json says how (preset lint: no unity, no precompiled headers). A header that is the
first include of the source file of its name was parsed by itself with that file, and is not parsed again. Ends with 1
if the compiler has something to say.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

from tidy import COMPILER, options_of


def alone(entry, file):
    """The entry's command, but for another file and without output."""
    header = ["-x", "c++", "-Wno-pragma-once-outside-header"] if file.suffix == ".hpp" else []
    return [COMPILER, *options_of(entry), "-fsyntax-only", *header, str(file)]


def first_include(source):
    found = re.search(r'^#include [<"]([^>"]+)[>"]', source.read_text(), re.MULTILINE)
    return found.group(1) if found else ""


def parse(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr, done.returncode == 0


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    entries = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    left_out = (str(root / "build") + "/", str(root / "tests") + "/")
    entries = [entry for entry in entries if entry["file"].endswith(".cpp") and not entry["file"].startswith(left_out)]
    # A file that is in several targets is parsed once.
    commands = {entry["file"]: alone(entry, pathlib.Path(entry["file"])) for entry in entries}
    seen = {first_include(pathlib.Path(file)) for file in commands}
    of_room = {pathlib.Path(entry["file"]).relative_to(root).parts[1]: entry for entry in entries
               if entry["file"].startswith(str(root / "src"))}
    for header in sorted((root / "include/gpuwarden").rglob("*.hpp")):
        name = str(header.relative_to(root / "include"))
        room = header.relative_to(root / "include/gpuwarden").parts[0]
        if name not in seen:
            commands[str(header)] = alone(of_room.get(room, entries[0]), header)
    fine = True
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for text, content in pool.map(parse, commands.values()):
            print(text, end="")
            fine = fine and content
    print(f"parsed {len(commands)} files, each by itself")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
