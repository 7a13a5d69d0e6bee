# SPDX-License-Identifier: Apache-2.0
"""The steps of optimize_model: a row for each. A step is tried where it fits; whether it stays is measured.

Imports torch at once."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import warnings
from dataclasses import dataclass, replace
from typing import Any, Callable, Iterator

import torch

from ._common import autocast_is_on
from ._inputs import Call
from ._variant import Variant, convert, sharing_copy
from .levels import ModelPrecision, OptimizationLevel

_CONVOLUTIONS = (torch.nn.Conv2d, torch.nn.ConvTranspose2d, torch.nn.Conv3d, torch.nn.ConvTranspose3d)
_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
_QUANTIZED_BY_TORCH = (torch.nn.Linear, torch.nn.LSTM, torch.nn.GRU)


@dataclass(frozen=True)
class Situation:
    """What is known when a step is asked whether it fits."""

    model: torch.nn.Module
    device: torch.device
    capability: tuple[int, int] | None
    call: Call
    output_dtype: Any  #: of the original's first floating-point output
    training: bool
    compile_backend: Any

    def has(self, kinds: tuple[type, ...]) -> bool:
        return any(isinstance(part, kinds) for part in self.model.modules())


Fits = Callable[[Situation], str]
Apply = Callable[[Situation, Variant], Variant]


@dataclass(frozen=True)
class Step:
    """A row: `fits` says "" or why not, `apply` makes a new variant and leaves the one it is given alone."""

    id: str
    summary: str
    level: OptimizationLevel
    fits: Fits
    apply: Apply
    precisions: tuple[ModelPrecision, ...] = tuple(ModelPrecision)
    tolerance: str = "fp32"  #: a key of TOLERANCES
    group: str = ""  #: of several with the same, the fastest is kept
    breaks_training: str = ""  #: why, or ""


def _always(_: Situation) -> str:
    return ""


def _only_cuda(situation: Situation) -> str:
    return "" if situation.device.type == "cuda" else "only a GPU has this"


# Scopes around calls.


def _inference(_: Situation, variant: Variant) -> Variant:
    return replace(variant, scopes=(torch.inference_mode, *variant.scopes), graphless=True)


@contextlib.contextmanager
def _cudnn_benchmark() -> Iterator[None]:
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextlib.contextmanager
def _tf32() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _in_scope(scope: Any) -> Apply:
    return lambda _, variant: replace(variant, scopes=(*variant.scopes, scope))


def _fits_cudnn(situation: Situation) -> str:
    return _only_cuda(situation) or ("" if situation.has(_CONVOLUTIONS) else "the model has no convolutions")


def _fits_tf32(situation: Situation) -> str:
    if situation.capability is None:
        return "only a GPU has this"
    if situation.capability < (8, 0):
        return f"TF32 needs compute capability 8.0, this GPU has {_dotted(situation.capability)}"
    return "" if torch.get_float32_matmul_precision() == "highest" else "TF32 is on already"


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


def _autocast_dtype(situation: Situation) -> Any:
    # torch.cuda.is_bf16_supported() counts emulation.
    return torch.float16 if situation.capability is not None and situation.capability < (8, 0) else torch.bfloat16


def _fits_autocast(situation: Situation) -> str:
    if autocast_is_on(torch, situation.device.type):
        return "autocast is on already"
    if situation.training and _autocast_dtype(situation) is torch.float16:
        return "training in fp16 needs a GradScaler in the training loop"
    return ""


def _autocast(situation: Situation, variant: Variant) -> Variant:
    dtype = _autocast_dtype(situation)
    kind = situation.device.type
    scope = lambda: torch.autocast(kind, dtype=dtype)  # noqa: E731
    return replace(variant, scopes=(*variant.scopes, scope), output_dtype=situation.output_dtype)


# Layout and types of the weights.


def _fits_channels_last(situation: Situation) -> str:
    return "" if situation.has(_CONVOLUTIONS) else "the model has no 2-D or 3-D convolutions"


def _channels_last(_: Situation, variant: Variant) -> Variant:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 4:
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor.contiguous(memory_format=torch.channels_last_3d) if tensor.dim() == 5 else tensor

    module = convert(sharing_copy(variant.module, share_buffers=True), change)
    return replace(variant, module=module, layouts=((4, torch.channels_last), (5, torch.channels_last_3d)))


def _fits_weights(dtype: Any, least: tuple[int, int], words: str) -> Fits:
    def fits(situation: Situation) -> str:
        floating = [p for p in situation.model.parameters() if p.is_floating_point()]
        if not floating:
            return "the model has no floating-point weights"
        if all(p.dtype == dtype for p in floating):
            return f"the weights are {words} already"
        if situation.capability is not None and situation.capability < least:
            return f"{words} needs compute capability {_dotted(least)}, this GPU has {_dotted(situation.capability)}"
        return ""

    return fits


def _weights_to(dtype: Any) -> Apply:
    def apply(situation: Situation, variant: Variant) -> Variant:
        def change(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(dtype) if tensor.is_floating_point() else tensor

        module = convert(sharing_copy(variant.module, share_buffers=True), change)
        return replace(variant, module=module, input_dtype=dtype, output_dtype=situation.output_dtype)

    return apply


# int8.


def _dynamic_quantizer() -> Any:
    for name in ("torch.ao.quantization", "torch.quantization"):
        with contextlib.suppress(ImportError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = getattr(importlib.import_module(name), "quantize_dynamic", None)
            if found is not None:
                return found
    return None


def _fits_int8_dynamic(situation: Situation) -> str:
    if situation.device.type != "cpu":
        return "PyTorch's own int8 kernels are for CPUs"
    if not situation.has(_QUANTIZED_BY_TORCH):
        return "the model has no linear or recurrent layers"
    return "" if _dynamic_quantizer() is not None else f"PyTorch {torch.__version__} has no quantize_dynamic"


def _int8_dynamic(_: Situation, variant: Variant) -> Variant:
    module = sharing_copy(variant.module, share_buffers=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = _dynamic_quantizer()(module, set(_QUANTIZED_BY_TORCH), dtype=torch.qint8, inplace=True)
    return replace(variant, module=module)


def _fits_linear(situation: Situation) -> str:
    return "" if situation.has((torch.nn.Linear,)) else "the model has no linear layers"


def _torchao(config: str) -> tuple[Fits, Apply]:
    def fits(situation: Situation) -> str:
        if importlib.util.find_spec("torchao") is None:
            return "torchao is not installed"
        if not hasattr(importlib.import_module("torchao.quantization"), config):
            return f"this torchao has no {config}"
        return _fits_linear(situation)

    def apply(_: Situation, variant: Variant) -> Variant:
        ao = importlib.import_module("torchao.quantization")
        module = sharing_copy(variant.module, share_buffers=True)
        ao.quantize_(module, getattr(ao, config)())
        return replace(variant, module=module)

    return fits, apply


class Int8Linear(torch.nn.Module):
    """A linear layer whose weights are kept as int8 with a scale for each output, and widened for each call."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        scale = weight.float().abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / 127
        self.register_buffer("weight", (weight.float() / scale).round().clamp(-127, 127).to(torch.int8))
        self.register_buffer("scale", scale.to(weight.dtype))
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(value, self.weight.to(value.dtype) * self.scale, self.bias)


