"""The frame of the drill: what a broken promise looks like, and that nothing is left behind."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from benchmarks.drill.__main__ import CI_SECONDS, all_cases, chosen, ci_part, run
from benchmarks.drill.case import Case, NotShown, Result, Verdict, check, held
from benchmarks.drill.ground import Ground, fresh_ground
from benchmarks.drill.left_behind import processes_of
from benchmarks.drill.numbered_lines import count_lines
from benchmarks.drill.report import Outcome, as_line, as_markdown

from tests.wait import until
from trackside.system.processes import identify, is_alive

PROJECT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the drill makes its folders."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def folders(scratch: Path) -> list[Path]:
    return list(scratch.glob("trackside-drill-*"))


def test_a_promise_that_breaks_is_reported_and_is_the_exit_code(
    scratch: Path, capsys: pytest.CaptureFixture[str]
):
    def breaks(ground: Ground) -> Result:
        check(not ground.folder.exists(), "one line is lost")
        return held("never")

    good = Case(None, "goes well", lambda ground: held("3 lines, 0 lost"), seconds=1)
    assert run((good,)) == 0
    assert run((Case(5, "goes wrong", breaks, seconds=1), good)) == 1
    line, _, summary = capsys.readouterr().out.splitlines()[2:]
    assert line.startswith("   5  BROKE      goes wrong: one line is lost (")
    assert summary.endswith("1 held, 0 partly, 1 BROKE, 0 not shown")
    [folder] = folders(scratch)
    trace = (folder / "evidence" / "traceback.txt").read_text()
    assert "one line is lost" in trace
    assert [path.name for path in folder.iterdir()] == ["evidence"], "the rest is gone"


def test_a_case_that_cannot_be_run_has_not_held(capsys: pytest.CaptureFixture[str]):
    def fails(ground: Ground) -> Result:
        raise ZeroDivisionError("a defect of the case itself")

    assert run((Case(None, "has a defect", fails, seconds=1),)) == 1
    assert "ZeroDivisionError: a defect of the case itself" in capsys.readouterr().out


def test_what_the_machine_cannot_show_is_no_failure(capsys: pytest.CaptureFixture[str]):
    def cannot(ground: Ground) -> Result:
        raise NotShown("no right to mount")

    assert run((Case(27, "needs a disk", cannot, seconds=1),)) == 0
    assert "  27  not shown  needs a disk: no right to mount" in capsys.readouterr().out


def test_processes_that_a_case_leaves_are_ended_and_no_others(scratch: Path):
    with subprocess.Popen(["sleep", "600"]) as bystander:
        with fresh_ground(keep=False) as ground:
            detached = subprocess.Popen(
                ["sleep", "600"], env=ground.environment, start_new_session=True
            )
            left = identify(detached.pid)
            assert left is not None
            until(lambda: left in processes_of(ground.folder))
        assert detached.wait(60) == -signal.SIGKILL
        assert not is_alive(left)
        assert bystander.poll() is None
        bystander.kill()
    assert folders(scratch) == []


def test_an_interrupted_drill_leaves_nothing_behind(scratch: Path):
    """A real job is under way then: its supervisor and script are nobody's children."""
    path = os.pathsep.join([str(PROJECT), *filter(None, sys.path)])
    drill = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.drill", "--case", "4"],
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        until(lambda: list(scratch.glob("*/home/jobs/*/hosts/*/*/supervisor.json")), seconds=120)
        [folder] = folders(scratch)
        assert processes_of(folder)
        drill.send_signal(signal.SIGINT)
        output, _ = drill.communicate(timeout=120)
    finally:
        drill.kill()
    assert drill.returncode == 130, output
    assert processes_of(folder) == []
    assert folders(scratch) == []


def test_the_part_of_ci_fits_into_its_time():
    part = ci_part(all_cases())
    assert sum(case.seconds for case in part) <= CI_SECONDS
    assert not any(case.nightly for case in part)
    assert len([case for case in part if case.seconds]) >= 8


def test_cases_are_chosen_by_number_and_by_name():
    cases = [
        Case(9, "default grace", lambda ground: held(""), 130, nightly=True),
        Case(9, "short grace", lambda ground: held(""), 10),
        Case(None, "kill loop", lambda ground: held(""), 10),
    ]
    assert chosen(cases, ["9"], "all") == cases[:2]
    assert chosen(cases, ["kill-loop"], "ci") == cases[2:]
    assert chosen(cases, [], "all") == cases[1:]
    assert chosen(cases, [], "nightly") == cases
    with pytest.raises(SystemExit, match="no case is called 77"):
        chosen(cases, ["77"], "all")


def test_every_case_has_a_name_of_its_own_and_a_number_of_the_list():
    cases = all_cases()
    assert len({case.name for case in cases}) == len(cases)
    assert {case.number for case in cases if case.number} <= set(range(1, 43))


def test_the_table_is_by_number_with_date_and_machine():
    def outcome(number: int | None, name: str, result: Result) -> Outcome:
        return Outcome(Case(number, name, lambda ground: result, 1), result, 1.0)

    outcomes = [
        outcome(None, "kill loop", held("1,000 kills")),
        outcome(5, "script | killed", Result(Verdict.PARTLY, "2 lines", "one\nthing")),
        outcome(
            25,
            "disk full",
            Result(
                Verdict.BROKE,
                "",
                "'/tmp/trackside-drill-x1/disk/home' is full (/tmp/trackside-drill-x1/evidence/a)",
            ),
        ),
    ]
    table = as_markdown(outcomes).splitlines()
    assert table[0].startswith("Run on 20")
    assert "cores" in table[0]
    assert table[4:7] == [
        r"| 5 | script \| killed | partly | 2 lines | one thing |",
        "| 25 | disk full | BROKE |  | '…/disk/home' is full |",
        "| – | kill loop | held | 1,000 kills |  |",
    ]
    assert as_line(outcomes[0]) == "   –  held       kill loop: 1,000 kills  [1.0 s]"


@pytest.mark.parametrize(
    ("log", "lost", "doubled", "is_exact"),
    [
        ("drill-line 0\ndrill-line 1\ndrill-line 2\n", (), (), True),
        ("other\ndrill-line 0\ndrill-line 1\n\ndrill-line 2", (), (), True),
        ("drill-line 0\ndrill-line 2\n", (1,), (), False),
        ("drill-line 0\ndrill-line 1\ndrill-line 1\ndrill-line 2\n", (), (1,), False),
        ("drill-line 1\ndrill-line 0\ndrill-line 2\n", (), (), False),
        ("drill-line 0\ndrill-line 1\ndrill-line 2\ndrill-line 3\n", (), (), False),
        ("drill-line 0\ndrill-lidrill-line 1\ndrill-line 2\n", (1,), (), False),
    ],
)
def test_lines_are_counted_exactly(
    log: str, lost: tuple[int, ...], doubled: tuple[int, ...], is_exact: bool
):
    count = count_lines(log.encode(), 3)
    assert (count.lost, count.doubled, count.is_exact) == (lost, doubled, is_exact)
