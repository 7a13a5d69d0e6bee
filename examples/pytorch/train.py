# SPDX-License-Identifier: Apache-2.0
"""Some training steps of a small transformer, with sequence lengths that vary, on gpuwarden's pool or on PyTorch's own:

    python train.py --allocator gpuwarden
    python train.py --allocator pytorch

Prints one line of JSON: seconds a step, the loss, and what the allocator held at most.
"""
import argparse
import json
import random
import time

import gpuwarden_allocator


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--allocator", choices=["gpuwarden", "pytorch"], default="gpuwarden")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--longest", type=int, default=1024)
    return parser.parse_args()


def train(options):
    import torch

    torch.manual_seed(1)
    random.seed(1)
    layer = torch.nn.TransformerEncoderLayer(options.width, 16, 4 * options.width, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, options.layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    seconds = []
    for _ in range(options.steps):
        length = random.randint(options.longest // 8, options.longest)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        batch = torch.randn(8, length, options.width, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = (model(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return loss.item(), seconds


def main():
    options = parse()
    loaded = gpuwarden_allocator.install() if options.allocator == "gpuwarden" else None
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("PyTorch sees no GPU")
    loss, seconds = train(options)
    # The first steps load kernels and let the allocator learn.
    settled = sorted(seconds[len(seconds) // 3 :])
    if loaded is None:
        held, live = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    else:
        now = gpuwarden_allocator.status(loaded)
        held, live = now["peak_reserved"], now["peak_live"]
    print(json.dumps({
        "allocator": options.allocator,
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(),
        "median_step_seconds": settled[len(settled) // 2],
        "peak_reserved_bytes": held,
        "peak_live_bytes": live,
        "last_loss": loss,
    }))


if __name__ == "__main__":
    main()
