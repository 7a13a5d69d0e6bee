# SPDX-License-Identifier: Apache-2.0
"""What `with profile_operation(...)` costs in Python, off and on, beside torch.profiler.record_function.

    python bench/profile_bench.py [RUNS]
"""

from __future__ import annotations

import statistics
import sys
import time

from gpuwarden import profile
from gpuwarden.profile import profile_operation


def microseconds_each(runs: int, block) -> str:
    """Median and fastest of eleven rounds, for each run; the loop itself is in it."""
    rounds = []
    for _ in range(11):
        start = time.perf_counter()
        for _ in range(runs):
            with block("operation"):
                pass
        rounds.append((time.perf_counter() - start) / runs * 1e6)
    return f"{statistics.median(rounds):8.2f} us, fastest round {min(rounds):6.2f} us"


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    profile.disable()
    print(f"{'profile_operation, off':<44}{microseconds_each(runs, profile_operation)}")
    profile.enable()
    print(f"{'profile_operation, on':<44}{microseconds_each(runs, profile_operation)}")
    try:
        import torch
    except ImportError:
        print("no PyTorch to compare with")
        return
    print(f"{'torch.profiler.record_function, no profiler':<44}{microseconds_each(runs, torch.profiler.record_function)}")
    with torch.profiler.profile():
        print(f"{'torch.profiler.record_function, profiled':<44}{microseconds_each(min(runs, 2000), torch.profiler.record_function)}")


if __name__ == "__main__":
    main()
