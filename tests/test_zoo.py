"""A few scripts of the zoo as jobs under `--rule all`, and the form of all of them."""

import re

import pytest
from zoo.runner import QUICK, examine
from zoo.specimen import HERE, specimens

from trackside.rules.checkup.checkup import PARTS


@pytest.mark.timeout(1200)
def test_a_handful_of_trainings_is_diagnosed_and_a_healthy_one_has_no_finding():
    chosen = [each for each in specimens() if each.key in QUICK]
    assert len(chosen) == len(QUICK)
    for examined in examine(chosen):
        details = f"{examined.specimen.key}: {examined.diagnoses}\n{examined.output}"
        assert examined.is_right, details
        assert examined.specimen.is_healthy or examined.is_right_place, details
        assert examined.steps_late == 0, details
        assert examined.specimen.is_healthy or f"Diagnosis: {examined.cause}" in examined.output


def test_the_headers_name_causes_that_exist():
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


def test_no_script_imports_trackside():
    for path in HERE.glob("*/*.py"):
        assert "trackside" not in path.read_text(), path


def test_the_readme_counts_the_scripts():
    broken = sum(not each.is_healthy for each in specimens())
    healthy = len(specimens()) - broken
    text = (HERE / "README.md").read_text()
    assert f"{broken + healthy} small PyTorch training scripts" in text
    assert f"{broken} are broken" in text
    assert f"{healthy} are healthy" in text
