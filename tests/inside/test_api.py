"""`trackside.init` and what follows, in processes that nobody but the test started."""

import os
import re
import signal
import stat
from pathlib import Path

import pytest

import trackside
from tests.inside.conftest import Scripts
from tests.job_processes import end_processes_of
from tests.small_disk import fill, small_disk
from tests.wait import until
from trackside import curves
from trackside.errors import NoRun
from trackside.records import hosts
from trackside.records.layout import Home, curves_of
from trackside.records.status import Status

Points = list[tuple[int, float]]


def points(scripts: Scripts, name: str) -> dict[str, Points]:
    """Of the script's own curves, by tag."""
    found = curves.read(curves_of(scripts.jobs.record(name).spec), home=scripts.settings.home)
    return {
        tag: [*zip(series.steps.tolist(), series.values.tolist(), strict=True)]
        for (run, tag), series in found.scalars.items()
        if run == "."
    }


def test_without_init_the_way_out_is_named():
    with pytest.raises(NoRun, match=r"trackside\.log has no run\. Call trackside\.init"):
        trackside.log({"loss": 1.0})
    with pytest.raises(NoRun, match=r"trackside\.watch has no run"):
        trackside.watch(None)
    trackside.finish()


def test_a_script_tracks_itself_and_says_where_to_look(scripts: Scripts):
    ran = scripts.run(
        """
run = trackside.init(project="mnist", config={"lr": 0.1, "model": {"width": 8}})
print("hello")
for i in range(5):
    trackside.log({"loss": 1 / (i + 1), "val": {"acc": i}}, step=10 * i)
trackside.finish()
"""
    )
    assert ran.returncode == 0, ran.stderr
    name = scripts.name
    assert name.startswith("mnist-")
    first, last = ran.stderr.splitlines()
    home = scripts.settings.home
    assert first == f"trackside: {name} is kept in {home}. `trackside show {name}`"
    pattern = rf"trackside: {name} Completed after \d+ s\. `trackside show {name}`"
    assert re.fullmatch(pattern, last)
    record = scripts.ended()
    assert record.history.state.status is Status.COMPLETED
    assert record.spec.hyperparameters == {"lr": "0.1", "model.width": "8"}
    assert points(scripts, name)["val/acc"] == [(0, 0), (10, 1), (20, 2), (30, 3), (40, 4)]
    assert [line.data for line in scripts.jobs.logs(name)] == [b"hello\n"]
    [listed] = scripts.jobs.list()
    assert (listed.name, listed.status) == (name, Status.COMPLETED)


def test_what_it_keeps_of_a_run_is_no_model(scripts: Scripts):
    scripts.run("trackside.init('a', name='a'); trackside.log({'x': 1})\n")
    record = scripts.ended("a")
    of_host = hosts.read(scripts.host("a").record)
    assert of_host is not None
    folders = {"/opt/ml/output/tensorboard", "/opt/ml/output/tensorboard (event files)"}
    assert of_host.syncs.keys() == {*folders, "curves", "metrics", "environment", "log"}
    assert scripts.jobs.artifacts("a") == []
    assert record.history.message == "Training job completed"
    assert [each.kind for each in scripts.jobs.delete("a")] == ["source"]  # the script alone


def test_steps_are_counted_and_may_go_back(scripts: Scripts):
    ran = scripts.run(
        """
trackside.init(name="steps")
trackside.log({"x": 0})
trackside.log({"x": 1})
trackside.log({"x": 2}, step=10)
trackside.log({"x": 3})
trackside.log({"x": 4}, step=5)
trackside.log({"x": 5}, step="six")
trackside.log({"x": 6}, step="seven")
"""
    )
    scripts.ended("steps")
    expected = [(0, 0), (1, 1), (10, 2), (11, 3), (5, 4), (6, 5), (7, 6)]
    assert points(scripts, "steps")["x"] == expected
    assert ran.stderr.count("step='six' is not a non-negative whole number") == 1
    assert "seven" not in ran.stderr


