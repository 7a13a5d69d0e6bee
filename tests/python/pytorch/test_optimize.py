# SPDX-License-Identifier: Apache-2.0
"""What is kept, refused and undone. Models move the clock themselves, by how they are called."""

import json

import pytest
from costly_models import COSTS, assert_same, image, step

from gpuwarden._error import Error
from gpuwarden.torch import Measurement, OptimizationLevel, optimize_model, report_of, undo
from gpuwarden.torch.report import FAILED, KEPT, LEFT_OUT, OUTCOMES, REFUSED


def test_a_step_that_helps_is_kept_with_its_gain(torch, costly, optimize):
    COSTS["inference"] = 0.5
    optimized = optimize(costly)
    report = report_of(optimized)
    assert report.kept == ("inference_mode",)
    assert step(optimized, "inference_mode").gain_percent == pytest.approx(50, abs=1)
    assert report.speedup == pytest.approx(2, rel=0.05)
    assert report.original_ms == pytest.approx(10, rel=0.01)
    inputs = torch.randn(2, 8)
    assert torch.equal(optimized(inputs), costly(inputs))
    assert optimized(inputs).is_inference()


def test_a_step_that_makes_it_slower_is_refused_with_the_figure(costly, optimize):
    COSTS["inference"] = 1.5
    optimized = optimize(costly)
    assert step(optimized, "inference_mode").outcome == REFUSED
    assert "50.0 % more time a call" in step(optimized, "inference_mode").reason


def test_a_step_at_equal_speed_is_kept_for_its_memory(costly, optimize):
    found = step(optimize(costly), "inference_mode")
    assert found.outcome == KEPT
    assert found.memory_after_bytes < found.memory_before_bytes
    assert "less memory, no slower" in found.reason


def test_a_gain_within_the_noise_is_refused(costly, optimize):
    import itertools

    COSTS["jitter"] = itertools.cycle([0.5, 1.9, 1.1, 3.0, 0.7, 1.3, 2.2])
    COSTS["inference"] = 0.97
    found = step(optimize(costly), "inference_mode")
    assert found.outcome == REFUSED
    assert found.noise_percent > abs(found.gain_percent)


def test_nothing_kept_gives_the_model_itself_back(costly, optimize):
    COSTS["inference"] = 1.5
    costly.eval()
    assert optimize(costly) is costly
    assert report_of(costly).kept == ()
    assert undo(costly) is costly


def test_a_model_in_training_mode_is_left_so_and_its_optimised_form_evaluates(torch, costly, optimize):
    COSTS["inference"] = 1.5
    costly.train()
    optimized = optimize(costly)
    assert optimized is not costly and not optimized.training and costly.training
    assert undo(optimized) is costly


def test_the_original_is_never_changed(torch, costly, optimize):
    COSTS.update(inference=0.5, half=0.5)
    before = image(costly)
    random = torch.random.get_rng_state()
    optimized = optimize(costly, precision="bf16", tolerance=1.0)
    assert "bf16_weights" in report_of(optimized).kept
    assert_same(torch, before, image(costly))
    assert torch.equal(random, torch.random.get_rng_state())
    optimized(torch.randn(2, 8))
    assert_same(torch, before, image(costly))
    assert undo(optimized) is costly


def test_halved_weights_take_and_give_what_the_original_does(torch, costly, optimize):
    COSTS["half"] = 0.5
    optimized = optimize(costly, precision="bf16")
    assert report_of(optimized).kept == ("inference_mode", "bf16_weights")
    inputs = torch.randn(2, 8)
    assert optimized(inputs).dtype is torch.float32
    assert torch.allclose(optimized(inputs), costly(inputs), atol=0.1)
    assert step(optimized, "bf16_weights").relative_error > 0


def test_what_is_too_inexact_is_refused_however_fast(costly, optimize):
    COSTS["half"] = 0.1
    found = step(optimize(costly, precision="bf16", tolerance=1e-6), "bf16_weights")
    assert found.outcome == REFUSED
    assert "relative error" in found.reason and found.gain_percent is None


def test_an_overflow_is_refused(torch, costly, optimize):
    COSTS["half"] = 0.1
    with torch.no_grad():
        costly.linear.weight.fill_(1e6)  # beyond fp16
    found = step(optimize(costly, lambda: torch.ones(4, 8), precision="fp16"), "fp16_weights")
    assert found.outcome in (REFUSED, FAILED)
    assert found.outcome == FAILED or "finite" in found.reason


def test_mixed_precision_is_autocast(torch, costly, optimize):
    COSTS["autocast"] = 0.5
    optimized = optimize(costly, precision="mixed")
    assert "autocast" in report_of(optimized).kept
    assert optimized(torch.randn(2, 8)).dtype is torch.float32


