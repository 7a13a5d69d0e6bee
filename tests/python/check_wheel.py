# SPDX-License-Identifier: Apache-2.0
"""What a wheel holds, and that it runs where no -dev packages are: check_wheel.py WHEEL."""
from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# Of every system that gpuwarden runs on.
SYSTEM = r"(linux-vdso|ld-linux-.*|libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|libz)\.so.*"
# Of the server alone.
SERVER = r"(libevent.*|libssl|libcrypto)[-.].*"
WANTED = (
    "gpuwarden/__init__.py",
    "gpuwarden/py.typed",
    "gpuwarden/_core.pyi",
    "gpuwarden-publish.pth",
    "gpuwarden/_native/bin/gpuwarden",
    "gpuwarden/_native/libexec/gpuwarden/gpuwarden-serve",
    "gpuwarden/_native/lib/gpuwarden/libgpuwarden_memtrace.so",
    "gpuwarden/_native/lib/gpuwarden/sim/550/libnvidia-ml.so.1",
    "gpuwarden/_native/lib/gpuwarden/sim/550/libcuda.so.1",
)


def needed(file: Path) -> list[str]:
    """The libraries that a program or library names."""
    headers = subprocess.run(["objdump", "-p", str(file)], capture_output=True, text=True, check=True).stdout
    return re.findall(r"NEEDED +(\S+)", headers)


def finds_bundled(file: Path) -> bool:
    """Whether its run path leads to the libraries that come along."""
    headers = subprocess.run(["objdump", "-p", str(file)], capture_output=True, text=True, check=True).stdout
    paths = re.findall(r"R(?:UN)?PATH +(\S+)", headers)
    return any((file.parent / path.replace("$ORIGIN/", "")).resolve().name == "_libs" for path in ":".join(paths).split(":"))


def problems_of(folder: Path) -> list[str]:
    problems = [f"{name} is missing" for name in WANTED if not (folder / name).exists()]
    bundled = {file.name for file in folder.glob("gpuwarden/_libs/*")}
    extensions = list(folder.glob("gpuwarden/_core*.so"))
    if len(extensions) != 1:
        problems.append(f"{len(extensions)} extensions instead of one")
    binaries = [file for file in folder.rglob("*") if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]
    for file in binaries:
        known = bundled if file.parent.name == "_libs" or finds_bundled(file) else set()
        for name in needed(file):
            server = file.name == "gpuwarden-serve" and re.fullmatch(SERVER, name)
            if not (re.fullmatch(SYSTEM, name) or name in known or server):
                problems.append(f"{file.relative_to(folder)} needs {name}, which the wheel does not hold")
    return problems


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        with zipfile.ZipFile(sys.argv[1]) as wheel:
            wheel.extractall(name)
        problems = problems_of(Path(name))
    print("\n".join(problems) or f"{sys.argv[1]}: complete ({Path(sys.argv[1]).stat().st_size / 2**20:.1f} MiB)")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
