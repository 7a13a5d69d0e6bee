#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cmake/start_order.txt: the functions of the program that its commonest commands run. The program is linked
with them side by side (cmake/StartOrder.cmake), so that few pages are touched.

  scripts/start_order.py [BUILD-FOLDER]     (build/release)

Needs valgrind. Run it when bench_list shows more page faults or a higher peak than docs/benchmarks.md.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "cmake/start_order.txt"
PATIENT = ("--timeout", "60s")  # valgrind is slow
COMMANDS = (("--help",), ("list", *PATIENT), ("list", "--json", *PATIENT), ("select", "-n", "1", *PATIENT),
            ("run", "-n", "8", "--nproc-per-node", "gpu", "-q", *PATIENT, "--", "/bin/true"))
# Readers are killed, and what is killed has told nothing: every so many basic blocks a file is written.
BLOCKS = 5000


def run_in_valgrind(program, words, folder):
    """What callgrind writes about the program and the processes that it forks."""
    places = {"GPUWARDEN_SIMULATE": "h100x8", "GPUWARDEN_SIM_DIR": f"{folder}/sim", "GPUWARDEN_LEASE_DIR": f"{folder}/lease"}
    done = subprocess.run(["valgrind", "--tool=callgrind", "--demangle=no", "--trace-children=yes",
                           f"--dump-every-bb={BLOCKS}", f"--callgrind-out-file={folder}/out.%p", program, *words],
                          env=os.environ | places, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: gpuwarden {' '.join(words)} failed in valgrind:\n{done.stderr[-2000:]}")
    return sorted(folder.glob("out.*"))


def functions_in(file, program):
    """The mangled names of the program's functions that stand in a file of callgrind's. It names each object and each
    function once, and gives its number afterwards."""
    objects, functions, current, found = {}, {}, None, set()
    for line in file.read_text(errors="replace").splitlines():
        entry = re.match(r"(c?)(ob|fn)=\((\d+)\)(?: (.*))?$", line)
        if not entry:
            continue
        called, kind, number, name = entry.groups()
        names = objects if kind == "ob" else functions
        if name:
            names[number] = re.sub(r"'\d+$", "", name)
        if called:
            continue
        if kind == "ob":
            current = names.get(number)
        elif current == program:
            found.add(names.get(number))
    return found


def aliases(program):
    """The names of each function, by any of them: a constructor's section is called by another than callgrind's."""
    listing = subprocess.run(["nm", "--defined-only", program], capture_output=True, text=True, check=True).stdout
    of_address = {}
    for line in listing.splitlines():
        address, _, name = line.split(maxsplit=2)
        of_address.setdefault(address, set()).add(name)
    return {name: names for names in of_address.values() for name in names}


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release").resolve()
    program = str(build / "bin/gpuwarden")
    others = aliases(program)
    names = []  # what the first commands run comes first: a listing does not touch what only a run needs
    for words in COMMANDS:
        found = set()
        with tempfile.TemporaryDirectory() as folder:
            for file in run_in_valgrind(program, words, pathlib.Path(folder)):
                found |= functions_in(file, program)
        named = set().union(*(others.get(name, ()) for name in found)) - set(names)
        # GCC puts what initialises a file's variables into .text.startup, which ld's script has in a place of its own.
        names += sorted(name for name in named
                        if re.fullmatch(r"[\w.$]+", name) and not name.startswith("_GLOBAL__sub_I_"))
    LIST.write_text("\n".join(names) + "\n")
    print(f"{len(names)} functions in {LIST.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
