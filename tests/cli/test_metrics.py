"""A job's curves in the terminal."""

import json
import re
from collections.abc import Callable

import numpy
import pytest

from tests.cli.conftest import Command
from tests.cli.terminal import Terminal
from tests.jobs.conftest import is_training, make_spec
from tests.wait import until
from trackside.cli.chart import sparkline
from trackside.curves.event_file import EventFile
from trackside.files.json_record import numbered
from trackside.jobs.jobs import Jobs
from trackside.records.layout import curves_of
from trackside.records.script_packages import ScriptPackages
from trackside.storage.locate import locate


def run_to_end(jobs: Jobs, name: str) -> None:
    jobs.submit(make_spec(name))
    jobs.wait(name)


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
    reported = json.loads(command("metrics", "first", "--json").stdout)
    assert [metric["tag"] for metric in reported] == ["loss", "accuracy"]
    assert (reported[0]["last"], reported[0]["points"]) == (2.0, 3)
    found = json.loads(command("metrics", "first", "--json", "--grep", "~/^acc/ -loss").stdout)
    assert [metric["tag"] for metric in found] == ["accuracy"]
    assert "No metric has 'grad'" in command("metrics", "first", "-g", "grad").stdout


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
    places = [
        lines.index(row)
        for row in (
            ["METRIC,", "LAST", "(BEST)"],
            ["loss", "0.3", "(0.25)", "0.4"],
            ["accuracy", "0.7", "(0.75)", "0.6"],
            ["HYPERPARAMETER", "THAT", "DIFFERS"],
            ["lr", "0.1", "0.01"],
            ["HYPERPARAMETER,", "SAME", "IN", "ALL"],
            ["layers", "3", "3"],
        )
    ]
    assert places == sorted(places)
    reported = json.loads(command("compare", "first", "second", "--json").stdout)
    assert reported["first"]["metrics"]["loss"]["best_step"] == 1


def test_compare_shows_packages_that_differ(command: Command, jobs: Jobs):
    for name, version in (("first", "1.26"), ("second", "2.1")):
        finish(jobs, name, [0.5])
        packages = ScriptPackages("3.11.7", {"numpy": version, "torch": "2.13.0"})
        where = locate(jobs.record(name).keys.packages("algo-1"), home=jobs.settings.home)
        where.store.put(where.key, json.dumps(numbered(packages)).encode())
    lines = command("compare", "first", "second").stdout.splitlines()
    at = lines.index(next(line for line in lines if line.startswith("PACKAGE THAT DIFFERS")))
    assert lines[at + 1].split() == ["numpy", "1.26", "2.1"]
    assert not any("torch" in line or "CODE" in line for line in lines)
    reported = json.loads(command("compare", "first", "second", "--json").stdout)
    assert reported["second"]["differs"] == {"package": {"numpy": "2.1"}}


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
    reported = json.loads(command("metrics", "first", "--system", "--json").stdout)
    assert [metric["run"] for metric in reported[:2]] == [".", "."]
    assert {metric["run"] for metric in reported[2:]} == {"system/algo-1"}


def test_compare_shows_what_the_jobs_took_of_the_machine(command: Command, jobs: Jobs):
    for name in ("first", "second"):
        finish(jobs, name, [0.5])
    watch(jobs, "first")
    done = command("compare", "first", "second")
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("METRIC, LAST") < done.stdout.index("MACHINE, MEAN")
    lines = [line.split("  ") for line in done.stdout.splitlines()]
    shown = {line[0].strip(): line[-1].strip() for line in lines}
    assert shown["cpu"] == "77 % (80 %)"  # a mean over time, not over points
    assert shown["memory of the script"] == "1.9 GB (2.0 GB)"
    assert shown["gpu 0"] == "99 % (99 %)"
    assert "network, sent" not in shown  # nothing was sent
    assert "system/" not in done.stdout
    assert "system/algo-1/cpu/total_percent" in command("compare", "first", "--system").stdout
    reported = json.loads(command("compare", "first", "second", "--json").stdout)
    assert reported["first"]["machine"]["cpu"]["peak"] == 80.0
    assert reported["second"]["machine"] == {}


def test_a_pattern_that_was_switched_off_is_reported(command: Command, jobs: Jobs):
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


def draw(jobs: Jobs, job: str, run: str, **tags: list[float]) -> None:
    folder = locate(curves_of(make_spec(job)), home=jobs.settings.home).local
    assert folder is not None
    file = EventFile(folder / run)
    for tag, values in tags.items():
        for step, value in enumerate(values):
            file.add((tag, value, step, 1.7e9 + step))
    file.close()


