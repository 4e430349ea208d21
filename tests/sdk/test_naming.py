"""Names say what runs and when, and are always valid."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.sdk.naming import base_of, unique_name
from trackside.spec import JOB_NAME

NOON = datetime(2026, 11, 15, 12, 0, 1, 45_678, tzinfo=UTC)


def test_a_name_has_the_base_and_the_moment():
    assert unique_name("train", NOON) == "train-2026-11-15-12-00-01-045"


def test_a_long_base_is_cut_to_63_characters():
    name = unique_name("a" * 38 + "-" + "b" * 100, NOON)
    assert name == "a" * 38 + "-2026-11-15-12-00-01-045"


@given(st.text(max_size=100))
def test_any_base_makes_a_valid_name(base: str):
    assert re.fullmatch(JOB_NAME, unique_name(base, NOON))


@pytest.mark.parametrize(
    ("entry_point", "image", "base"),
    [
        ("scripts/pytorch_mnist.py", None, "pytorch_mnist"),
        ("train", None, "train"),
        (None, "1234.dkr.ecr.eu.amazonaws.com/team/pytorch-training:2.1-cpu", "pytorch-training"),
        (None, "tf-2.0", "tf-2.0"),
        (None, None, ""),
    ],
)
def test_the_base_comes_from_the_script_or_the_image(
    entry_point: str | None, image: str | None, base: str
):
    assert base_of(entry_point, image) == base
