"""Step times in the profiler's framework files."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.wait import until
from trackside.capture.steps.step_events import StepEvents
from trackside.supervisor.machine_figures import MinuteFiles

NODE = "0-algo-1"
BEGAN_US = 1_591_160_699_400_000


def whole_files(folder: Path) -> list[Path]:
    return sorted((folder / "framework" / "pevents").rglob("*_pythontimeline.json"))


def records(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text()))


def steps(path: Path) -> list[dict[str, Any]]:
    return [record for record in records(path) if record["ph"] == "X"]


def test_a_step_has_the_contract_s_form(tmp_path: Path):
    events = StepEvents(tmp_path, NODE)
    events.add("TRAIN", 7, BEGAN_US, 1500)
    events.add("EVAL", 0, BEGAN_US + 2000, 300)
    events.close()
    [path] = whole_files(tmp_path)
    end = BEGAN_US + 2300
    assert path == tmp_path / f"framework/pevents/2020060305/{end}_{NODE}_pythontimeline.json"
    first, *rest = records(path)
    assert first["args"] == {"start_time_since_epoch_in_micros": BEGAN_US}
    names = {
        record["pid"]: record["args"]["name"] for record in rest if record["name"] == "process_name"
    }
    train, evaluate = steps(path)
    assert names[train["pid"]] == train["name"] == "Step:ModeKeys.TRAIN"
    assert (train["ts"], train["dur"], train["args"]["step_num"]) == (0, 1500, 7)
    assert names[evaluate["pid"]] == evaluate["name"] == "Step:ModeKeys.EVAL"
    assert (evaluate["ts"], evaluate["dur"]) == (2000, 300)


def test_no_step_is_no_file(tmp_path: Path):
    StepEvents(tmp_path, NODE).close()
    assert not (tmp_path / "framework").exists()


def test_a_reader_sees_the_first_steps_while_the_loop_runs(tmp_path: Path):
    events = StepEvents(tmp_path, NODE)
    events.add("TRAIN", 0, BEGAN_US, 10)
    [path] = until(lambda: whole_files(tmp_path))
    assert [step["args"]["step_num"] for step in steps(path)] == [0]
    events.add("TRAIN", 1, BEGAN_US + 20, 10)
    events.close()
    assert [len(steps(path)) for path in whole_files(tmp_path)] == [1, 1]


KILLED = """
import os, sys, time
from pathlib import Path
from trackside.capture.steps import step_events
step_events.FIRST_FILE_SECONDS = 3600.0
events = step_events.StepEvents(Path(sys.argv[1]), "0-algo-1")
for step in range(3):
    events.add("TRAIN", step, 1591160699400000 + step, 1)
parts = Path(sys.argv[1]) / "framework" / "pevents"
while not any(part.read_bytes().count(b"step_num") == 3 for part in parts.glob("*.tmp")):
    time.sleep(0.005)
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_script_left_half_written_its_supervisor_finishes(tmp_path: Path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    [part] = tmp_path.rglob("*.tmp")
    part.write_bytes(part.read_bytes()[:-9])  # as a full disk would leave it
    MinuteFiles(tmp_path, tmp_path / "part", "algo-1").close()
    [path] = whole_files(tmp_path)
    assert [step["args"]["step_num"] for step in steps(path)] == [0, 1]
    assert path.name == f"1591160699400002_{NODE}_pythontimeline.json"
    assert not part.exists()


def test_a_disk_that_fails_is_logged_once_and_affects_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "framework").write_text("a file where a folder should be")
    events = StepEvents(tmp_path, NODE)
    events.add("TRAIN", 0, BEGAN_US, 10)
    until(lambda: "no longer written" in caplog.text)
    events.add("TRAIN", 1, BEGAN_US, 10)
    events.close()
    assert caplog.text.count("no longer written") == 1


def test_no_step_of_a_long_training_is_lost(tmp_path: Path):
    events = StepEvents(tmp_path, NODE)
    num_steps = 20_000
    for step in range(num_steps):
        events.add("TRAIN", step, BEGAN_US + step, 10)
    events.close()
    assert sum(len(steps(path)) for path in whole_files(tmp_path)) == num_steps
