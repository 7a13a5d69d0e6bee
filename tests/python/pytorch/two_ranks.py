# SPDX-License-Identifier: Apache-2.0
"""Several trainings of examples/train_resume.py one after the other in the same ranks: starting Python, PyTorch and a
group of ranks takes far longer than a training.

    python two_ranks.py 'whole --strategy ddp' 'check refused_save' 'killed --strategy fsdp2 --die-at 8'
"""

from __future__ import annotations

import runpy
import shlex
import shutil
import sys
from pathlib import Path

import torch

from gpuwarden import Error
from gpuwarden.torch import Checkpoints, process_group

ROOT = Path(__file__).resolve().parents[3]
example = runpy.run_path(str(ROOT / "examples/train_resume.py"), run_name="example")


def refused_save(ranks):
    """Rank 0 cannot write: no rank may wait for it."""
    Path("a-file").touch()
    try:
        Checkpoints("a-file/below", torch.nn.Linear(1, 1)).save(0)
    except Error as problem:
        return f"{problem.code}: {problem.message}"
    except OSError as problem:
        return type(problem).__name__
    return "saved"


def different_folders(ranks):
    """Rank 1 has half of the newest checkpoint, then none at all."""
    mine = Path(f"private-{ranks.rank}")
    mine.mkdir()
    for step in (5, 8):
        shutil.copy(f"whole-ddp/step-{step:09d}.pt", mine)
    newest = mine / "step-000000008.pt"
    if not ranks.main:
        newest.write_bytes(newest.read_bytes()[:100])
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1))
    said = [f"resumes with {Checkpoints(mine, model).resume()}"]
    if not ranks.main:
        shutil.rmtree(mine)
    try:
        Checkpoints(mine, model).resume()
    except Error as problem:
        said.append(f"{problem.code}: {problem.message}")
    return "\n".join(said)


CHECKS = {"refused_save": refused_save, "different_folders": different_folders}

with process_group() as group:
    for arguments in sys.argv[1:]:
        if group.main:
            print(f"# {arguments}", flush=True)
        folder, *options = shlex.split(arguments)
        if folder == "check":
            Path(f"{options[0]}-{group.rank}").write_text(CHECKS[options[0]](group))
        else:
            example["train"](example["arguments"](["--folder", folder, *options]))