def _int8_weight_only(_: Situation, variant: Variant) -> Variant:
    module = sharing_copy(variant.module, share_buffers=True)
    if type(module) is torch.nn.Linear:
        return replace(variant, module=Int8Linear(module))
    done: dict[int, Int8Linear] = {}
    for part in list(module.modules()):
        for name, child in list(part.named_children()):
            if type(child) is torch.nn.Linear:
                setattr(part, name, done.setdefault(id(child), Int8Linear(child)))
    return replace(variant, module=module)


# Fusion and compilation.


def _fits_conv_bn(situation: Situation) -> str:
    convolutions = (*_CONVOLUTIONS, torch.nn.Conv1d)
    return "" if situation.has(convolutions) and situation.has(_NORMS) else "no convolution with a batch norm behind it"


def _fuse_conv_bn(_: Situation, variant: Variant) -> Variant:
    fusion = importlib.import_module("torch.fx.experimental.optimization")
    copied = sharing_copy(variant.module, share_buffers=True)
    norms = sum(isinstance(part, _NORMS) for part in copied.modules())
    module = fusion.fuse(copied, inplace=True)
    module.eval()
    if sum(isinstance(part, _NORMS) for part in module.modules()) == norms:
        raise RuntimeError("no batch norm follows a convolution directly")
    return replace(variant, module=module)


