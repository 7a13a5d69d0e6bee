# SPDX-License-Identifier: Apache-2.0
"""The parsers that Python reaches: whatever text comes, an answer or a gpuwarden.Error."""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuwarden
from gpuwarden import _core

TEXTS = st.one_of(st.text(max_size=60), st.text("0123456789.kKmMgGtTiIbB smhd-+eE,", max_size=30))
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


@given(st.integers(0, 10**6), st.sampled_from(sorted(UNITS)), st.sampled_from(["", " "]))
def test_sizes_are_bytes(number, unit, blank):
    assert gpuwarden.parse_size(f"{number}{blank}{unit}") == number * UNITS[unit]


@given(st.integers(0, 10**6), st.sampled_from([("ms", 0.001), ("s", 1), ("m", 60), ("", 1)]))
def test_durations_are_seconds(number, unit):
    name, seconds = unit
    assert gpuwarden.parse_duration(f"{number}{name}") == pytest.approx(number * seconds, abs=0.001)


@given(TEXTS)
def test_any_text_is_a_quantity_or_an_error(text):
    for parse in (gpuwarden.parse_size, gpuwarden.parse_duration):
        try:
            assert parse(text) >= 0
        except gpuwarden.Error as error:
            assert error.code == "invalid_argument" and error.message


@given(st.integers(0, 200), st.integers(0, 200))
def test_ranges_of_gpus_are_their_members(first, length):
    names = _core.parse_gpus([f"{first}-{first + length}"])
    assert names == [str(index) for index in range(first, first + length + 1)]


@given(st.lists(TEXTS, max_size=4))
def test_any_list_of_gpus_is_a_choice_or_an_error(names):
    for name in _core.parse_gpus(names):
        assert isinstance(name, str)


NAMES = st.sampled_from(["temperature", "power", "utilization"])


@given(NAMES, st.sampled_from(["<", ">=", "=="]), st.integers(0, 500))
def test_filters_name_what_they_speak_of(name, comparison, number):
    assert _core.parse_filter(f"{name} {comparison} {number}") == [name]


@given(st.one_of(TEXTS, st.text("temp powr<>=!&|()~ 0123456789'\"inotd", max_size=80)))
def test_any_filter_is_an_expression_or_an_error(text):
    try:
        _core.parse_filter(text)
    except gpuwarden.Error as error:
        assert error.code == "invalid_argument"


@given(st.one_of(TEXTS, st.text("rules:\n -{}[]idwhenlv'\"#&*%", max_size=80)))
def test_any_alert_rules_are_rules_or_an_error(text):
    try:
        assert _core.parse_alert_rules(text, "rules.yaml")
    except gpuwarden.Error as error:
        assert error.code == "invalid_argument"
