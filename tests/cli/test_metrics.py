"""A job's curves in the terminal."""

import json

import numpy
import pytest

from tests.cli.conftest import Command
from tests.jobs.conftest import make_spec
from trackside.cli.compare import best
from trackside.cli.sparkline import sparkline
from trackside.curves.event_file import EventFile
from trackside.curves.event_reader import Series
from trackside.jobs.jobs import Jobs
from trackside.layout import curves_of
from trackside.storage.locate import locate


def finish(jobs: Jobs, name: str, values: list[float], **hyper: str) -> None:
    spec = make_spec(name, hyper=hyper)
    jobs.submit(spec)
    jobs.wait(name)
    folder = locate(curves_of(spec), home=jobs.settings.home).local
    assert folder is not None
    file = EventFile(folder)
    for step, value in enumerate(values):
        file.add(("loss", value, step, 1.7e9 + step))
        file.add(("accuracy", 1 - value, step, 1.7e9 + step))
    file.close()


def test_metrics_shows_last_least_most_and_the_curve(command: Command, jobs: Jobs):
    finish(jobs, "first", [4.0, 1.0, 2.0])
    done = command("metrics", "first", "--tag", "loss", "-f")
    assert done.returncode == 0, done.stderr
    heading, row = done.stdout.splitlines()
    assert heading.split() == ["METRIC", "LAST", "STEP", "MIN", "MAX", "POINTS", "CURVE"]
    assert row.split() == ["loss", "2", "2", "1", "4", "3", "█▁▃"]
    told = json.loads(command("metrics", "first", "--json").stdout)
    assert [metric["tag"] for metric in told] == ["accuracy", "loss"]
    assert (told[1]["last"], told[1]["points"]) == (2.0, 3)


def test_damaged_records_are_skipped_and_said_once(command: Command, jobs: Jobs):
    finish(jobs, "first", [4.0, 1.0, 2.0])
    folder = locate(curves_of(make_spec("first")), home=jobs.settings.home).local
    assert folder is not None
    (file,) = folder.glob("*.tfevents.*")
    data = bytearray(file.read_bytes())
    data[-60] ^= 1  # in the last record but one
    file.write_bytes(bytes(data) + b"torn")
    done = command("metrics", "first", "--tag", "accuracy")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split()[:2] == ["accuracy", "-1"]
    first, second = done.stderr.splitlines()
    assert first.startswith(f"Warning: 1 damaged record was skipped in event file {file.name}")
    assert second == f"The last 4 bytes of {file.name!r} are no whole record; they were skipped."


def test_a_job_without_metrics_says_how_to_get_some(command: Command, jobs: Jobs):
    jobs.submit(make_spec("bare"))
    jobs.wait("bare")
    assert "SummaryWriter" in command("metrics", "bare").stdout
    assert command("metrics", "missing").returncode == 2


def test_compare_shows_what_differs_and_the_best_of_each_metric(command: Command, jobs: Jobs):
    finish(jobs, "first", [0.5, 0.25, 0.3], lr="0.1", layers="3")
    finish(jobs, "second", [0.5, 0.4], lr="0.01", layers="3")
    done = command("compare", "first", "second")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["status", "Completed", "Completed"] in lines
    assert ["lr", "0.1", "0.01"] in lines
    assert not any(line[:1] == ["layers"] for line in lines)
    assert ["loss", "0.3", "(0.25)", "0.4", "(0.4)"] in lines
    assert ["accuracy", "0.7", "(0.75)", "0.6", "(0.6)"] in lines
    told = json.loads(command("compare", "first", "second", "--json").stdout)
    assert told["first"]["metrics"]["loss"]["best_step"] == 1


MACHINE = {
    "cpu/total_percent": [50.0, 80.0],
    "script/memory_bytes": [1e9, 2e9],
    "gpu_0/utilization_percent": [97.0, 99.0],
    "network/sent_bytes_per_second": [0.0, 0.0],
}


def watch(jobs: Jobs, name: str) -> None:
    """What the supervisor writes about the machine: a second, then the mean of nine."""
    folder = locate(curves_of(make_spec(name)), home=jobs.settings.home).local
    assert folder is not None
    file = EventFile(folder / "system" / "algo-1")
    for tag, values in MACHINE.items():
        for step, value in zip((1, 10), values, strict=True):
            file.add((tag, value, step, 1.7e9 + step))
    file.close()


def test_the_machine_s_figures_are_shown_when_asked_for(command: Command, jobs: Jobs):
    finish(jobs, "first", [0.5])
    watch(jobs, "first")
    assert "system/" not in command("metrics", "first").stdout
    assert "--system shows them" in command("metrics", "first", "--tag", "cpu").stdout
    rows = command("metrics", "first", "--system", "--tag", "memory").stdout.splitlines()
    assert rows[1].split()[:3] == ["system/algo-1/script/memory_bytes", "2.0", "GB"]
    told = json.loads(command("metrics", "first", "--system", "--json").stdout)
    assert [metric["run"] for metric in told[:2]] == [".", "."]
    assert {metric["run"] for metric in told[2:]} == {"system/algo-1"}


def test_compare_shows_what_the_jobs_took_of_the_machine(command: Command, jobs: Jobs):
    for name in ("first", "second"):
        finish(jobs, name, [0.5])
    watch(jobs, "first")
    done = command("compare", "first", "second")
    assert done.returncode == 0, done.stderr
    lines = [line.split("  ") for line in done.stdout.splitlines()]
    shown = {line[0].strip(): line[-1].strip() for line in lines}
    assert shown["cpu"] == "77 % (80 %)"  # a mean over time, not over points
    assert shown["memory of the script"] == "1.9 GB (2.0 GB)"
    assert shown["gpu 0"] == "99 % (99 %)"
    assert "network, sent" not in shown  # nothing was sent
    assert "system/" not in done.stdout
    assert "system/algo-1/cpu/total_percent" in command("compare", "first", "--system").stdout
    told = json.loads(command("compare", "first", "second", "--json").stdout)
    assert told["first"]["machine"]["cpu"]["peak"] == 80.0
    assert told["second"]["machine"] == {}


def test_a_pattern_that_was_switched_off_is_told(command: Command, jobs: Jobs):
    finish(jobs, "first", [0.5])
    place = jobs.settings.home / "jobs" / "first" / "hosts" / "algo-1" / "1" / "metrics"
    place.mkdir()
    off = {"metrics": {}, "switched_off": {"(a*)*$": "takes too long, as on the line 'aab'"}}
    (place / "algo-1.json").write_text(json.dumps(off))
    done = command("metrics", "first")
    assert "The pattern '(a*)*$' was switched off: it takes too long" in done.stderr


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([], ""),
        ([1.0], "▁"),
        ([0.0, 1.0], "▁█"),
        ([0.0, float("nan"), 1.0, float("inf")], "▁×█×"),
        ([float("nan")], "×"),
    ],
)
def test_a_sparkline_crosses_out_what_is_not_finite(values: list[float], drawn: str):
    assert sparkline(numpy.array(values)) == drawn


def test_the_best_of_a_curve_without_a_finite_value_is_none():
    values = numpy.array([float("nan")])
    assert best(Series(".", "loss", numpy.array([1]), numpy.array([1.0]), values)) is None
