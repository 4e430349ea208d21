"""All profiler rules at once, and the files they leave."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.rules.profiling import START, Profiling, judge
from trackside.rules import catalog
from trackside.rules.parameters import InvalidParameters, build, parameters_of
from trackside.rules.report.profiler_report import ALL, RULES, ProfilerReport
from trackside.rules.saved.profile import Profile


@pytest.fixture
def profiling(tmp_path):
    return Profiling(tmp_path / "profiler-output")


@pytest.fixture
def unhealthy(profiling):
    """A GPU that idles, and steps that stall."""
    profiling.samples({"cpu": [[20, 30]] * 1200, "gpu": [[5]] * 1200, "memory": [[10]] * 1200})
    profiling.steps([5.0 if step % 18 == 7 else 0.5 for step in range(200)], start=START + 5)
    return profiling.end()


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_it_reports_the_findings_of_its_rules_at_the_end(unhealthy):
    found = judge(ProfilerReport(), unhealthy)
    assert {each.rule for each in found} == {"StepOutlier", "LowGPUUtilization", "BatchSize"}


def test_while_the_job_runs_it_states_nothing_but_has_a_report(profiling):
    profiling.samples({"gpu": [[5]] * 1200})
    profile = Profile(profiling.folder)
    profile.advance()
    rule = ProfilerReport()
    assert list(rule.check(profile)) == []
    assert b"LowGPUUtilization" in rule.files(profile)["profiler-output/profiler-report.html"]
    profiling.end()
    profile.advance()
    assert [each.rule for each in rule.check(profile)] == ["LowGPUUtilization"]
    assert list(rule.check(profile)) == []


def test_parameters_of_all_rules_are_taken_in_any_letter_case(unhealthy):
    texts = {
        "lowgpuutilization_threshold_p95": "3",
        "LowGPUUtilization_threshold_p5": "1",
        "BATCHSIZE_CPU_THRESHOLD_P95": "1",
        "StepOutlier_mode": "None",
        "stepoutlier_n_outliers": "100",
    }
    assert judge(build(ProfilerReport, texts), unhealthy) == []


def test_each_parameter_of_each_rule_is_one_of_its_own():
    names = {each.name for each in parameters_of(ProfilerReport)}
    for rule in RULES:
        for each in parameters_of(rule):
            assert each.name == "scan_interval_us" or f"{rule.name()}_{each.name}" in names


def test_a_parameter_that_no_rule_has_is_refused():
    with pytest.raises(InvalidParameters, match="StepOutlier_stdev.*Did you mean"):
        build(ProfilerReport, {"StepOutlier_stdev": "3"})


def test_its_files_are_a_page_a_notebook_and_a_report_of_each_rule(unhealthy):
    rule = ProfilerReport()
    judge(rule, unhealthy)
    files = rule.files(unhealthy)
    assert set(files) == {
        "profiler-output/profiler-report.html",
        "profiler-output/profiler-report.ipynb",
        *(f"profiler-output/profiler-reports/{each.name()}.json" for each in RULES),
    }
    outlier = json.loads(files["profiler-output/profiler-reports/StepOutlier.json"])
    assert outlier["RuleTriggered"] >= 1
    assert (outlier["Violations"], outlier["Datapoints"]) == (11, 200)
    assert "stddev:3.0\nmode:None\nn_outliers:10" in outlier["RuleParameters"]
    details = outlier["Details"]["0-algo-1"]["Step:ModeKeys.TRAIN"]
    assert {"mean", "stddev", "p25", "p50", "p75", "p95", "upper", "lower"} <= set(details)
    low = json.loads(files["profiler-output/profiler-reports/LowGPUUtilization.json"])
    assert low["Details"]["algo-1"]["gpu0"]["p95"] == 5
    usage = json.loads(files["profiler-output/profiler-reports/OverallSystemUsage.json"])
    assert usage["Details"]["algo-1"]["CPU"]["cpu1"] == dict.fromkeys(
        ("max", "p99", "p95", "p50", "min"), 30
    )
    notebook = json.loads(files["profiler-output/profiler-report.ipynb"])
    assert notebook["nbformat"] == 4
    assert "StepOutlier" in "".join(notebook["cells"][0]["source"])
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            compile("".join(cell["source"]), "cell", "exec")


def test_its_page_has_findings_step_times_and_percentiles(unhealthy):
    rule = ProfilerReport()
    judge(rule, unhealthy)
    page = Elements()
    page.feed(rule.files(unhealthy)["profiler-output/profiler-report.html"].decode())
    assert page.tags.count("script") == 1
    assert {"Diagnosis", "Step times", "Use of resources", "Rules"} <= set(page.texts)
    assert any("11 of 200 TRAIN steps" in text for text in page.texts)


def test_nothing_at_all_is_still_a_report(profiling):
    profile = profiling.end()
    rule = ProfilerReport()
    assert judge(rule, profile) == []
    page = rule.files(profile)["profiler-output/profiler-report.html"]
    assert b"No rule has found a problem." in page


def test_the_catalogue_knows_them_all():
    for rule in RULES:
        assert catalog.find(rule.name()) is rule
    assert catalog.find("profiler_report") is ProfilerReport
    ignored = catalog.find("DetailedProfilerProcessingJobConfig-1689000000")
    assert build(ignored, {"rule_to_invoke": "DetailedProfilerProcessingJobConfig"})


def test_detailed_processing_is_accepted_and_never_fires(unhealthy):
    rule = build(catalog.find("DetailedProfilerProcessingJobConfig-7"), {})
    unhealthy.advance()
    assert list(rule.check(unhealthy)) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name())
def test_every_report_is_json(rule, unhealthy):
    each = rule()
    judge(each, unhealthy)
    report = each.report(unhealthy)
    assert list(report) == [
        "RuleTriggered",
        "Violations",
        "Details",
        "Datapoints",
        "RuleParameters",
    ]
    json.loads(json.dumps(report, allow_nan=False))


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.name())
def test_every_rule_is_on_the_page_with_its_parameters_and_defaults(rule):
    page = (Path(__file__).parents[3] / "docs" / "rules" / "profiler.md").read_text()
    [content] = re.findall(rf"^## {rule.name()}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    for each in parameters_of(rule):
        if rule is not ProfilerReport and each.name != "scan_interval_us":
            default = f"{each.default:g}" if isinstance(each.default, float) else each.default
            assert f"| `{each.name}` | {default} |" in content
