# SPDX-License-Identifier: Apache-2.0
"""Single steps of optimising: fused and compiled models, and what a GPU is offered by its capability."""

import pytest
from costly_models import COSTS, assert_same, image, step

from gpuwarden.torch import optimize_model, report_of
from gpuwarden.torch.report import FAILED, KEPT


def test_convolutions_are_fused_and_laid_out_on_a_copy(torch, convolutions, always_faster, cache):
    optimized = optimize_model(
        convolutions, "net", (4, 3, 8, 8), level="aggressive", cache=cache, without=["compile", "jit_freeze"]
    )
    assert report_of(optimized).kept == ("inference_mode", "conv_bn_fusion", "channels_last")
    parts = [type(part).__name__ for part in optimized.modules()]
    assert "BatchNorm2d" not in parts
    convolution = next(part for part in optimized.modules() if isinstance(part, torch.nn.Conv2d))
    assert convolution.weight.is_contiguous(memory_format=torch.channels_last)
    assert isinstance(convolutions[1], torch.nn.BatchNorm2d)
    inputs = torch.randn(2, 3, 8, 8)
    assert torch.allclose(optimized(inputs), convolutions(inputs), atol=1e-4)
    assert convolutions[0].weight.is_contiguous()


def test_a_model_that_cannot_be_traced_keeps_its_batch_norms(torch, always_faster, cache):
    class Branching(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution, self.norm = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)

        def forward(self, value):
            return self.norm(self.convolution(value)) if value.sum() > -1e9 else value

    model = Branching().eval()
    optimized = optimize_model(model, "net", (4, 3, 8, 8), level="aggressive", cache=cache, without=["compile", "jit_freeze"])
    assert step(optimized, "conv_bn_fusion").outcome == FAILED
    assert "channels_last" in report_of(optimized).kept


def test_a_compiler_that_refuses_costs_only_its_own_step(torch, costly, optimize):
    if not hasattr(torch, "compile"):
        pytest.skip(f"PyTorch {torch.__version__} has no torch.compile")
    COSTS["inference"] = 0.5

    def refuses(graph, inputs):
        raise RuntimeError("no code for this graph\nand a long trace")

    before = image(costly)
    optimized = optimize(costly, level="aggressive", compile_backend=refuses)
    assert report_of(optimized).kept == ("inference_mode",)
    assert step(optimized, "compile").outcome == FAILED
    assert "no code for this graph" in step(optimized, "compile").reason
    assert_same(torch, before, image(costly))


def test_a_model_that_is_compiled_is_kept_where_it_helps(torch, convolutions, always_faster, cache):
    if not hasattr(torch, "compile"):
        pytest.skip(f"PyTorch {torch.__version__} has no torch.compile")
    optimized = optimize_model(convolutions, "net", (4, 3, 8, 8), level="aggressive", cache=cache, compile_backend="eager")
    assert report_of(optimized).kept[-1] == "compile"
    inputs = torch.randn(2, 3, 8, 8)
    assert torch.allclose(optimized(inputs), convolutions(inputs), atol=1e-4)


def test_inductor_compiles_and_agrees(torch, always_faster, cache):
    """The real compiler once; whether it is faster is not asked here."""
    if not hasattr(torch, "compile"):
        pytest.skip(f"PyTorch {torch.__version__} has no torch.compile")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8)).eval()
    optimized = optimize_model(model, "net", (4, 8), level="aggressive", cache=cache)
    assert step(optimized, "compile").outcome == KEPT, step(optimized, "compile").reason
    assert step(optimized, "compile").relative_error < 1e-4
    inputs = torch.randn(4, 8)
    assert torch.allclose(optimized(inputs), model(inputs), atol=1e-5)


def test_torchscript_takes_the_place_where_there_is_no_compiler(torch, convolutions, always_faster, cache):
    if hasattr(torch, "compile"):
        pytest.skip(f"PyTorch {torch.__version__} has torch.compile")
    optimized = optimize_model(convolutions, "net", (4, 3, 8, 8), level="aggressive", cache=cache)
    assert report_of(optimized).kept[-1] == "jit_freeze"
    assert "no torch.compile" in step(optimized, "compile").reason


# What a GPU would be offered, by its capability.


def _on_gpu(torch, capability, model, training=False):
    from gpuwarden.torch._inputs import Call
    from gpuwarden.torch._steps import Situation

    return Situation(model, torch.device("cuda", 0), capability, Call((), {}), torch.float32, training, None)


@pytest.mark.parametrize(
    ("name", "capability", "words"),
    [
        ("bf16_weights", (7, 5), "compute capability 8.0"),
        ("bf16_weights", (8, 0), ""),
        ("tf32", (7, 0), "8.0"),
        ("tf32", (9, 0), ""),
        ("compile", (6, 1), "7.0"),
        ("cudnn_benchmark", (7, 0), ""),
        ("fp16_weights", (5, 2), "5.3"),
        ("int8_dynamic", (9, 0), "for CPUs"),
        ("channels_last", (7, 0), ""),
    ],
)
def test_steps_fit_by_capability(torch, convolutions, name, capability, words):
    from gpuwarden.torch._steps import STEPS

    if name == "compile" and not hasattr(torch, "compile"):
        pytest.skip(f"PyTorch {torch.__version__} has no torch.compile")
    row = next(row for row in STEPS if row.id == name)
    found = row.fits(_on_gpu(torch, capability, convolutions))
    assert (words in found) if words else found == ""


def test_autocast_is_bf16_from_capability_8_on(torch, convolutions):
    from gpuwarden.torch._steps import _autocast_dtype, _fits_autocast

    assert _autocast_dtype(_on_gpu(torch, (8, 0), convolutions)) is torch.bfloat16
    assert _autocast_dtype(_on_gpu(torch, (7, 5), convolutions)) is torch.float16
    assert "GradScaler" in _fits_autocast(_on_gpu(torch, (7, 5), convolutions, training=True))


def test_attention_of_a_transformers_model_is_switched_on_a_copy(torch):
    from gpuwarden.torch._steps import STEPS
    from gpuwarden.torch._variant import Variant

    class Config:
        _attn_implementation = "eager"

    class Like(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.config = Config()

        def set_attn_implementation(self, name):
            self.config._attn_implementation = name

    model = Like()
    row = next(row for row in STEPS if row.id == "fused_attention")
    situation = _on_gpu(torch, (9, 0), model)
    assert row.fits(situation) == ""
    changed = row.apply(situation, Variant(model)).module
    assert (changed.config._attn_implementation, model.config._attn_implementation) == ("sdpa", "eager")
    assert row.fits(_on_gpu(torch, (9, 0), changed)) == "attention is sdpa already"


def test_ids_are_unique_and_every_precision_has_steps():
    from gpuwarden.torch._steps import STEPS
    from gpuwarden.torch.levels import ModelPrecision

    assert len({row.id for row in STEPS}) == len(STEPS)
    assert all(any(row.precisions == (kind,) for row in STEPS) for kind in ModelPrecision if kind is not ModelPrecision.FP32)
    assert all(row.summary and row.id.isidentifier() for row in STEPS)
