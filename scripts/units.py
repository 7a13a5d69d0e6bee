# SPDX-License-Identifier: Apache-2.0
"""What a build folder compiles, as its compile_commands.json has it: translation units, their options, their files."""

import dataclasses
import json
import pathlib
import re
import shlex

COMPILER = "clang++-19"


@dataclasses.dataclass(frozen=True)
class Unit:
    """A translation unit: a source file, or a file of CMake's that includes several (UNITY_BUILD)."""

    path: pathlib.Path
    options: tuple
    files: tuple


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


def included(path):
    """The files that a unit of CMake's includes; any other file is a unit by itself."""
    if path.suffix != ".cxx":
        return (path,)
    return tuple(pathlib.Path(name) for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE))


def units_of(build):
    """The C++ units of a build folder, in the order of their paths."""
    entries = json.loads((pathlib.Path(build) / "compile_commands.json").read_text())
    found = {}
    for entry in entries:
        path = pathlib.Path(entry["file"])
        if path.suffix in (".cpp", ".cxx"):
            found[path] = Unit(path, options_of(entry), included(path))
    return [found[path] for path in sorted(found)]
