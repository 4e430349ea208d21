"""`trackside watch` in a real terminal, on jobs whose supervisors are stand-ins."""

import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import TRACKSIDE, Command
from tests.cli.terminal import Terminal
from tests.jobs.conftest import is_training, make_spec, run_to_end
from tests.wait import until
from trackside.curves.event_file import EventFile
from trackside.jobs.jobs import Jobs
from trackside.records import evaluator_process
from trackside.records.finding import Finding
from trackside.records.rule_status import Evaluation, RuleStatus, write_evaluations

Start = Callable[..., Terminal]

CHECKUP = {"RuleConfigurationName": "Checkup", "RuleParameters": {"rule_to_invoke": "Checkup"}}
RATE_ZERO = Finding(
    rule="LearningRateZero",
    configuration="Checkup",
    message="The learning rate is 0 in all 36 updates.",
    advice="Print the rate in the loop.",
    step=7,
)
SENTENCE = "The learning rate is 0 in all 36 updates (since step 7)."


def file(
    jobs: Jobs, name: str, *findings: Finding, last_step: int = 41, is_over: bool = True
) -> None:
    rules = jobs.settings.layout.job(name).rules
    rules.root.mkdir(exist_ok=True)
    rules.findings.write_bytes(b"".join(each.to_line() for each in findings))
    status = RuleStatus.ISSUES_FOUND if findings else RuleStatus.NO_ISSUES_FOUND
    evaluation = Evaluation(
        configuration="Checkup", rule="Checkup", status=status, last_step=last_step, is_over=is_over
    )
    write_evaluations(rules.statuses, [evaluation])


def held(
    jobs: Jobs,
    name: str = "job-1",
    *,
    lines: int = 3,
    hyper: Mapping[str, str] | None = None,
    **members: Any,
) -> None:
    """A job that trains until it is released, and is watched by the check-up."""
    given = {"hold": "1", "lines": str(lines), **(hyper or {})}
    jobs.submit(make_spec(name, hyper=given, DebugRuleConfigurations=[CHECKUP], **members))
    until(lambda: is_training(jobs, name))
    file(jobs, name)


def release(jobs: Jobs, name: str = "job-1") -> None:
    (jobs.settings.layout.job(name).root / "release").touch()


@contextmanager
def evaluating(jobs: Jobs, name: str = "job-1") -> Iterator[None]:
    """A process in the place of the evaluator, so that no other is started."""
    rules = jobs.settings.layout.job(name).rules
    evaluator_process.intend(rules)
    with subprocess.Popen(["sleep", "600"]) as process:
        evaluator_process.note_started(rules, process.pid)
        try:
            yield
        finally:
            process.kill()


def draw(jobs: Jobs, name: str, run: str, first: int = 0, **curves: list[float]) -> None:
    """In the job's folder, as its script would."""
    folder = jobs.settings.layout.job(name).host("algo-1", 1).inside("/opt/ml/output/tensorboard")
    file = EventFile(folder / run)
    for tag, values in curves.items():
        for step, value in enumerate(values, first):
            file.add((tag, value, step, 1.7e9 + step))
    file.close()


def log_of(jobs: Jobs, name: str) -> Path:
    return jobs.settings.layout.job(name).host("algo-1", 1).log


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (160, 50)])
def test_the_screen_has_the_sentence_the_curves_and_the_log(
    jobs: Jobs, terminal: Start, columns: int, rows: int
):
    held(jobs, hyper={"max_steps": "164"})
    curves: dict[str, Any] = {"loss/train": [3.0, 2.0, 1.0] * 5, "loss/val": [3.5, 2.5] * 5}
    draw(jobs, "job-1", ".", **curves)
    with terminal("watch", "job-1", columns=columns, rows=rows) as screen:
        shown = screen.until_visible("q quit")
        assert shown[0].startswith("job-1  Training  step 14 of 164, 9%")
        assert "rules watch it." in shown[1]
        title = next(line for line in shown if line.startswith("loss "))
        assert "train 1" in title
        assert "val 2.5" in title
        assert "line 2" in shown
        assert shown[-1].startswith("q quit  s stop  tab metric")
        assert len(shown) <= rows
        assert max(map(len, shown)) <= columns
        screen.press("q")
        screen.until_over()
    assert screen.exit_code == 0
    release(jobs)


