"""Errors: one line each, and the near matches that make it useful."""

from __future__ import annotations

import pytest

from rooflab import errors
from rooflab.errors import FileError, MeasureError, MissingExtraError, RooflabError, UnknownNameError, near_matches

NAMES = ("h100-sxm", "h100-pcie", "h200", "a100-sxm-80gb", "mi300x", "rtx-4090")
NEAR = (
    ("h10-sxm", "h100-sxm"),  # a letter missing
    ("H100 SXM", "h100-sxm"),  # case and punctuation do not count
    ("MI300", "mi300x"),
    ("4090", "rtx-4090"),  # a part of the name
)


@pytest.mark.parametrize(("got", "first"), NEAR)
def test_the_nearest_name_comes_first(got, first):
    assert near_matches(got, NAMES)[0] == first


@pytest.mark.parametrize("got", ["", "x", "quantum", "???"])
def test_what_is_near_nothing_has_no_near_match(got):
    assert near_matches(got, NAMES) == []


def test_no_more_near_matches_than_asked_for_and_each_once():
    first, *others = near_matches("h100", ["h100", "H-100", "h100a", "h100b", "h100c"], count=3)
    assert first == "h100"
    assert len(set(others)) == 2
    assert set(others) < {"h100a", "h100b", "h100c"}


def test_an_unknown_name_lists_the_near_ones_and_the_next_step():
    error = UnknownNameError("machine", "h100", NAMES, "(list them)")
    assert error.near == ["h200", "h100-sxm", "h100-pcie"]
    assert str(error) == "unknown machine 'h100'; did you mean h200, h100-sxm, h100-pcie? (list them)"


def test_an_unknown_name_with_nothing_near_says_so():
    many = [f"name-{number}" for number in range(20)]
    assert str(UnknownNameError("dtype", "posit", many)) == "unknown dtype 'posit'; no known name is near it"


def test_few_known_names_are_listed_when_none_is_near():
    assert str(UnknownNameError("level", "L9", ["DRAM", "disk"])) == "unknown level 'L9'; known: DRAM, disk"


def test_a_missing_extra_says_what_to_install():
    error = MissingExtraError("nvidia-ml-py", "cuda", "reading the GPU's name")
    assert str(error) == "reading the GPU's name needs nvidia-ml-py: python -m pip install 'rooflab[cuda]'"


@pytest.mark.parametrize("child", [FileError, MeasureError, MissingExtraError, UnknownNameError])
def test_every_error_is_a_rooflab_error(child):
    assert issubclass(child, RooflabError)


def test_no_error_is_outside_the_family():
    raised = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
    assert raised
    assert all(issubclass(each, RooflabError) for each in raised)


def test_a_message_is_one_line_that_can_be_shown():
    assert str(FileError("a\nb\x07c")) == "a\\nb\\x07c"
    assert str(RooflabError("an é and a → are shown")) == "an é and a → are shown"


def test_a_message_of_a_file_full_of_one_name_is_cut_in_the_middle():
    text = str(RooflabError(f"begin {'x' * 5000} end"))
    assert text.startswith("begin xxx")
    assert text.endswith("xxx end")
    assert len(text) <= 800


def test_words_of_a_longer_name_find_what_holds_two_of_them() -> None:
    assert near_matches("mac studio m3 ultra", ["m3-ultra-60-core", "m3-ultra-80-core", "m3-max"]) == [
        "m3-ultra-60-core",
        "m3-ultra-80-core",
    ]
    assert near_matches("a machine of mine", ["m3-ultra-60-core", "h100-sxm"]) == []


def test_a_table_without_names_is_said_to_be_empty():
    error = UnknownNameError("function", "sum", [], "(functions of empty.ll)")
    assert str(error) == "unknown function 'sum'; none is there (functions of empty.ll)"
