# SPDX-License-Identifier: Apache-2.0
"""What a source distribution has to hold: every file of the tree but CI's, and nothing that was built.

    check_sdist.py SDIST.tar.gz
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = (".ci/", ".github/")
MADE = ("PKG-INFO",)
#: Without these nothing can be built.
NEEDED = ("CMakeLists.txt", "pyproject.toml", "bindings/python/module.cpp", "python/gpuwarden/__init__.py", "python/gpuwarden/_core.pyi",
          "python/gpuwarden-publish.pth", "knowledge/generate.cpp", "sim/fleets/h100x8.yaml", "docs/python/README.md", "LICENSE")  # fmt: skip


def main() -> int:
    with tarfile.open(sys.argv[1]) as archive:
        there = {name.partition("/")[2] for name in archive.getnames() if not name.endswith("/")}
    there.discard("")
    problems = [f"not in it: {name}" for name in NEEDED if name not in there]
    problems += [f"must not be in it: {name}" for name in sorted(there) if name.endswith((".so", ".pyc", ".o", ".whl")) or "/_native/" in name]
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        tree = {name for name in listed.stdout.split("\0") if name and not name.startswith(LEFT_OUT) and (ROOT / name).exists()}
        problems += [f"of the tree, but not in it: {name}" for name in sorted(tree - there)]
        problems += [f"in it, but not of the tree: {name}" for name in sorted(there - tree - set(MADE))]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
