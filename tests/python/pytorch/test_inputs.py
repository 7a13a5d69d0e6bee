# SPDX-License-Identifier: Apache-2.0
import pytest

from gpuwarden.torch._inputs import batch_size, read_inputs, signature


def _read(torch, inputs, model=None):
    model = torch.nn.Linear(3, 3) if model is None else model
    return read_inputs(torch, model, inputs, torch.device("cpu"))


def test_a_shape_becomes_the_same_random_numbers_in_the_models_type(torch):
    model = torch.nn.Linear(3, 3).double()
    (one,), (two,) = _read(torch, (4, 3), model)().args, _read(torch, [4, 3], model)().args
    assert one.shape == (4, 3) and one.dtype is torch.float64
    assert torch.equal(one, two) and float(one.std()) > 0


@pytest.mark.parametrize("form", ["tensor", "tuple", "dict", "callable", "size"])
def test_every_form_is_read(torch, form):
    tensor = torch.ones(2, 3)
    given = {"tensor": tensor, "tuple": (tensor,), "dict": {"input": tensor}, "callable": lambda: tensor, "size": tensor.shape}[
        form
    ]
    call = _read(torch, given)()
    assert call.of(torch.nn.Linear(3, 3)).shape == (2, 3)
    assert batch_size(torch, call) == 2
    assert signature(torch, call) == ["2x3 float32"]


def test_a_callable_is_asked_each_time(torch):
    sizes = iter([1, 2, 3])
    draw = _read(torch, lambda: (next(sizes), 3))
    assert [draw().args[0].shape[0] for _ in range(3)] == [1, 2, 3]


def test_nested_arguments_and_other_values_are_passed_on(torch):
    call = _read(torch, ([torch.ones(1), 7], None, "text"))()
    assert call.args[0][1] == 7 and call.args[1:] == (None, "text")


@pytest.mark.parametrize("wrong", [5, "text", (), [], {3: 4}, (0, 3), (-1, 3), 3.5])
def test_what_is_not_understood_is_told_with_what_would_be(torch, wrong):
    from gpuwarden._error import Error

    with pytest.raises(Error) as caught:
        _read(torch, wrong)()
    assert caught.value.code == "invalid_argument"
    assert "a shape such as" in caught.value.hint
