# SPDX-License-Identifier: Apache-2.0
"""`python -m gpuwarden` and the script `gpuwarden`: the command line that came with the package."""
from __future__ import annotations

import os
import sys


def main() -> int:
    """Becomes the program; comes back only where there is none."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_native", "bin", "gpuwarden")
    try:
        os.execv(program, ["gpuwarden", *sys.argv[1:]])
    except OSError as error:
        print(f"gpuwarden: {program}: {error.strerror}\nhint: install the package again", file=sys.stderr)
    return 127


if __name__ == "__main__":
    sys.exit(main())
