#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parses each source file and each header by itself, so that every one includes what it uses and hides no name.
Tests, which share a precompiled header wherever they are built, are left out, and so are fuzzers.

  scripts/alone.py [--headers] BUILD-FOLDER

--headers parses the headers alone, in half of the time: what others include has to stand by itself.

The build folder's compile_commands.json says how (preset lint). Ends with 1 if the compiler has something to say.

A header that is the first include of a source file was parsed by itself with that file, and is not parsed again.

The heavy headers that a file includes, itself or by way of the project's own headers, are parsed before, once for all
files with the same ones. That hides no missing include: what is precompiled for a file is what it includes anyway.
"""

import argparse
import collections
import concurrent.futures
import functools
import os
import pathlib
import re
import subprocess
import sys

from units import COMPILER, units_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The heaviest first.
HEAVY = ("nlohmann/json.hpp", "fmt/format.h", "filesystem", "chrono", "ranges", "functional", "algorithm", "map", "memory",
         "expected", "variant", "optional", "vector", "string")
# Fewer files than this are not worth a precompiled header of their own.
WORTH = 8
WARNINGS = ("-Wshadow",)
# Need nanobind and PyTorch, which come from PyPI: builds of their own compile them (scripts/python_env.sh, torch_test.sh).
APART = {ROOT / "bindings/python", ROOT / "bindings/libtorch"}
# Built only where a peer is, or is not, installed.
OPTIONAL = ("absent_cub.cpp", "absent_vma.cpp", "cub_contenders.cpp", "vma_contenders.cpp")


@functools.cache
def includes_of(file):
    """The names that a file includes, in its order, but for those below an #if."""
    found, depth = [], 0
    for directive, rest in re.findall(r"^[ \t]*#[ \t]*(\w+)(.*)", file.read_text(), re.MULTILINE):
        depth += directive.startswith("if") - (directive == "endif")
        name = re.match(r'\s*[<"]([^>"]+)[>"]', rest)
        if directive == "include" and depth == 0 and name:
            found.append(name.group(1))
    return tuple(found)


def resolve(file, name):
    """The project's file that is meant by a name, or none: it is a header of the system's or of a library."""
    for folder in (file.parent, ROOT / "include", ROOT / "src", ROOT):
        if (folder / name).is_file():
            return folder / name
    return None


@functools.cache
def brought_by(name):
    """Which of the heavy headers come with one of them."""
    done = subprocess.run([COMPILER, "-std=c++23", "-M", "-x", "c++", "-"], input=f"#include <{name}>\n", capture_output=True,
                          text=True, check=True)
    brought = done.stdout.replace("\\\n", " ").split()
    return frozenset(other for other in HEAVY if any(path.endswith("/" + other) for path in brought)) | {name}


def heavy_of(file):
    """Which of the heavy headers a file includes, itself or by way of the project's headers and of each other. What
    stands below an #if may not be included."""
    seen, left, heavy = {file}, [file], set()
    while left:
        current = left.pop()
        for name in includes_of(current):
            inner = resolve(current, name)
            if inner is None:
                heavy.update(brought_by(name) if name in HEAVY else ())
            elif inner not in seen:
                seen.add(inner)
                left.append(inner)
    return frozenset(heavy)


def parsed(options):
    """The options without those that only matter to the code that is made."""
    return tuple(option for option in options if not option.startswith(("-f", "-O")))


def files_of(units):
    """Each file that is parsed by itself, with its options: a header has those of a source file beside it."""
    files = {file: parsed(unit.options) for unit in units for file in unit.files
             if ROOT / "build" not in file.parents and ROOT / "tests" not in file.parents}
    of_folder = {}
    for file, options in files.items():
        for folder in file.relative_to(ROOT).parents:
            of_folder.setdefault(folder, options)
    for top in ("include/gpuwarden", "src", "apps", "sim", "preload", "bindings", "bench"):
        for header in sorted((ROOT / top).rglob("*.hpp")):
            if not APART.isdisjoint(header.parents):
                continue
            place = header.relative_to(ROOT)
            if top == "include/gpuwarden":
                place = pathlib.Path("src", *place.parts[2:])
            files[header] = next(of_folder[folder] for folder in place.parents if folder in of_folder)
    return files