def test_what_is_no_number_is_said_once_and_the_rest_is_kept(scripts: Scripts):
    ran = scripts.run(
        """
trackside.init(name="wrong")
for i in range(3):
    trackside.log({"loss": i, "best": {"name": "a"}, "inf": float("inf")})
try:
    trackside.log([1])
except TypeError as error:
    print(error)
"""
    )
    assert ran.returncode == 0
    assert ran.stderr.count("'best/name' is not logged: 'a' is not a number") == 1
    assert ran.stdout == "log([1]) is not a mapping. Give names and numbers: log({'loss': 0.1}).\n"
    scripts.ended("wrong")
    assert points(scripts, "wrong")["loss"] == [(0, 0), (1, 1), (2, 2)]
    assert points(scripts, "wrong")["inf"] == [(step, float("inf")) for step in range(3)]


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("values['nope']", 1, "KeyError: 'nope', at train.py:11 in main: values['nope']"),
        ("sys.exit(3)", 3, "The script called sys.exit(3), at train.py:11 in main"),
        ("sys.exit('no data')", 1, "no data, at train.py:11 in main"),
        ("trackside.finish(4); sys.exit(4)", 4, "The script called finish(4)"),
    ],
)
def test_a_script_that_fails(scripts: Scripts, line: str, code: int, said: str):
    body = f"    trackside.init('a')\n    values = {{}}\n    {line}\n"
    ran = scripts.run(f"def main():\n{body}\nmain()\n")
    assert ran.returncode == code
    record = scripts.ended()
    assert record.history.state.status is Status.FAILED
    reason = record.history.failure_reason or ""
    assert reason.startswith(f"AlgorithmError: {said}")
    assert reason.endswith(f", exit code: {code}")
    assert f"{record.spec.name} Failed after" in ran.stderr


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("raise SystemExit(3)", 3),
        ("exit(3)", 3),
        ("leave(3)", 3),
        ("raise SystemExit('no data')", 1),
        ("raise SystemExit(259)", 3),
    ],
)
def test_a_system_exit_that_python_tells_nobody_of(scripts: Scripts, line: str, code: int):
    """Not by `sys.exit`, or by one that was imported before `init`."""
    head = "from sys import exit as leave\n"
    ran = scripts.run(
        f"{head}def main():\n    trackside.init(name='a')\n    print('last')\n    {line}\nmain()\n"
    )
    assert ran.returncode == code
    assert "a ends with this process" in ran.stderr
    record = scripts.ended("a")
    assert record.history.state.status is Status.FAILED
    reason = record.history.failure_reason or ""
    assert reason.startswith("AlgorithmError: ")
    assert "no data" in reason or "last" in reason
    assert reason.endswith(f", exit code: {code}")


@pytest.mark.parametrize("line", ["raise SystemExit", "raise SystemExit(main())", "exit()"])
def test_a_system_exit_of_0_is_a_good_end(scripts: Scripts, line: str):
    source = f"def main():\n    trackside.init(name='a')\n    return 0\nmain()\n{line}\n"
    assert scripts.run(source).returncode == 0
    assert scripts.ended("a").history.state.status is Status.COMPLETED


def test_an_exit_that_the_script_catches_is_not_its_end(scripts: Scripts):
    scripts.run(
        """
trackside.init("a")
try:
    sys.exit(1)
except SystemExit:
    trackside.log({"x": 1})
"""
    )
    assert scripts.ended().history.state.status is Status.COMPLETED


def test_an_exit_without_a_fault_is_none(scripts: Scripts):
    assert scripts.run("trackside.init('a'); sys.exit()\n").returncode == 0
    assert scripts.ended().history.state.status is Status.COMPLETED


def test_ctrl_c_stops_it(scripts: Scripts):
    script = scripts.start("trackside.init(name='a'); wait_for_go()\n")
    scripts.until_training("a")
    script.send_signal(signal.SIGINT)
    _, said = script.communicate(timeout=120)
    assert "a Stopped after" in said
    assert scripts.ended().history.state.status is Status.STOPPED