def test_a_loss_that_three_have_seen_is_shown_once(command: Command, jobs: Jobs):
    losses = [2.13571, 1.47213, 0.91113, 0.65017, 0.42229]
    run_to_end(jobs, "first")
    draw(jobs, "first", "runs/exp1", **{"loss/train": losses, "lr": [0.1] * 5})
    draw(jobs, "first", "trackside/algo-1", train_loss=[round(each, 2) for each in losses])
    draw(jobs, "first", "trackside/algo-1", CrossEntropyLoss_output_0_TRAIN=losses[::2])
    draw(jobs, "first", "TRAIN", CrossEntropyLoss_output_0=losses)
    draw(jobs, "first", "TRAIN", **{"vitals/gradient_norm": [3.0, 2.0]})
    rows = command("metrics", "first").stdout.splitlines()[1:]
    assert [row.split()[0] for row in rows] == [
        "loss/train",
        "lr",
        "TRAIN/vitals/gradient_norm",
    ]
    assert len(command("metrics", "first", "--all").stdout.splitlines()) == 7
    reported = json.loads(command("metrics", "first", "--json").stdout)
    same = ["loss/train"]
    assert [each["same_as"] for each in reported] == [None, *same, None, *same, *same, None]
    compared = json.loads(command("compare", "first", "--json").stdout)
    assert [*compared["first"]["metrics"]] == ["loss/train", "lr", "TRAIN/vitals/gradient_norm"]


def test_every_point_is_printed_as_csv(command: Command, jobs: Jobs):
    finish(jobs, "first", [0.5, 0.25])
    done = command("metrics", "first", "--csv", "--tag", "loss")
    assert done.stdout.splitlines() == [
        "metric,step,time,value",
        "loss,0,1700000000.0,0.5",
        "loss,1,1700000001.0,0.25",
    ]
    assert command("metrics", "first", "--csv", "--json").returncode == 2


@pytest.mark.parametrize("columns", [80, 140])
def test_a_terminal_gets_a_chart_as_wide_as_it_is(
    jobs: Jobs, terminal: Callable[..., Terminal], columns: int
):
    finish(jobs, "first", [4.0, 1.0, 2.0])
    with terminal("metrics", "first", columns=columns) as screen:
        shown = screen.until_over()
    lines = shown.splitlines()
    assert screen.exit_code == 0
    assert lines[0] == "loss   ━ 2 (best 1 at 1)"
    assert max(map(len, lines)) == columns
    assert sum("⠤" in line or "⠒" in line or "⡇" in line or "⠊" in line for line in lines) > 3
    assert "METRIC" not in shown


def test_a_terminal_without_unicode_gets_plain_letters(
    jobs: Jobs, terminal: Callable[..., Terminal]
):
    finish(jobs, "first", [4.0, 1.0, 2.0])
    watch(jobs, "first")
    with terminal("metrics", "first", "--system", PYTHONIOENCODING="ascii") as screen:
        shown = screen.until_over()
    assert screen.exit_code == 0
    assert shown.isascii()
    assert "* 2 (best 1 at 1)" in shown


def test_following_draws_in_place_and_ends_with_the_job(
    jobs: Jobs, terminal: Callable[..., Terminal]
):
    jobs.submit(make_spec("first", hyper={"hold": "1"}))
    until(lambda: is_training(jobs, "first"))
    draw(jobs, "first", ".", loss=[4.0, 1.0])
    with terminal("metrics", "first", "-f") as screen:
        screen.until_shown("loss   ━ 1")
        draw(jobs, "first", "again", loss=[4.0, 3.0])
        screen.until_shown("again/loss   ━ 3")
        (jobs.settings.layout.job("first").root / "release").touch()
        shown = screen.until_over()
    assert screen.exit_code == 0
    assert re.search(r"\x1b\[\d+A\r", screen.raw)  # back to where the last drawing began
    assert "\x1b[2J" not in screen.raw
    assert shown.splitlines()[-1].endswith("step")
    assert "first  Completed" in shown


def test_who_interrupts_the_drawing_leaves_a_clean_terminal(
    jobs: Jobs, terminal: Callable[..., Terminal]
):
    jobs.submit(make_spec("first", hyper={"hold": "1"}))
    until(lambda: is_training(jobs, "first"))
    with terminal("metrics", "first", "-f") as screen:
        screen.until_shown("No metrics yet.")
        screen.press("\x03")
        screen.until_over()
    assert screen.exit_code == 130
    assert screen.raw.endswith("\n")
    assert "\x1b[?" not in screen.raw  # no mode of the terminal was changed
    assert "Traceback" not in screen.raw
