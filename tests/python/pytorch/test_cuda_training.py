# SPDX-License-Identifier: Apache-2.0
"""Training on a GPU that PyTorch sees: why it is slow, and the parts that make it faster. scripts/gpu_acceptance.sh runs
these; elsewhere they are skipped. Faults are made so large that a busy machine does not hide them."""

import time

import pytest

from gpuwarden.torch import (
    Checkpoints,
    accumulate,
    checkpoint_activations,
    distribute,
    load_checkpoint,
    loader_settings,
    mixed_precision,
    process_group,
    save_checkpoint,
    step_monitor,
)

pytestmark = pytest.mark.cuda


def causes(loader, model, step, warmup=3):
    with step_monitor(loader, model=model, warmup=warmup) as monitor:
        for batch in monitor:
            step(monitor, batch)
    verdict = monitor.verdict()
    print(verdict)
    return {cause.id: cause for cause in verdict.causes}


class Slow:
    def __init__(self, torch):
        self._torch = torch

    def __len__(self):
        return 20

    def __getitem__(self, index):
        time.sleep(0.02)
        return self._torch.zeros(64)


def test_cause_1_a_loader_without_workers(torch):
    model = torch.nn.Linear(64, 64).cuda()
    loader = torch.utils.data.DataLoader(Slow(torch), batch_size=1, num_workers=0, pin_memory=True)
    found = causes(loader, model, lambda monitor, batch: model(monitor.move(batch, "cuda")).sum().backward())
    assert next(iter(found)) == "loader_workers"


@pytest.mark.parametrize("pinned", [False, True])
def test_cause_2_pageable_memory(torch, pinned):
    model = torch.nn.Linear(64, 64).cuda()
    data = torch.utils.data.TensorDataset(torch.zeros(16, 16 << 20))
    loader = torch.utils.data.DataLoader(data, batch_size=1, pin_memory=pinned)
    found = causes(loader, model, lambda monitor, batch: model(monitor.move(batch, "cuda")[0][:, :64]).sum().backward())
    assert ("pinned_memory" in found) == (not pinned)


@pytest.mark.parametrize("autocast", [False, True])
def test_cause_3_float32_where_tensor_cores_idle(torch, autocast):
    if torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("bf16 needs compute capability 8.0")
    model = torch.nn.Linear(4096, 4096).cuda()
    data = torch.randn(4096, 4096, device="cuda")

    def step(monitor, batch):
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
            loss = model(data).sum()
        loss.backward()

    assert ("mixed_precision" in causes(range(16), model, step)) == (not autocast)


def test_cause_4_a_model_that_loops_in_python(torch):
    class Looping(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = torch.nn.Linear(8, 8)

        def forward(self, x):
            for _ in range(1000):
                x = self.cell(x).tanh()
            return x

    model = Looping().cuda()
    data = torch.randn(4, 8, device="cuda")
    found = causes(range(12), model, lambda monitor, batch: model(data).sum().backward())
    assert "cell (Linear)" in found["architecture"].change


def test_cause_5_large_copies_though_they_are_pinned(torch):
    model = torch.nn.Linear(64, 64).cuda()
    held = torch.zeros(64 << 20).pin_memory()
    found = causes(range(16), model, lambda monitor, batch: model(monitor.move(held, "cuda")[:64].view(1, 64)).sum().backward())
    assert "copies between host and GPU take" in found["transfer"].reason


def test_cause_5_values_that_are_fetched_in_each_step(torch):
    model = torch.nn.Linear(1024, 1024).cuda()
    data = torch.randn(1024, 1024, device="cuda")

    def batches():
        for _ in range(16):
            time.sleep(0.005)  # which a GPU with work in its queue would not notice
            yield data

    found = causes(batches(), model, lambda monitor, batch: [model(batch).sum().item() for _ in range(6)])
    assert "loader_workers" in found or "6 values" in found["transfer"].reason


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_mixed_precision_trains_with_its_scaler(torch, kind):
    precision = mixed_precision("cuda", kind)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs = torch.randn(256, 64, device="cuda")
    wanted = inputs.sum(1, keepdim=True) / 8
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        with precision.autocast():
            loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        precision.backward(loss)
        precision.clip_gradients(optimizer, model.parameters(), 10.0)
        precision.step(optimizer)
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    assert (precision.scaler is not None) == (kind == "fp16")


def test_accumulated_gradients_are_those_of_the_whole_batch(torch):
    model = torch.nn.Linear(8, 1).cuda()
    data = torch.randn(8, 8, device="cuda")
    (group,) = list(accumulate(data.split(2), 4, model))
    for micro in group:
        with micro.sync():
            micro.backward(model(micro.batch).mean())
    found = model.weight.grad.clone()
    model.zero_grad()
    model(data).mean().backward()
    assert torch.allclose(found, model.weight.grad, atol=1e-5)


def test_layers_that_compute_again_take_less_memory(torch):
    def peak(checkpointed):
        torch.manual_seed(0)
        model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)) for _ in range(8))).cuda()
        if checkpointed:
            assert checkpoint_activations(model)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        model(torch.randn(2048, 1024, device="cuda")).sum().backward()
        return torch.cuda.max_memory_allocated() - before

    assert peak(True) < 0.7 * peak(False)


def test_checkpoints_of_a_gpu_are_resumed_bit_for_bit(torch, tmp_path):
    def build():
        torch.manual_seed(3)
        model = torch.nn.Linear(16, 16).cuda()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        return model, optimizer, Checkpoints(tmp_path, model, optimizer)

    def step(model, optimizer):
        optimizer.zero_grad()
        model(torch.randn(4, 16, device="cuda")).sum().backward()
        optimizer.step()

    model, optimizer, checkpoints = build()
    step(model, optimizer)
    checkpoints.save(0)
    step(model, optimizer)
    expected = model.weight.detach().clone()
    model, optimizer, checkpoints = build()
    torch.cuda.manual_seed(99)
    assert checkpoints.resume() == 1
    step(model, optimizer)
    assert torch.equal(expected, model.weight), "weights, moments and the GPU's random numbers are those of before"
    save_checkpoint(tmp_path / "one.pt", {"x": expected})
    assert load_checkpoint(tmp_path / "one.pt")["x"].device.type == "cpu"


def test_a_loader_pins_for_the_gpu(torch):
    torch.ones(1, device="cuda")
    settings = loader_settings(torch.utils.data.TensorDataset(torch.zeros(64, 8)), batch_size=4)
    assert settings.pin_memory
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(64, 8)), batch_size=4, **settings.arguments())
    assert next(iter(loader))[0].is_pinned()


def test_one_rank_with_nccl(torch, monkeypatch):
    from torch.distributed import all_reduce, destroy_process_group, init_process_group

    if not torch.distributed.is_nccl_available():
        pytest.skip("this PyTorch has no NCCL")
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29631"}.items():
        monkeypatch.setenv(name, value)
    init_process_group("nccl")
    try:
        with process_group() as ranks:
            assert ranks.device.type == "cuda" and ranks.backend == "nccl"
            model = distribute(torch.nn.Linear(4, 2), "ddp")
            assert next(model.parameters()).is_cuda
            value = model(torch.ones(1, 4, device="cuda")).sum().detach()
            all_reduce(value)
    finally:
        destroy_process_group()
