# SPDX-License-Identifier: Apache-2.0
"""What helped is remembered on disk, and is doubted."""

import copy
import json

import pytest
from costly_models import COSTS, step

from gpuwarden.torch import report_of
from gpuwarden.torch.report import FAILED


def test_what_helped_is_remembered(torch, costly, optimize, cache):
    COSTS.update(inference=0.5, half=0.5)
    first = report_of(optimize(costly, precision="bf16"))
    COSTS.update(inference=9.0, half=9.0)
    again = optimize(copy.deepcopy(costly), precision="bf16")
    assert report_of(again).from_cache and not first.from_cache
    assert report_of(again).kept == first.kept == ("inference_mode", "bf16_weights")
    assert again(torch.randn(1, 8)).is_inference()
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("change", ["inputs", "structure", "level", "tolerance"])
def test_another_question_is_another_file(torch, costly, optimize, cache, change):
    COSTS["inference"] = 0.5
    optimize(costly)
    other = torch.nn.Sequential(costly, torch.nn.Identity()) if change == "structure" else costly
    options = {
        "inputs": {"inputs": (5, 8)},
        "level": {"level": "aggressive", "without": ["compile", "jit_freeze"]},
        "tolerance": {"tolerance": 0.5},
    }.get(change, {})
    assert not report_of(optimize(other, **options)).from_cache
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b"null", b'{"format": 1}', b"\xff\xfe", b"[" * 100_000, "steps", "format", "outcome", "number"],
    ids=lambda damage: damage if isinstance(damage, str) else str(damage[:8]),
)
def test_a_damaged_file_is_ignored_with_a_note_and_replaced(costly, optimize, cache, damage):
    COSTS["inference"] = 0.5
    optimize(costly)
    (file,) = cache.iterdir()
    content = json.loads(file.read_text())
    if damage == "steps":
        content["steps"][0]["id"] = "os.system"
    elif damage == "format":
        content["format"] = 99
    elif damage == "outcome":
        content["steps"][0]["outcome"] = "perhaps"
    elif damage == "number":
        content["original_ms"] = "much"
    file.write_bytes(damage if isinstance(damage, bytes) else json.dumps(content).encode())
    report = report_of(optimize(costly))
    assert not report.from_cache
    assert report.kept == ("inference_mode",)
    assert "is damaged and was ignored" in report.notes[0]
    assert report_of(optimize(costly)).from_cache


def test_a_remembered_step_that_no_longer_agrees_is_measured_anew(torch, costly, optimize):
    COSTS.update(half=0.5, inference=0.5)
    first = optimize(costly, precision="fp16")
    if step(first, "fp16_weights").outcome == FAILED:
        pytest.skip(f"this PyTorch cannot compute in fp16 here: {step(first, 'fp16_weights').reason}")
    assert "fp16_weights" in report_of(first).kept
    with torch.no_grad():
        costly.linear.weight.mul_(1e6)
    report = report_of(optimize(costly, precision="fp16"))
    assert not report.from_cache
    assert "was measured anew" in report.notes[0]
    assert "fp16_weights" not in report.kept


def test_a_folder_that_cannot_be_written_is_a_note(costly, optimize, tmp_path):
    (tmp_path / "file").write_text("in the way")
    COSTS["inference"] = 0.5
    report = report_of(optimize(costly, cache=tmp_path / "file"))
    assert report.kept == ("inference_mode",)
    assert any("cach" in note for note in report.notes)


def test_a_noisy_measurement_is_not_remembered(costly, optimize, cache):
    import itertools

    COSTS["jitter"] = itertools.cycle([0.5, 1.9, 1.1, 3.0, 0.7, 1.3, 2.2])
    assert any("too busy" in note for note in report_of(optimize(costly)).notes)
    assert not cache.exists() or not list(cache.iterdir())


def test_the_cache_is_where_xdg_says(monkeypatch, tmp_path):
    from gpuwarden.torch._cache import cache_folder

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "gpuwarden" / "optimize"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "gpuwarden" / "optimize"