def test_of_a_group_the_fastest_is_kept(torch, costly, optimize):
    COSTS.update(int8=0.9, weight_only=0.5)
    optimized = optimize(costly, precision="int8")
    assert step(optimized, "int8_weight_only").outcome == KEPT
    loser = step(optimized, "int8_dynamic")
    assert loser.outcome == REFUSED and "int8_weight_only gains more" in loser.reason
    assert any(type(part).__name__ == "Int8Linear" for part in optimized.modules())
    inputs = torch.randn(2, 8)
    assert torch.allclose(optimized(inputs), costly(inputs), atol=0.1)


def test_dynamic_int8_is_pytorchs(torch, costly, optimize):
    COSTS.update(int8=0.5, weight_only=3.0)
    optimized = optimize(costly, precision="int8")
    assert "int8_dynamic" in report_of(optimized).kept
    assert "torchao" in step(optimized, "int8_torchao").reason


def test_tied_weights_stay_tied(torch, optimize):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one = torch.nn.Linear(8, 8, bias=False)
            self.two = torch.nn.Linear(8, 8, bias=False)
            self.two.weight = self.one.weight

        def forward(self, value):
            return self.two(self.one(value))

    from gpuwarden.torch._variant import Variant, convert, sharing_copy, weight_bytes

    model = Tied()
    changed = convert(sharing_copy(model, False), lambda tensor: tensor.to(torch.bfloat16))
    assert changed.one.weight is changed.two.weight
    assert changed.one.weight.dtype is torch.bfloat16 and model.one.weight.dtype is torch.float32
    assert weight_bytes(Variant(model)) == 8 * 8 * 4


def test_recurrent_layers_can_be_converted(torch):
    from gpuwarden.torch._variant import convert, sharing_copy

    model = torch.nn.LSTM(4, 4)
    changed = convert(sharing_copy(model, False), lambda tensor: tensor.to(torch.float64))
    assert changed(torch.randn(2, 1, 4, dtype=torch.float64))[0].dtype is torch.float64
    assert model(torch.randn(2, 1, 4))[0].dtype is torch.float32


def test_level_none_does_nothing(costly, optimize):
    assert optimize(costly, level="NONE") is costly
    assert costly.training
    assert {one.outcome for one in report_of(costly).steps} == {LEFT_OUT}


def test_each_level_includes_those_before(costly, optimize):
    basic = optimize(costly, level=OptimizationLevel.BASIC)
    assert step(basic, "conv_bn_fusion").reason == "from level aggressive on"
    assert step(basic, "compile_freezing").reason == "from level experimental on"


def test_without_example_inputs_nothing_is_tried_and_that_is_said(costly, optimize):
    optimized = optimize(costly, None)
    assert report_of(optimized).kept == ()
    assert "no example inputs" in report_of(optimized).notes[0]
    assert not optimized.training and costly.training


def test_unwanted_steps_are_left_out(costly, optimize):
    COSTS["inference"] = 0.5
    assert step(optimize(costly, without="inference_mode"), "inference_mode").reason == "left out by the caller"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"level": "fastest"}, "unknown optimisation level 'fastest'"),
        ({"precision": "fp4"}, "unknown precision 'fp4'"),
        ({"without": ["warp"]}, "unknown step 'warp'"),
        ({"level": 3}, "unknown optimisation level 3"),
        ({"inputs": (4, 9)}, "does not take the example inputs"),
        ({"inputs": 7}, "not understood"),
    ],
)
def test_wrong_arguments_are_told_and_the_model_is_unharmed(torch, costly, optimize, options, words):
    before = image(costly)
    with pytest.raises(Error, match=words) as caught:
        optimize(costly, **options)
    assert caught.value.code == "invalid_argument"
    assert_same(torch, before, image(costly))


def test_inputs_of_the_wrong_type_are_told(torch, costly, optimize):
    before = image(costly)
    with pytest.raises(Error, match="does not take the example inputs"):
        optimize(costly, torch.ones(4, 8, dtype=torch.int64))
    assert_same(torch, before, image(costly))


@pytest.mark.parametrize("name", [["a", "list"], {"a": "dict"}, 5])
def test_a_name_that_is_no_text_is_told(torch, costly, name):
    with pytest.raises(Error, match="name is text"):
        optimize_model(costly, name, (4, 8))


def test_what_is_no_module_is_told(torch):
    with pytest.raises(Error, match=r"torch\.nn\.Module, not a function"):
        optimize_model(lambda value: value, "f", (4, 8))


def test_a_model_that_cannot_be_copied_comes_back_as_it_is(torch, costly, optimize):
    import threading

    costly.lock = threading.Lock()
    assert optimize(costly) is costly
    assert "cannot be copied" in report_of(costly).notes[0]


def test_a_model_with_random_output_is_left_alone(torch, optimize):
    class Random(torch.nn.Module):
        calls = 0

        def forward(self, value):
            type(self).calls += 1
            return value + type(self).calls

    model = Random().eval()
    assert optimize(model) is model
    assert "random" in report_of(model).notes[0]


