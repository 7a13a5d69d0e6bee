# SPDX-License-Identifier: Apache-2.0
"""A torch that cannot be imported, whatever its import raises, is no torch, and the reason is told."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpuwarden

MISSING_LIBRARY = "libcudart.so.12: cannot open shared object file: No such file or directory"
#: What lies in torch/__init__.py, and what is told of it.
TORCHES = {
    "a missing library": (f"raise OSError({MISSING_LIBRARY!r})", f"OSError: {MISSING_LIBRARY}"),
    "another version": ("raise RuntimeError('module compiled against ABI 9\\n(at core.py:1)')", "RuntimeError: module compiled against ABI 9"),
    "a bug": ("nothing_of_that_name", "NameError: name 'nothing_of_that_name' is not defined"),
    "a part that is missing": ("import torch_parts_nobody_has", "No module named 'torch_parts_nobody_has'"),
    "a folder of that name": ("", "the module torch that was imported is not PyTorch"),
}  # fmt: skip

PROGRAM = """
import gpuwarden, gpuwarden.torch
from gpuwarden import _process_memory
from gpuwarden.gpu import GPUManager
with gpuwarden.simulate("h100x8"):
    assert _process_memory.find_torch() is None
    assert gpuwarden.CUDAMemoryManager().get_memory_status()["device_count"] == 8
    assert str(gpuwarden.get_optimal_device()) in ("cpu", "cuda:0")
    with GPUManager({"enable_monitoring": False}) as manager:
        status = manager.get_status()
        assert status["cuda_available"] is False and status["torch"] is None
        print(status["torch_problem"])
        with manager.device_context() as device:
            assert str(device) == "cpu"
        for attempt in (lambda: manager.optimize_model(object(), "m"), lambda: manager.setup_distributed(True),
                        gpuwarden.torch.memory_status):
            try:
                attempt()
            except gpuwarden.Error as error:
                assert error.code == "unavailable", error.code
                print(error.message)
    print(gpuwarden.CUDAEnvironmentValidator()._check_pytorch_cuda()["message"])
"""


@pytest.mark.parametrize("kind", TORCHES)
def test_the_reason_is_told_wherever_torch_is_wanted(kind: str, tmp_path: Path) -> None:
    source, told = TORCHES[kind]
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(source + "\n")
    places = os.pathsep.join([str(tmp_path), str(Path(gpuwarden.__file__).parents[1])])
    done = subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, "PYTHONPATH": places}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 5 and all(line.endswith(told) for line in lines), done.stdout
