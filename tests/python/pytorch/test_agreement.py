# SPDX-License-Identifier: Apache-2.0
import math

import pytest

from gpuwarden.torch._agreement import TOLERANCES, difference


def test_the_error_is_relative_to_the_length_of_the_output(torch):
    original = torch.tensor([3.0, 4.0])
    assert difference(torch, original, torch.tensor([3.0, 4.5])) == (pytest.approx(0.1), "")
    assert difference(torch, original, original.clone()) == (0.0, "")


def test_the_worst_of_several_outputs_counts(torch):
    one, two = torch.ones(4), torch.full((4,), 10.0)
    found, _ = difference(torch, {"a": one, "b": [two]}, {"a": one, "b": [two * 1.5]})
    assert found == pytest.approx(0.5)


def test_whole_numbers_count_by_the_share_that_differs(torch):
    found, _ = difference(torch, torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 0, 4]))
    assert found == 0.25


@pytest.mark.parametrize(
    ("expected", "found", "words"),
    [
        ([1.0, 2.0], [1.0], "shape"),
        ([1.0, 2.0], [1.0, math.inf], "finite"),
        ([0.0, 0.0], [0.0, 1.0], "zeros"),
        ([1.0, math.inf], [1.0, -math.inf], "infinities"),
    ],
)
def test_what_cannot_be_compared_is_infinitely_far(torch, expected, found, words):
    apart, why = difference(torch, torch.tensor(expected), torch.tensor(found))
    assert apart == math.inf
    assert words in why


def test_nans_at_the_same_places_agree(torch):
    both = torch.tensor([1.0, math.nan, math.inf])
    assert difference(torch, both, both.clone()) == (0.0, "")


def test_another_number_of_outputs_is_told(torch):
    assert "2 output tensors instead of 1" in difference(torch, [torch.ones(1)], [torch.ones(1), torch.ones(1)])[1]


def test_an_output_without_tensors_is_told(torch):
    assert "no tensor" in difference(torch, "text", "text")[1]


def test_coarser_numbers_may_differ_more():
    ordered = [TOLERANCES[name] for name in ("fp32", "tf32", "fp16", "bf16", "int8")]
    assert ordered == sorted(ordered)