def test_dropout_is_no_random_output(torch, optimize):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout())
    assert "random" not in repr(report_of(optimize(model)))


def test_a_wrapped_model_is_left_alone(torch, costly, optimize):
    model = torch.nn.DataParallel(costly)
    model.eval()
    assert optimize(model) is model
    assert "before it is wrapped" in report_of(model).notes[0]


def test_an_optimised_model_refuses_what_would_break_it(torch, costly, optimize):
    COSTS["inference"] = 0.5
    optimized = optimize(costly)
    with pytest.raises(Error, match="optimised for inference"):
        optimized.train()
    with pytest.raises(Error, match="cannot be loaded"):
        optimized.load_state_dict(costly.state_dict())
    with pytest.raises(Error, match="cannot be converted"):
        optimized.to(torch.float64)
    with pytest.raises(Error, match="optimised already"):
        optimize_model(optimized, "again", (4, 8))
    assert optimized.eval() is optimized
    assert optimized.to("cpu") is optimized


@pytest.mark.parametrize("kept", ["inference", "half"])
def test_a_move_takes_the_original_along_and_what_is_shared_stays_so(torch, costly, optimize, kept):
    COSTS[kept] = 0.5
    optimized = optimize(costly, precision="bf16" if kept == "half" else "fp32")
    if kept == "inference":
        assert optimized.module.linear.weight is costly.linear.weight
    assert optimized.to("meta") is optimized
    everything = [*costly.parameters(), *costly.buffers(), *optimized.module.parameters(), *optimized.module.buffers()]
    assert {tensor.device.type for tensor in everything} == {"meta"}
    assert (optimized.module.linear.weight is costly.linear.weight) == (kept == "inference")
    assert costly.linear.weight.dtype is torch.float32


def test_an_optimised_model_saves_the_originals_weights(torch, costly, optimize):
    COSTS.update(inference=0.5, half=0.5)
    optimized = optimize(costly, precision="bf16")
    state = optimized.state_dict()
    assert list(state) == list(costly.state_dict())
    assert all(torch.equal(state[name], value) for name, value in costly.state_dict().items())
    assert optimized.linear.weight.dtype is torch.bfloat16  # looked up in the optimised module


def test_undo_refuses_a_stranger(torch):
    with pytest.raises(Error, match="did not come from optimize_model"):
        undo(torch.nn.Linear(1, 1))


def test_training_refuses_what_would_break_it_and_leaves_gradients_alone(torch, clock, optimize):
    model = torch.nn.Sequential(torch.nn.Conv1d(2, 4, 1), torch.nn.BatchNorm1d(4), torch.nn.Flatten(), torch.nn.Linear(12, 2))
    before = image(model)
    result = optimize(model, (4, 2, 3), training=True, precision="bf16", level="aggressive", without="compile")
    assert_same(torch, before, image(model))
    assert result is model
    assert "would break training" in step(result, "inference_mode").reason
    assert "would break training" in step(result, "conv_bn_fusion").reason
    assert "would break training" in step(result, "bf16_weights").reason


def test_a_model_optimised_for_training_trains_the_originals_parameters(torch, costly, optimize):
    COSTS["autocast"] = 0.5
    optimized = optimize(costly, training=True, precision="mixed")
    assert report_of(optimized).kept == ("autocast",)
    assert optimized.training
    optimized.train()
    optimized(torch.randn(4, 8)).sum().backward()
    assert costly.linear.weight.grad is not None
    optimized.eval()


def test_keywords_and_nested_outputs(torch, always_faster, cache):
    class Nested(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, *, value, scale=1.0):
            return {"hidden": [self.linear(value) * scale], "best": self.linear(value).argmax(-1)}

    model = Nested().eval()
    inputs = {"value": torch.randn(4, 8), "scale": 2.0}
    optimized = optimize_model(model, None, inputs, precision="bf16", tolerance=0.3, cache=cache)
    assert "bf16_weights" in report_of(optimized).kept
    assert report_of(optimized).name == "Nested"
    output = optimized(**inputs)
    assert output["hidden"][0].dtype is torch.float32 and output["best"].dtype is torch.int64


def test_the_report_is_plain_and_escaped(costly, clock, cache):
    optimized = optimize_model(costly, "<b>", (4, 8), cache=cache, measurement=Measurement(clock=clock, sample_seconds=0.0))
    report = report_of(optimized)
    back = json.loads(json.dumps(report.to_dict()))
    assert back["kept"] == list(report.kept) and len(back["steps"]) == len(report.steps)
    assert {one["outcome"] for one in back["steps"]} <= set(OUTCOMES)
    assert "inference_mode" in repr(report) and "<b>" not in report._repr_html_()
    assert all(one.reason for one in report.steps)
