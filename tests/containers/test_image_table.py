"""One table tells which image, or which interpreter, stands for the image that a job names."""

import sys

import pytest

from trackside.containers.image_table import is_allowed, look_up, parse
from trackside.errors import InvalidSetting

TABLE = f"pytorch-training:2.*=docker:my-torch:2,ecr.example/*=docker:b,tf*={sys.executable}"


@pytest.mark.parametrize(
    ("image", "chosen"),
    [
        ("763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.1-cpu", "my-torch:2"),
        ("pytorch-training:2.1", "my-torch:2"),
        ("ecr.example/team/x:1", "b"),
        ("pytorch-training:1.9", None),
        (None, None),
    ],
)
def test_the_first_pattern_that_fits_decides(image: str | None, chosen: str | None) -> None:
    row = look_up(image, TABLE)
    assert (row and row.image) == chosen


def test_a_program_runs_it_as_a_process() -> None:
    row = look_up("tf:1", TABLE)
    assert row is not None
    assert (row.image, row.interpreter) == ("", sys.executable)


def test_a_star_is_also_for_jobs_without_an_image() -> None:
    row = look_up(None, "a=docker:a,*=docker:rest")
    assert row is not None
    assert row.image == "rest"


@pytest.mark.parametrize("text", ["x", "=docker:a", "x=", "x=docker:", "a=docker:b,c"])
def test_a_row_of_another_form_is_shown_with_the_right_one(text: str) -> None:
    with pytest.raises(InvalidSetting, match=r"PATTERN=docker:IMAGE"):
        parse(text)


def test_images_are_allowed_by_their_whole_name() -> None:
    allowed = "registry.example/team/*, my-training"
    assert is_allowed("registry.example/team/x:1", allowed)
    assert is_allowed("my-training", allowed)
    assert not is_allowed("evil.example/my-training", allowed)
    assert not is_allowed("registry.example/other/x", allowed)
    assert not is_allowed("x", "")
