"""The zoo in the small: scripts that know nothing of Trackside, watched by `--rule all`."""

import re

import pytest
from benchmarks.zoo.runner import QUICK, examine
from benchmarks.zoo.specimen import HERE, specimens

from trackside.rules.checkup.checkup import PARTS


@pytest.mark.timeout(1200)
def test_a_handful_of_trainings_is_diagnosed_and_a_healthy_one_left_alone():
    chosen = [each for each in specimens() if each.key in QUICK]
    assert len(chosen) == len(QUICK)
    for examined in examine(chosen):
        told = f"{examined.specimen.key}: {examined.diagnoses}\n{examined.output}"
        assert examined.is_right, told
        assert examined.specimen.is_healthy or examined.is_right_place, told
        assert examined.steps_late == 0, told
        assert examined.specimen.is_healthy or f"Diagnosis: {examined.cause}" in examined.output


def test_the_zoo_is_large_and_says_what_it_expects():
    names = {part.name() for part in PARTS}
    broken = [each for each in specimens() if not each.is_healthy]
    healthy = [each for each in specimens() if each.is_healthy]
    assert len(broken) >= 25
    assert len(healthy) >= 12
    for each in broken:
        assert each.causes, each.key
        assert set(each.causes) <= names, each.key
        re.compile(each.where)
        assert each.begins[0] <= each.begins[1]


def test_the_scripts_know_nothing_of_us():
    for path in HERE.glob("*/*.py"):
        assert "trackside" not in path.read_text(), path