def test_what_goes_wrong_appears_by_itself(jobs: Jobs, terminal: Start):
    held(jobs)
    draw(jobs, "job-1", ".", loss=[3.0, 2.0, 1.0] * 5)
    with terminal("watch", "job-1") as screen:
        screen.until_visible("Healthy so far:")
        file(jobs, "job-1", RATE_ZERO)
        shown = screen.until_visible("▲ step 7: LearningRateZero")
        assert SENTENCE in shown
        assert "Try: Print the rate in the loop." in shown
        axis = next(line for line in shown if "└" in line)
        marked = axis.index("▲")
        assert any(line[marked : marked + 1] == "┊" for line in shown)
        draw(jobs, "job-1", "new", first=20, accuracy=[0.5, 0.75])
        with log_of(jobs, "job-1").open("a") as log:
            log.write("epoch 1\rand the newest line\n")
        screen.until_visible("and the newest line")
        screen.press("\t")
        screen.until_visible("accuracy   ━ 0.75")
        release(jobs)
        screen.until_over()
    assert screen.exit_code == 0


def test_the_last_frame_stays_after_the_job_has_ended(jobs: Jobs, terminal: Start):
    held(jobs)
    draw(jobs, "job-1", ".", loss=[3.0, 2.0, 1.0])
    with terminal("watch", "job-1") as screen:
        screen.until_visible("Healthy so far:")
        file(jobs, "job-1", RATE_ZERO)
        release(jobs)
        screen.until_over()
    assert screen.exit_code == 0
    alternate, _, after = screen.raw.rpartition("\x1b[?1049l")
    assert alternate.count("\x1b[?1049h") == 1
    assert "job-1" in after
    assert "Completed" in after
    assert SENTENCE in after
    assert "q quit" not in after
    assert screen.raw.count("\x1b[?25h") == 1  # the cursor is back


def test_what_rules_find_after_the_end_is_waited_for(jobs: Jobs, terminal: Start):
    held(jobs)
    file(jobs, "job-1", is_over=False)
    with evaluating(jobs), terminal("watch", "job-1") as screen:
        screen.until_visible("Healthy so far:")
        release(jobs)
        screen.until_visible("job-1  Completed")
        assert screen.exit_code is None
        file(jobs, "job-1", RATE_ZERO)
        screen.until_over()
    assert SENTENCE in screen.raw.rpartition("\x1b[?1049l")[2]


def test_keys_change_the_view(jobs: Jobs, terminal: Start):
    held(jobs, lines=60)
    draw(jobs, "job-1", ".", loss=[3.0, 2.0, 1.0])
    with terminal("watch", "job-1") as screen:
        few = screen.until_visible("line 59")
        assert "line 50" not in few
        screen.press("l")
        screen.until_visible("line 51")
        screen.press("?")
        screen.until_visible("quit; the job runs on")
        screen.press("?")
        until(lambda: not any("the job runs on" in line for line in screen.screen()))
        screen.press("q")
        screen.until_over()
    assert screen.exit_code == 0
    assert not jobs.record("job-1").history.state.is_final
    release(jobs)


def test_a_job_is_stopped_only_after_a_question(jobs: Jobs, terminal: Start):
    held(jobs)
    with terminal("watch", "job-1") as screen:
        screen.until_visible("q quit")
        screen.press("s")
        screen.until_visible("Stop job-1?")
        screen.press("n")
        screen.until_visible("q quit")
        assert not jobs.record("job-1").history.state.is_final
        screen.press("s")
        screen.until_visible("Stop job-1?")
        screen.press("y")
        screen.until_over()
    assert screen.exit_code == 0
    assert str(jobs.wait("job-1").state.status) == "Stopped"


