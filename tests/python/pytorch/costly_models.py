# SPDX-License-Identifier: Apache-2.0
"""Models that move the clock by how they are called, and what the tests of optimising ask of them. The fixtures are in
every test's reach by conftest.py."""


import pytest

from gpuwarden.torch import Measurement, optimize_model, report_of
from gpuwarden.torch._common import autocast_is_on

#: What a call of a Costly model takes; of the process, for a copied model has copies of what it holds.
COSTS = {}


@pytest.fixture
def costly(torch, clock):
    """A model whose calls take COSTS["plain"] seconds of the fake clock, times the factor of every state it is in."""

    class Costly(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, value):
            seconds = COSTS.get("plain", 0.01)
            if torch.is_inference_mode_enabled():
                seconds *= COSTS.get("inference", 1.0)
            if value.dtype is not torch.float32:
                seconds *= COSTS.get("half", 1.0)
            if autocast_is_on(torch, "cpu"):
                seconds *= COSTS.get("autocast", 1.0)
            if not isinstance(getattr(self, "linear", None), torch.nn.Linear):
                seconds *= COSTS.get("int8", 1.0)
            if type(self.linear).__name__ == "Int8Linear":
                seconds *= COSTS.get("weight_only", 1.0)
            clock.now += next(COSTS["jitter"]) * seconds if "jitter" in COSTS else seconds
            with torch.no_grad():
                self.seen += 1
            return self.linear(value)

    COSTS.clear()
    torch.manual_seed(3)
    return Costly()


@pytest.fixture
def optimize(clock, cache):
    def run(model, inputs=(4, 8), **options):
        options.setdefault("cache", cache)
        options.setdefault("measurement", Measurement(clock=clock, sample_seconds=0.0, seconds=1e9, most_pairs=12))
        return optimize_model(model, "model", inputs, **options)

    return run


def step(model, name):
    return next(step for step in report_of(model).steps if step.id == name)


def image(model):
    """Everything that must not change in a model that was only looked at."""
    state = {name: value.clone() for name, value in model.state_dict().items()}
    return (
        state,
        [id(p) for p in model.parameters()],
        [m.training for m in model.modules()],
        [p.grad for p in model.parameters()],
    )


def assert_same(torch, before, after):
    assert before[0].keys() == after[0].keys()
    assert all(torch.equal(before[0][name], after[0][name]) for name in before[0])
    assert before[1:] == after[1:]


@pytest.fixture
def convolutions(torch):
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten())
    model(torch.randn(16, 3, 8, 8))  # the batch norm has seen something
    return model.eval()


@pytest.fixture
def always_faster(monkeypatch):
    """Every later variant is measured to take half of the one before it."""
    from gpuwarden.torch import _measure

    monkeypatch.setattr(
        _measure, "compare", lambda before, after, finish, options: _measure.Comparison(2.0, 1.0, 0.5, 0.02, 10)
    )