def _fits_sdpa(situation: Situation) -> str:
    if not hasattr(situation.model, "set_attn_implementation"):
        return "the model offers no choice of attention kernels (PyTorch's own layers use the fused ones already)"
    chosen = getattr(getattr(situation.model, "config", None), "_attn_implementation", None)
    return "" if chosen == "eager" else f"attention is {chosen} already"


def _sdpa(_: Situation, variant: Variant) -> Variant:
    module = sharing_copy(variant.module, share_buffers=True)
    module.set_attn_implementation("sdpa")
    return replace(variant, module=module)


def _fits_compile(situation: Situation) -> str:
    if not hasattr(torch, "compile"):
        return f"PyTorch {torch.__version__} has no torch.compile (2.0 or later)"
    if type(situation.model).__name__ == "OptimizedModule":
        return "the model is compiled already"
    if situation.capability is not None and situation.capability < (7, 0):
        return f"torch.compile needs compute capability 7.0, this GPU has {_dotted(situation.capability)}"
    return ""


def _fits_compile_cuda(situation: Situation) -> str:
    return _only_cuda(situation) or _fits_compile(situation)


def _compile(**settings: Any) -> Apply:
    def apply(situation: Situation, variant: Variant) -> Variant:
        backend = {} if situation.compile_backend is None else {"backend": situation.compile_backend}
        module = torch.compile(sharing_copy(variant.module, share_buffers=True), **settings, **backend)
        return replace(variant, module=module, compiled=True)

    return apply


def _fits_jit(situation: Situation) -> str:
    if hasattr(torch, "compile"):
        return "torch.compile takes its place"
    return "TorchScript cannot be traced with keyword arguments" if situation.call.kwargs else ""


def _jit_freeze(situation: Situation, variant: Variant) -> Variant:
    with torch.no_grad():
        traced = torch.jit.trace(sharing_copy(variant.module, share_buffers=True), situation.call.args, check_trace=False)
        module = torch.jit.optimize_for_inference(torch.jit.freeze(traced.eval()))
    return replace(variant, module=module, compiled=True, countable=False)


_P, _L = ModelPrecision, OptimizationLevel
_REPLACED = "it replaces parameters, which an optimizer holds"
_AO_DYNAMIC = _torchao("Int8DynamicActivationInt8WeightConfig")
_AO_WEIGHT_ONLY = _torchao("Int8WeightOnlyConfig")

