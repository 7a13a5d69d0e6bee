# SPDX-License-Identifier: Apache-2.0
"""The five causes of slow training (document 003): each is found in a small program that has the fault, and not in the
same program with the fault mended. The programs run; how long their parts take is simulated (simulated_gpu.py), so that
no busy machine decides. test_cuda_training.py has them on a GPU."""

from __future__ import annotations

import pytest


class Decoding:
    """A dataset whose samples take a while, as decoding an image does: in the loop's own process, or, with workers, in
    theirs, where the loop does not wait for it."""

    def __init__(self, torch, clock, seconds, workers):
        self._torch, self._clock, self._seconds, self._workers = torch, clock, seconds, workers

    def __len__(self):
        return 12

    def __getitem__(self, index):
        if not self._workers:
            self._clock.now += self._seconds
        return self._torch.ones(64)


@pytest.fixture
def train(torch, clock, monkeypatch):
    """Trains on a simulated GPU of compute capability 8.0; the ids of the causes, and the verdict."""
    from simulated_gpu import SimulatedGpu

    from gpuwarden.torch import step_monitor, steps

    def run(loader, model, step, pinned=True):
        gpu = SimulatedGpu(clock, pinned)
        monkeypatch.setattr(steps, "HostMarks", lambda _: gpu)
        with gpu, step_monitor(loader, model=model, watch_copies=True, clock=clock) as monitor:
            monitor.learn(device="cuda", capability=(8, 0), cpus=8)
            for batch in monitor:
                step(monitor, batch)
        verdict = monitor.verdict()
        assert verdict.steps >= 5
        return {cause.id: cause for cause in verdict.causes}

    return run


def loader_of(torch, dataset, **options):
    return torch.utils.data.DataLoader(dataset, batch_size=1, **options)


def test_cause_1_too_few_workers(torch, clock, train):
    model = torch.nn.Linear(64, 64, dtype=torch.bfloat16)

    def step(monitor, batch):
        for _ in range(20):
            model(batch.bfloat16()).sum().backward()

    found = train(loader_of(torch, Decoding(torch, clock, 1e-3, 0), num_workers=0), model, step)
    assert list(found)[0] == "loader_workers"
    assert found["loader_workers"].change == "num_workers 0 -> 4"
    assert "loader_workers" not in train(loader_of(torch, Decoding(torch, clock, 1e-3, 2), num_workers=2), model, step)


def test_cause_2_pageable_memory(torch, train):
    """What a loader is told to do stands in it; that pages are pinned only a machine with a GPU can do."""
    model = torch.nn.Linear(64, 64)

    def causes(pinned):
        data = torch.utils.data.TensorDataset(torch.ones(24, 65536))
        loader = torch.utils.data.DataLoader(data, batch_size=2, pin_memory=pinned)

        def step(monitor, batch):
            rows = batch[0].to("meta")
            assert rows.device.type == "meta"
            for _ in range(20):
                model(batch[0][:, :64]).sum().backward()

        return train(loader, model, step, pinned)

    found = causes(False)
    assert found["pinned_memory"].change == "pin_memory False -> True"
    assert "pinned_memory" not in causes(True)


@pytest.mark.parametrize(("autocast", "told"), [(False, True), (True, False)])
def test_cause_3_float32_where_tensor_cores_idle(torch, train, autocast, told):
    model = torch.nn.Linear(512, 512)

    def step(monitor, batch):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            model(batch).sum()

    found = train([torch.ones(64, 512)] * 8, model, step)
    assert ("mixed_precision" in found) == told
    if told:
        assert found["mixed_precision"].change == "precision float32 -> bfloat16"


def test_cause_4_a_model_that_loops_in_python(torch, train):
    class Looping(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = torch.nn.Linear(8, 8)

        def forward(self, x):
            for row in range(300):
                x[row : row + 1] = self.cell(x[row : row + 1]).tanh()
            return x

    class Whole(Looping):
        def forward(self, x):
            return self.cell(x).tanh()

    def causes(model):
        def step(monitor, batch):
            with torch.no_grad():
                model(batch.clone())

        return train([torch.ones(300, 8)] * 8, model, step)

    assert causes(Looping())["architecture"].change == "call cell (Linear) once for all, not 300 times"
    assert "architecture" not in causes(Whole())


@pytest.mark.parametrize(("size", "told"), [(2048, True), (8, False)])
def test_cause_5_large_copies_in_each_step(torch, train, size, told):
    model = torch.nn.Linear(8, 512)

    def step(monitor, batch):
        batch.to("meta")
        model(batch[:, :8]).sum()

    found = train([torch.ones(64, size)] * 8, model, step)
    assert ("transfer" in found) == told
    if told:
        assert "copies between host and GPU take" in found["transfer"].reason


@pytest.mark.parametrize(("every", "told"), [(1, True), (100, False)])
def test_cause_5_values_fetched_in_each_step(torch, clock, train, every, told):
    model = torch.nn.Linear(64, 512)
    log = []

    def step(monitor, batch):
        losses = [model(batch).mean().detach() for _ in range(6)]
        if len(log) % every == 0:
            log.append([loss.item() for loss in losses])
        else:
            log.append(losses)

    def batches():
        for _ in range(8):
            clock.now += 15e-6  # the host prepares the next batch: the GPU works meanwhile, or, after fetching, idles
            yield torch.ones(64, 64)

    found = train(batches(), model, step)
    assert ("transfer" in found) == told
    if told:
        assert found["transfer"].change == "fetch values every 100 steps"
        assert found["transfer"].reason.startswith("6 values are fetched in each step")