def test_a_process_that_is_killed_does_not_train_for_ever(scripts: Scripts):
    script = scripts.start("trackside.init(name='a'); trackside.log({'x': 1}); wait_for_go()\n")
    scripts.until_training("a")
    script.kill()
    record = scripts.ended("a")
    assert record.history.state.status is Status.FAILED
    assert f"(pid {script.pid} on " in (record.history.failure_reason or "")


def test_stop_interrupts_it_as_ctrl_c_does(scripts: Scripts):
    script = scripts.start(
        "trackside.init(name='a')\ntry:\n    wait_for_go()\nexcept KeyboardInterrupt:\n"
        "    trackside.log({'saved': 1})\n    raise\n"
    )
    scripts.until_training("a")
    scripts.jobs.stop("a")
    script.communicate(timeout=120)
    assert script.returncode == -signal.SIGINT
    assert scripts.ended("a").history.state.status is Status.STOPPED
    assert points(scripts, "a")["saved"] == [(0, 1)]


def test_a_stop_before_the_supervisor_came_is_not_lost(scripts: Scripts):
    ran = scripts.run("trackside.init(name='a'); trackside.attach('a').stop(); wait_for_go()\n")
    assert ran.returncode == -signal.SIGINT
    assert "a Stopped after" in ran.stderr
    assert scripts.ended("a").history.state.status is Status.STOPPED


def test_one_that_ignores_ctrl_c_from_its_start_is_asked_otherwise(scripts: Scripts):
    """As every process in the background of a shell script."""
    source = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
trackside.init(name='a'); wait_for_go()
"""
    script = scripts.start(source)
    scripts.until_training("a")
    scripts.jobs.stop("a")
    script.communicate(timeout=120)
    assert script.returncode == -signal.SIGTERM
    assert scripts.ended("a").history.state.status is Status.STOPPED


def test_a_second_init_ends_the_run_before(scripts: Scripts):
    """As when a cell of a notebook is run again."""
    ran = scripts.run(
        """
for number in range(2):
    with_number = trackside.init(name="a")
    trackside.log({"x": number})
"""
    )
    first, second = scripts.names
    assert first == "a"
    assert second.startswith("a-20")
    assert f"there is a run 'a' already; this one is '{second}'" in ran.stderr
    for number, name in enumerate((first, second)):
        assert scripts.ended(name).history.state.status is Status.COMPLETED
        assert points(scripts, name)["x"] == [(0, number)]


def test_a_block_ends_its_run(scripts: Scripts):
    ran = scripts.run(
        """
try:
    with trackside.init(name="a") as run:
        run.log({"x": 1})
        raise ValueError("spilled")
except ValueError:
    pass
try:
    run.log({"x": 2})
except trackside.TracksideError as error:
    print(error)
"""
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "The run 'a' is finished. Call trackside.init for another one.\n"
    record = scripts.ended("a")
    assert record.history.state.status is Status.FAILED
    assert "ValueError: spilled, at train.py:12" in (record.history.failure_reason or "")


def test_an_error_at_a_prompt_is_not_the_end(scripts: Scripts):
    scripts.run(
        """
import code
sys.ps1 = ">>> "
shell = code.InteractiveInterpreter()
for cell in ("import trackside", "trackside.init(name='a')", "1 / 0", "trackside.log({'x': 1})"):
    shell.runsource(cell)
