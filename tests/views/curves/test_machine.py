"""The machine tab: which curves are drawn, over which time, with which bands and marks."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.jobs.conftest import is_training, make_spec
from tests.rules.recording import Recording
from tests.views.tensor_jobs import HOOK, finished_job, trial_of
from tests.wait import until
from trackside.capture.reading.anatomy import SpanFacts
from trackside.jobs.jobs import Jobs
from trackside.records.finding import Finding
from trackside.records.layout import Home
from trackside.views.curves.series import CurveReader, CurveRef
from trackside.views.job.machine import MOST_MARKS, MachineView, first_findings, time_of_step
from trackside.views.job.machine_bands import MOST_BANDS, joined

MACHINE = {
    "cpu/total_percent": [(0, 50.0), (1, 60.0)],
    "cpu/io_wait_percent": [(0, 1.0)],
    "cpu/core_0_percent": [(0, 50.0)],
    "script/cpu_percent": [(0, 100.0)],
    "memory/used_percent": [(0, 30.0)],
    "disk/read_bytes_per_second": [(0, 1e6)],
    "network/sent_bytes_per_second": [(0, 1e6)],
    "gpu_0/utilization_percent": [(0, 99.0)],
    "gpu_1/utilization_percent": [(0, 98.0)],
}


def view_of(jobs: Jobs, name: str) -> dict[str, Any]:
    return MachineView(jobs, CurveReader(jobs)).view(name)


def lines(view: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    return {
        chart["title"]: [(line["name"], line["host"]) for line in chart["lines"]]
        for chart in view["charts"]
    }


def test_the_charts_of_a_finished_job(jobs: Jobs, finished: Callable[..., str]):
    runs = {
        "train": {"loss": [(0, 2.0), (10, 1.0)], "accuracy": [(0, 0.1)]},
        "system/algo-1": MACHINE,
        "system/algo-2": MACHINE,
    }
    view = view_of(jobs, finished("job-1", runs, num_hosts=2))
    both = [("algo-1",), ("algo-2",)]
    assert lines(view) == {
        "Loss": [("loss", "")],
        "Processors": [("cpu/total_percent", "algo-1"), ("cpu/io_wait_percent", "algo-1")],
        "The script's processor use": [("script/cpu_percent", *host) for host in both],
        "Memory used": [("memory/used_percent", "algo-1")],
        "GPUs": [("gpu_0/utilization_percent", "algo-1"), ("gpu_1/utilization_percent", "algo-1")],
        "Disks": [("disk/read_bytes_per_second", "algo-1")],
        "Network": [("network/sent_bytes_per_second", "algo-1")],
    }
    known = {curve.id for curve in CurveReader(jobs).curves("job-1")}
    assert {line["curve"] for chart in view["charts"] for line in chart["lines"]} <= known
    assert {chart["title"]: chart["unit"] for chart in view["charts"]}["Processors"] == "%"
    history = jobs.record("job-1").history
    assert (view["start"], view["end"]) == (history.transitions[0].start, history.ended)
    names = [phase["name"] for phase in view["phases"]]
    assert names[-3:] == ["Downloading", "Training", "Uploading"]
    assert all(phase["end"] >= phase["start"] for phase in view["phases"])
    assert view["marks"] == []


def test_a_running_job_with_a_hook_and_findings(jobs: Jobs, home: Home):
    rule = {"RuleConfigurationName": "r", "RuleParameters": {"rule_to_invoke": "ExplodingTensor"}}
    hyper = {"hold": "yes"}
    jobs.submit(make_spec(hyper=hyper, DebugHookConfig=HOOK, DebugRuleConfigurations=[rule]))
    until(lambda: is_training(jobs, "job-1"))
    record = jobs.record("job-1")
    recording = Recording(trial_of(jobs, record), collections={"vitals": "^vitals/"})
    for step in range(4):
        recording.step(step, {"vitals/step_seconds": [0.1], "CrossEntropyLoss_output_0": [1.0]})
    recording.close()
    rules = home.job("job-1").rules
    rules.root.mkdir(exist_ok=True)
    at = time.time()
    found = [
        Finding(rule="ExplodingTensor", message="too large", tensor="w", step=2, time=at),
        Finding(rule="ExplodingTensor", message="again", tensor="w", step=3, time=at + 1),
        Finding(rule="CPUBottleneck", message="x" * 1000, time=at - 5),
    ]
    rules.findings.write_bytes(b"".join(each.to_line() for each in found))
    view = view_of(jobs, "job-1")
    assert [*lines(view)] == ["Loss", "Step time"]
    assert view["phases"][-1]["name"] == "Training"
    assert view["phases"][-1]["end"] is None
    assert view["end"] == pytest.approx(time.time(), abs=60)
    texts = {mark["text"][:24]: (mark["time"], mark["step"]) for mark in view["marks"]}
    assert texts == {
        "ExplodingTensor (w): too": (0.0, 2),  # the recording's own time
        "CPUBottleneck: xxxxxxxxx": (at - 5, None),
    }
    assert all(len(mark["text"]) <= 200 for mark in view["marks"])


def test_bands_of_what_the_hook_has_recorded(jobs: Jobs):
    record = finished_job(jobs)
    at = record.history.transitions[0].start
    folder = trial_of(jobs, record) / "anatomy"
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "evaluations": [{"start": at, "end": at + 1e-3, "count": 1}],
        "saves": [{"start": at + 900, "end": at + 901, "count": 2}],
    }
    (folder / "worker_0.json").write_text(json.dumps(content))
    bands = view_of(jobs, "job-1")["bands"]
    assert [(each["kind"], each["label"], each["start"]) for each in bands] == [
        ("evaluation", "Evaluation", at),
        ("checkpoint", "2 checkpoints", at + 900),
    ]


def test_short_bands_that_are_close_become_one():
    spans = [SpanFacts(float(n), n + 0.5) for n in range(1000)]
    assert [(each.start, each.end, each.count) for each in joined(spans, 1000.0)] == [
        (0.0, 999.5, 1000)
    ]
    apart = [SpanFacts(10.0 * n, 10.0 * n + 1) for n in range(1000)]
    assert len(joined(apart[:100], 1000.0)) == 100
    assert len(joined(apart, 1000.0)) <= MOST_BANDS
    assert joined([], 0.0) == []


def test_the_time_of_a_step(jobs: Jobs, finished: Callable[..., str]):
    reader = CurveReader(jobs)
    job = finished("job-1", {"": {"loss": [(step, 1.0) for step in (0, 10, 20)]}})
    [curve] = reader.curves(job)
    times = reader.points(CurveRef(job, curve.id)).times().tolist()
    assert [time_of_step(reader, job, step) for step in (0, 5, 10, 20)] == [
        times[0],
        times[1],
        times[1],
        times[2],
    ]
    assert time_of_step(reader, job, 21) is None


def test_marks_are_few():
    findings = [
        Finding(rule="R", message="m", tensor=str(number), time=float(number))
        for number in range(1000)
    ]
    assert len(list(first_findings(reversed(findings)))) == MOST_MARKS
    assert next(first_findings(reversed(findings))).tensor == "0"