def test_the_screen_follows_the_size_of_the_terminal(jobs: Jobs, terminal: Start):
    held(jobs)
    draw(jobs, "job-1", ".", loss=[3.0, 2.0, 1.0])
    with terminal("watch", "job-1", columns=120, rows=40) as screen:
        screen.until_visible("q quit")
        screen.resize(60, 16)
        until(lambda: 0 < len(screen.screen()) <= 16 and "q quit" in screen.screen()[-1])
        assert max(map(len, screen.screen())) <= 60
        screen.resize(20, 5)
        until(lambda: 0 < len(screen.screen()) <= 5)
        screen.press("q")
        screen.until_over()
    assert screen.exit_code == 0
    release(jobs)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_ends_it_gets_the_terminal_back(jobs: Jobs, terminal: Start, end: signal.Signals):
    held(jobs)
    with terminal("watch", "job-1") as screen:
        screen.until_visible("q quit")
        until(lambda: not screen.echoes)
        screen.signal(end)
        screen.until_over()
        assert screen.echoes
    assert screen.exit_code == 128 + end
    assert "\x1b[?1049l" in screen.raw
    assert "Traceback" not in screen.raw
    release(jobs)


def test_suspending_gives_the_terminal_back_for_a_while(jobs: Jobs, terminal: Start):
    held(jobs)
    with terminal("watch", "job-1") as screen:
        screen.until_visible("q quit")
        screen.signal(signal.SIGTSTP)
        until(lambda: screen.echoes and screen.is_stopped)
        screen.screen()
        assert screen.raw.endswith("\x1b[?1049l")
        screen.signal(signal.SIGCONT)
        screen.until_visible("q quit")
        assert not screen.echoes
        screen.press("q")
        screen.until_over()
    assert screen.exit_code == 0
    release(jobs)


def test_text_of_a_job_cannot_control_the_terminal(jobs: Jobs, terminal: Start):
    held(jobs)
    hostile = "\x1b[2J\x1b]0;title\x07 innocent \x1b[31mred"
    with log_of(jobs, "job-1").open("a") as log:
        log.write(f"{hostile}\n")
    file(jobs, "job-1", Finding(rule="x\x1b[2J", message=f"bad {hostile}", step=1))
    with terminal("watch", "job-1") as screen:
        screen.until_visible("innocent red")
        screen.press("q")
        screen.until_over()
    assert "\x1b]0;" not in screen.raw
    assert screen.raw.count("\x1b[2J") == 1  # our own
    release(jobs)


def test_without_a_job_the_newest_that_runs_is_watched(jobs: Jobs, command: Command):
    nothing = command("watch")
    assert nothing.returncode == 2
    assert "No job is running." in nothing.stderr
    held(jobs, "older")
    jobs.submit(make_spec("finished"))
    run_to_end(jobs, "finished")
    assert command("watch", "--once").stdout.startswith("older  Training")
    held(jobs, "newer")
    assert command("watch", "--once").stdout.startswith("newer  Training")
    release(jobs, "older")
    release(jobs, "newer")


def test_once_prints_plain_lines(jobs: Jobs, command: Command):
    held(jobs)
    file(jobs, "job-1", RATE_ZERO)
    draw(jobs, "job-1", ".", loss=[3.0, 2.0, 1.0])
    done = command("watch", "job-1", "--once")
    assert done.returncode == 0, done.stderr
    assert SENTENCE in done.stdout.splitlines()
    assert "loss   ━ 1" in done.stdout
    assert "\x1b" not in done.stdout
    plain = command("watch", "job-1", "--once", PYTHONIOENCODING="ascii").stdout
    assert plain.isascii()
    assert "^ step 7: LearningRateZero" in plain
    release(jobs)


def test_of_a_finished_job_the_last_frame_is_printed(jobs: Jobs, command: Command):
    jobs.submit(make_spec("job-1"))
    run_to_end(jobs)
    done = command("watch", "job-1")
    assert done.returncode == 0
    assert done.stdout.startswith("job-1  Completed")
    assert "Not watched: start it with --rule all." in done.stdout
    assert "line 2" in done.stdout


def test_a_pipe_gets_a_line_at_every_change_and_the_end(jobs: Jobs):
    held(jobs)
    with subprocess.Popen(
        [*TRACKSIDE, "watch", "job-1"], stdout=subprocess.PIPE, text=True
    ) as piped:
        assert piped.stdout is not None
        assert "Training step 41: Healthy so far:" in piped.stdout.readline()
        file(jobs, "job-1", RATE_ZERO)
        assert SENTENCE in piped.stdout.readline()
        release(jobs)
        rest = piped.stdout.read()
    assert piped.returncode == 0
    assert "job-1  Completed" in rest
    assert "\x1b" not in rest
