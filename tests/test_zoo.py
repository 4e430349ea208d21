"""A few scripts of the zoo as jobs under `--rule all`, what a coding agent is told about them, and
the form of all of them."""

import re

import pytest
from zoo.agent import Asked
from zoo.runner import QUICK, Examined, Results, examine
from zoo.specimen import HERE, specimens

from trackside.rules.checkup.checkup import PARTS


@pytest.mark.timeout(1200)
def test_a_handful_of_trainings_is_diagnosed_and_a_healthy_one_has_no_finding():
    chosen = [each for each in specimens() if each.key in QUICK]
    assert len(chosen) == len(QUICK)
    for examined in examine(chosen, by_agent=True):
        details = f"{examined.specimen.key}: {examined.diagnoses}\n{examined.output}"
        assert examined.is_right, details
        assert examined.specimen.is_healthy or examined.is_right_place, details
        assert examined.steps_late == 0, details
        assert examined.specimen.is_healthy or f"Diagnosis: {examined.cause}" in examined.output
        assert examined.asked is not None
        if examined.specimen.is_healthy:
            assert examined.asked.first == "", examined.asked.answers
        else:
            assert examined.asked.is_enough, examined.asked.answers
            assert examined.asked.first == examined.cause, examined.asked.answers


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


def test_every_rule_has_a_broken_script_and_a_healthy_one_that_looks_like_it():
    names = {part.name() for part in PARTS}
    noticed = {cause for each in specimens() for cause in each.causes}
    spared = {rule for each in specimens() if each.is_healthy for rule in each.looks_like}
    assert names - noticed == set(), "no script of zoo/broken has this cause in its header"
    assert names - spared == set(), "no script of zoo/healthy `looks like:` this rule's mistake"
    assert spared <= names


def test_a_run_that_was_ended_goes_on_with_its_file_of_results(tmp_path, capsys):
    broken, healthy = (
        next(each for each in specimens() if each.key == key)
        for key in ("broken/rate_zero", "healthy/frozen_backbone")
    )
    diagnosis = {"cause": "LearningRateZero", "tensor": "", "step": 3, "diagnosis": 1}
    file = tmp_path / "results.jsonl"
    Results(file).add(Examined(broken, ({"rule": "LearningRateZero"},), (diagnosis,), "log"))
    Results(file).add(Examined(healthy, (), (), "log", Asked(1, 20, False, "", ("nothing",))))
    file.write_text(file.read_text() + '{"script": "broken/gone", "find')

    found = examine([broken, healthy], results=Results(file))

    assert [each.specimen.key for each in found] == [broken.key, healthy.key]
    assert [each.is_right for each in found] == [True, True]
    assert found[0].steps_late == 3 - broken.begins[1]
    assert found[1].asked == Asked(1, 20, False, "", ("nothing",))
    assert capsys.readouterr().err == "", "neither was run"


def test_no_script_imports_trackside():
    for path in HERE.glob("*/*.py"):
        assert "trackside" not in path.read_text(), path


def test_the_pages_count_the_scripts():
    broken = sum(not each.is_healthy for each in specimens())
    healthy = len(specimens()) - broken
    readme = (HERE / "README.md").read_text()
    assert f"{broken + healthy} small PyTorch training scripts" in readme
    assert f"{broken} are broken" in readme
    assert f"{healthy} are healthy" in readme
    page = (HERE.parent / "docs" / "does-it-notice.md").read_text()
    assert f"{broken} of them\nare broken" in page
    assert f"{healthy} are healthy" in page
    assert f"{broken + healthy} small trainings" in (HERE.parent / "ARCHITECTURE.md").read_text()
    assert f"{broken + healthy} training scripts" in (HERE.parent / "CONTRIBUTING.md").read_text()