#: In the order in which they are tried: each is measured beside what was kept before.
STEPS: tuple[Step, ...] = (
    Step(
        "inference_mode",
        "nothing is recorded for a backward pass",
        _L.BASIC,
        _always,
        _inference,
        breaks_training="nothing could be learned without gradients",
    ),
    Step(
        "conv_bn_fusion",
        "batch norms become part of the convolutions before them",
        _L.AGGRESSIVE,
        _fits_conv_bn,
        _fuse_conv_bn,
        breaks_training="batch norms would no longer learn",
    ),
    Step(
        "channels_last",
        "channels are the innermost dimension",
        _L.BASIC,
        _fits_channels_last,
        _channels_last,
        breaks_training=_REPLACED,
    ),
    Step(
        "cudnn_benchmark", "cuDNN tries its kernels and takes the fastest", _L.BASIC, _fits_cudnn, _in_scope(_cudnn_benchmark)
    ),
    Step(
        "tf32",
        "products of float32 matrices in TF32",
        _L.AGGRESSIVE,
        _fits_tf32,
        _in_scope(_tf32),
        precisions=(_P.FP32, _P.MIXED),
        tolerance="tf32",
    ),
    Step("fused_attention", "attention by scaled_dot_product_attention", _L.AGGRESSIVE, _fits_sdpa, _sdpa),
    Step(
        "autocast",
        "operations that gain from it run in bf16 (fp16 below capability 8.0)",
        _L.BASIC,
        _fits_autocast,
        _autocast,
        precisions=(_P.MIXED,),
        tolerance="bf16",
    ),
    Step(
        "fp16_weights",
        "weights and inputs in fp16",
        _L.BASIC,
        _fits_weights(torch.float16, (5, 3), "fp16"),
        _weights_to(torch.float16),
        precisions=(_P.FP16,),
        tolerance="fp16",
        breaks_training=_REPLACED,
    ),
    Step(
        "bf16_weights",
        "weights and inputs in bf16",
        _L.BASIC,
        _fits_weights(torch.bfloat16, (8, 0), "bf16"),
        _weights_to(torch.bfloat16),
        precisions=(_P.BF16,),
        tolerance="bf16",
        breaks_training=_REPLACED,
    ),
    Step(
        "int8_dynamic",
        "int8 weights, activations by PyTorch's dynamic quantisation",
        _L.BASIC,
        _fits_int8_dynamic,
        _int8_dynamic,
        precisions=(_P.INT8,),
        tolerance="int8",
        group="int8",
        breaks_training=_REPLACED,
    ),
    Step(
        "int8_torchao",
        "int8 weights and activations by torchao",
        _L.BASIC,
        *_AO_DYNAMIC,
        precisions=(_P.INT8,),
        tolerance="int8",
        group="int8",
        breaks_training=_REPLACED,
    ),
    Step(
        "int8_torchao_weight_only",
        "int8 weights by torchao",
        _L.BASIC,
        *_AO_WEIGHT_ONLY,
        precisions=(_P.INT8,),
        tolerance="int8",
        group="int8",
        breaks_training=_REPLACED,
    ),
    Step(
        "int8_weight_only",
        "int8 weights, widened for each call",
        _L.BASIC,
        _fits_linear,
        _int8_weight_only,
        precisions=(_P.INT8,),
        tolerance="int8",
        group="int8",
        breaks_training=_REPLACED,
    ),
    Step("compile", "torch.compile", _L.AGGRESSIVE, _fits_compile, _compile(), group="compile"),
    Step(
        "compile_cuda_graphs",
        "torch.compile, launched as CUDA graphs (reduce-overhead)",
        _L.AGGRESSIVE,
        _fits_compile_cuda,
        _compile(mode="reduce-overhead"),
        group="compile",
    ),
    Step(
        "compile_max_autotune",
        "torch.compile that tries kernels (max-autotune)",
        _L.EXPERIMENTAL,
        _fits_compile_cuda,
        _compile(mode="max-autotune"),
        group="compile",
    ),
    Step(
        "compile_freezing",
        "torch.compile with the weights as constants",
        _L.EXPERIMENTAL,
        _fits_compile,
        _compile(options={"freezing": True}),
        group="compile",
        breaks_training="weights become constants",
    ),
    Step(
        "jit_freeze",
        "TorchScript, frozen and fused",
        _L.AGGRESSIVE,
        _fits_jit,
        _jit_freeze,
        breaks_training="weights become constants",
    ),
)