"""
    )
    assert scripts.ended("a").history.state.status is Status.COMPLETED
    assert points(scripts, "a") == {"x": [(0, 1)]}


def test_only_rank_0_is_tracked(scripts: Scripts):
    source = "run = trackside.init('a', rank=int(sys.argv[1]) if sys.argv[1:] else None)\n"
    source += "trackside.log({'x': 1}); trackside.finish()\n"
    ran = scripts.run(source, environ={"RANK": "1"})
    assert (ran.returncode, ran.stderr, scripts.names) == (0, "", [])
    ran = scripts.run(source, environ={"SLURM_PROCID": "2"})
    assert "SLURM_PROCID=2: only rank 0 is tracked. init(rank=0) tracks this" in ran.stderr
    assert scripts.names == []
    scripts.run(source, "0", environ={"RANK": "1"})
    assert scripts.ended().history.state.status is Status.COMPLETED


def test_children_leave_the_run_to_their_parent(scripts: Scripts):
    """Forked, as DataLoader's workers are, and spawned, which imports the script again."""
    ran = scripts.run(
        """
import multiprocessing
trackside.init(name="a")
trackside.log({"x": 1})

def work():
    pass

def log_there():
    trackside.log({"x": 2})
    trackside.log({"x": 2})

if __name__ == "__main__":
    forked = multiprocessing.get_context("fork").Process(target=log_there)
    forked.start(); forked.join()
    if os.fork() == 0:
        sys.exit(5)
    os.wait()
    spawned = multiprocessing.get_context("spawn").Process(target=work)
    spawned.start(); spawned.join()
    assert (forked.exitcode, spawned.exitcode) == (0, 0)
"""
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("not those it forks") == 1
    assert scripts.names == ["a"]
    assert scripts.ended("a").history.state.status is Status.COMPLETED
    assert points(scripts, "a") == {"x": [(0, 1)]}


def test_a_home_that_cannot_be_written_ends_no_training(scripts: Scripts, tmp_path: Path):
    (tmp_path / "file").write_text("")
    ran = scripts.run(
        "trackside.init('a'); trackside.log({'x': 1}); trackside.finish(); print('trained')\n",
        environ={"TRACKSIDE_HOME": str(tmp_path / "file" / "home")},
    )
    assert (ran.returncode, ran.stdout) == (0, "trained\n")
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("trackside: this run is not tracked: ")
    assert ran.stderr.endswith("The script goes on.\n")


def test_a_disk_that_fills_up_ends_no_training(scripts: Scripts, tmp_path: Path):
    with small_disk(tmp_path / "disk", "8m") as disk:
        script = scripts.start(
            """
trackside.init(name="a")
wait_for_go()
for i in range(20000):
    trackside.log({"x": i})
trackside.finish()
print("trained")
""",
            environ={"TRACKSIDE_HOME": str(disk / "home")},
        )
        home = Home(disk / "home")
        until(lambda: "Training" in home.job("a").journal.read_text(), seconds=120)
        fill(disk)
        scripts.go.touch()
        said, complained = script.communicate(timeout=120)
        assert (script.returncode, said) == (0, "trained\n"), complained
        end_processes_of(disk / "home")


def test_what_is_kept_is_the_owner_s_alone(scripts: Scripts):
    scripts.run("os.umask(0); trackside.init(name='a'); print('secret')\n")
    scripts.ended("a")
    home = scripts.settings.home
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE(scripts.host("a").log.stat().st_mode) == 0o600


def test_rules_that_are_none_are_refused_at_once(scripts: Scripts):
    ran = scripts.run("trackside.init('a', rules=['NoSuchRule'])\n")
    assert ran.returncode == 1
    assert "NoSuchRule" in ran.stderr
    assert scripts.names == []


def test_a_wrong_setting_ends_no_training(scripts: Scripts):
    ran = scripts.run("trackside.init('a')\n", environ={"TRACKSIDE_HOEM": "/x"})
    assert ran.returncode == 0
    assert "not tracked: Unknown setting 'TRACKSIDE_HOEM'" in ran.stderr


def test_where_a_server_is_chosen_the_command_says_that_the_run_is_here(scripts: Scripts):
    ran = scripts.run("trackside.init(name='a')\n", environ={"TRACKSIDE_URL": "http://127.0.0.1:9"})
    assert "`TRACKSIDE_URL=embedded trackside show a`" in ran.stderr
    assert scripts.ended("a").history.state.status is Status.COMPLETED
    assert os.listdir(scripts.settings.home / "jobs") == ["a"]