def nobodys(files):
    """The sources that no target has, so that nobody looks at them here; those that need what is not installed aside."""
    tops = ("src", "apps", "sim", "preload", "bindings", "bench", "examples")
    return [file for top in tops for file in sorted((ROOT / top).rglob("*.cpp"))
            if file not in files and file.name not in OPTIONAL and APART.isdisjoint(file.parents)]


def precompile(folder, number, heavy, options):
    """The precompiled form of some heavy headers, or none where the compiler refuses: each file then shows why."""
    source = folder / f"heavy_{number}.hpp"
    source.write_text("".join(f"#include <{name}>\n" for name in HEAVY if name in heavy))
    result = source.with_suffix(".pch")
    # What stands in the file is a header, whose functions nobody calls here.
    command = [COMPILER, *options, "-fpch-instantiate-templates", "-x", "c++-header", str(source), "-o", str(result)]
    return result if subprocess.run(command, capture_output=True).returncode == 0 else None


def parse(file, options, precompiled):
    header = ["-x", "c++", "-Wno-pragma-once-outside-header"] if file.suffix == ".hpp" else []
    before = ["-include-pch", str(precompiled)] if precompiled else []
    done = subprocess.run([COMPILER, *options, *WARNINGS, *before, "-fsyntax-only", *header, str(file)],
                          capture_output=True, text=True)
    return done.stderr, done.returncode == 0


def language(options):
    """The options that a precompiled header has to share: all but where files are and what macros are for the project."""
    return tuple(option for option in options if not option.startswith(("-Dgpuwarden", "-DGPUWARDEN", "-I")))


def best(made, heavy, spoken):
    """Of what was precompiled, that which spares a file the most and brings nothing that it does not include."""
    fitting = [key for key in made if key[1] == spoken and key[0] <= heavy]
    weight = {name: 2 ** (len(HEAVY) - place) for place, name in enumerate(HEAVY)}
    return max(fitting, key=lambda key: sum(weight[name] for name in key[0]), default=(frozenset(), spoken))


def parsed_by_source(wanted, chosen):
    """The headers that a source file includes first, with nothing precompiled that they do not include themselves."""
    found = set()
    for file in wanted:
        first = resolve(file, next(iter(includes_of(file)), "/")) if file.suffix == ".cpp" else None
        if first in wanted and chosen[file][0] <= wanted[first][0]:
            found.add(first)
    return found


def main():
    arguments = argparse.ArgumentParser(description="Parses each source file and each header by itself.")
    arguments.add_argument("--headers", action="store_true", help="the headers alone")
    arguments.add_argument("build", metavar="BUILD-FOLDER")
    arguments = arguments.parse_args()
    files = files_of(units_of(arguments.build))
    unbuilt = nobodys(files)
    if arguments.headers:
        files = {file: options for file, options in files.items() if file.suffix == ".hpp"}
    wanted = {file: (heavy_of(file), language(options)) for file, options in files.items()}
    shared = [key for key, count in collections.Counter(wanted.values()).items() if count >= WORTH and key[0]]
    folder = pathlib.Path(arguments.build).resolve() / "alone"
    folder.mkdir(exist_ok=True)
    for file in unbuilt:
        print(f"not parsed, since it is not built: {file}")
    fine = not unbuilt
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        made = dict(zip(shared, pool.map(lambda item: precompile(folder, item[0], *item[1]), enumerate(shared))))
        made = {key: file for key, file in made.items() if file}
        chosen = {file: best(made, *key) for file, key in wanted.items()}
        done = parsed_by_source(wanted, chosen)
        left = [file for file in files if file not in done]
        for job in [pool.submit(parse, file, files[file], made.get(chosen[file])) for file in left]:
            text, content = job.result()
            print(text, end="")
            fine = fine and content
    print(f"parsed {len(left)} files, each by itself; {len(made)} sets of headers were parsed before")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
