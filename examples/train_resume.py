# SPDX-License-Identifier: Apache-2.0
"""Trains a small model with as many ranks as there are, and goes on where it was ended, bit for bit.

    gpuwarden run --device cpu --nproc-per-node 2 -- python examples/train_resume.py --folder out

Kill it, start it again: it resumes from its latest checkpoint and comes to the same loss. SIGUSR1 (Slurm's
--signal=USR1@60) or SIGTERM makes it save and end by itself, with exit code 0.
"""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

import torch
from gpuwarden.torch.training import (
    Checkpoints,
    accumulate,
    distribute,
    mixed_precision,
    process_group,
    stop_requested_by,
)


def batches(step: int, rank: int, micro: int):
    """The micro-batches of a step: made of step and rank alone, as a sampler with set_epoch() makes them."""
    numbers = torch.Generator().manual_seed(1_000_003 * step + rank)
    for _ in range(micro):
        x = torch.randn(16, 8, generator=numbers)
        yield x, (x.sin().sum(dim=1, keepdim=True))


def train(options: argparse.Namespace) -> None:
    torch.manual_seed(1)
    with process_group() as ranks, stop_requested_by((signal.SIGUSR1, signal.SIGTERM)) as stopping:
        # Dropout: the random numbers of every rank have to be resumed, too.
        model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1))
        model = distribute(model, options.strategy, device=ranks.device)
        torch.manual_seed(100 + ranks.rank)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.9)
        precision = mixed_precision(ranks.device)
        checkpoints = Checkpoints(options.folder, model, optimizer, scheduler=scheduler, precision=precision)
        begin = checkpoints.resume()
        loss_of_step = checkpoints.extra().get("loss", float("nan"))
        if ranks.main:
            print(f"begins with step {begin}, {ranks.world_size} ranks, {ranks.backend}", flush=True)
        for step in range(begin, options.steps):
            for group in accumulate(batches(step, ranks.rank, 2), 2, model, precision):
                total = 0.0
                for micro in group:
                    x, y = (tensor.to(ranks.device) for tensor in micro.batch)
                    with micro.sync(), precision.autocast():
                        loss = torch.nn.functional.mse_loss(model(x), y)
                        micro.backward(loss)
                    total += loss.item() / micro.of
                precision.step(optimizer)
                optimizer.zero_grad(set_to_none=True)
                loss_of_step = total
            scheduler.step()
            if options.die_at == step and ranks.main:
                os.kill(os.getpid(), signal.SIGKILL)
            if options.stop_at == step and ranks.main:
                os.kill(os.getpid(), signal.SIGUSR1)
            due = checkpoints.due(step, every=options.every, stop=stopping)
            if due:
                checkpoints.save(step, loss=loss_of_step)
            # All ranks have heard of it in due(): they end after the same step.
            if due and checkpoints.stop_heard:
                if ranks.main:
                    print(f"ends early, after step {step}", flush=True)
                return
        weights = sum(parameter.detach().double().sum().item() for parameter in model.parameters())
        text = f"{loss_of_step.hex()} {weights.hex()}"
        (Path(options.folder) / f"result-{ranks.rank}").write_text(text)
        if ranks.main:
            print(f"loss {loss_of_step:.6f} after {options.steps} steps", flush=True)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True, help="where checkpoints and results go")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--every", type=int, default=5, help="steps between checkpoints")
    parser.add_argument("--strategy", default="ddp", help="ddp, fsdp2, or single")
    parser.add_argument("--die-at", type=int, default=-1, help="for the test: rank 0 is killed after this step")
    parser.add_argument("--stop-at", type=int, default=-1, help="for the test: rank 0 gets SIGUSR1 after this step")
    return parser.parse_args(words)


if __name__ == "__main__":
    train(arguments())
