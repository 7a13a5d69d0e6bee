# SPDX-License-Identifier: Apache-2.0
"""Mixed precision that fits the device: bf16 where it is computed in hardware, else fp16 with a gradient scaler."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Optional

from ._common import error, load_torch, version

__all__ = ["MixedPrecision", "mixed_precision"]


class MixedPrecision:
    """Autocast and, for fp16, gradient scaling. `with precision.autocast(): ...`, then backward() and step().

    Attributes:
        dtype: torch.bfloat16, torch.float16, or torch.float32 (nothing is cast).
        scaler: the GradScaler, or None.
        reason: why this type.
    """

    def __init__(self, device: Any, dtype: Any, scaler: Any, reason: str) -> None:
        self.device = device
        self.dtype = dtype
        self.scaler = scaler
        self.reason = reason
        self._unscaled: set[int] = set()

    def autocast(self) -> Any:
        """The context for forward pass and loss."""
        torch = load_torch()
        if self.dtype == torch.float32:
            return contextlib.nullcontext()
        return torch.autocast(device_type=self.device.type, dtype=self.dtype)

    def backward(self, loss: Any) -> None:
        """loss.backward(), scaled for fp16."""
        (self.scaler.scale(loss) if self.scaler is not None else loss).backward()

    def clip_gradients(self, optimizer: Any, parameters: Any, most: float) -> Any:
        """Clips the norm of gradients, unscaled first; gives the norm before."""
        torch = load_torch()
        if self.scaler is not None and id(optimizer) not in self._unscaled:
            self.scaler.unscale_(optimizer)
            self._unscaled.add(id(optimizer))
        return torch.nn.utils.clip_grad_norm_(parameters, most)

    def step(self, optimizer: Any) -> None:
        """optimizer.step(); with fp16 left out where gradients overflowed."""
        if self.scaler is None:
            optimizer.step()
            return
        self.scaler.step(optimizer)
        self.scaler.update()
        self._unscaled.discard(id(optimizer))

    def state_dict(self) -> dict[str, Any]:
        """The scaler's state, for checkpoints."""
        return dict(self.scaler.state_dict()) if self.scaler is not None else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """As state_dict() gave it; that of another type is ignored."""
        if self.scaler is not None and state:
            self.scaler.load_state_dict(state)


def no_sync(model: Any) -> Any:
    """Within it DDP and FSDP models exchange no gradients; nothing for other models."""
    if hasattr(model, "set_requires_gradient_sync"):  # FSDP2
        return _without_sync(model)
    return model.no_sync() if hasattr(model, "no_sync") else contextlib.nullcontext()


@contextlib.contextmanager
def _without_sync(model: Any) -> Iterator[None]:
    model.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        model.set_requires_gradient_sync(True)


def _make_scaler(torch: Any, device: str) -> Any:
    if hasattr(torch.amp, "GradScaler"):  # PyTorch 2.3 and later
        return torch.amp.GradScaler(device)
    if device != "cuda":
        return None
    return torch.cuda.amp.GradScaler()


def mixed_precision(device: Any = None, precision: str = "auto", *, capability: Optional[tuple[int, int]] = None) -> MixedPrecision:
    """Mixed precision for a device (a torch.device, its name, or None: the GPU if there is one).

    precision: "auto", "bf16", "fp16" or "fp32". "auto" is bf16 from compute capability 8.0 on, fp16 with a GradScaler
        on older GPUs (bf16 is emulated there, and slow), and fp32 on CPUs.
    capability: taken for the GPU's own, for tests.

    Raises Error (invalid_argument) for other words, (unavailable) where PyTorch has no GradScaler for the device.
    """
    torch = load_torch()
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(device)
    if precision not in ("auto", "bf16", "fp16", "fp32"):
        raise error("invalid_argument", f"unknown precision '{precision}'", "auto, bf16, fp16 or fp32")
    if precision == "auto":
        precision, reason = _choose(torch, device, capability)
    else:
        reason = "asked for"
    if precision == "fp16":
        scaler = _make_scaler(torch, device.type)
        if scaler is None:
            major, minor = version(torch)
            raise error("unavailable", f"PyTorch {major}.{minor} has no GradScaler for '{device.type}'", "bf16, or PyTorch 2.3 and later")
        return MixedPrecision(device, torch.float16, scaler, reason)
    return MixedPrecision(device, torch.bfloat16 if precision == "bf16" else torch.float32, None, reason)


def _choose(torch: Any, device: Any, capability: Optional[tuple[int, int]]) -> tuple[str, str]:
    if device.type != "cuda":
        return "fp32", f"'{device.type}' gains nothing for sure"
    major, minor = capability if capability is not None else torch.cuda.get_device_capability(device)
    words = f"compute capability {major}.{minor}"
    # is_bf16_supported() counts emulation as support.
    if (major, minor) >= (8, 0):
        return "bf16", f"{words} computes bf16 in hardware"
    if (major, minor) >= (7, 0):
        return "fp16", f"{words} has tensor cores for fp16, none for bf16"
    return "fp32", f"{words} has no tensor cores"
