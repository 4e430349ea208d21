"""The same comparison without a job: both runs are forked from one process that has imported torch,
and the watched one is captured as by `--rule all`.

It is several times cheaper than a job and covers what can change a number, the capture; evaluator
and supervisor are other processes.
"""

import atexit
import json
import os
import runpy
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
from zoo.specimen import Specimen, Variant

from benchmarks.same_numbers.compare import Compared, differences
from benchmarks.same_numbers.site import traces
from trackside.records.spec import RuleConfiguration
from trackside.rules.capture_plan import Pace, all_rules, plan

_SECONDS = 900

torch.set_num_threads(1)  # in the forking process: threads do not survive a fork


def compare_forked(specimen: Specimen, mode: str) -> Compared:
    with tempfile.TemporaryDirectory(prefix="trackside-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        script = folder / "train.py"
        script.write_text(specimen.source(Variant()))
        plain = _forked(folder / "plain", lambda: _train(script, mode))
        if not plain:
            return Compared(specimen.key, mode, "fails", way="forked")
        watched = _forked(folder / "watched", lambda: _watch(script, mode, folder))
        if not (folder / "trial" / "segments").is_dir():
            return Compared(specimen.key, mode, "not watched", way="forked")
        if not watched:
            return Compared(specimen.key, mode, "not ended", way="forked")
        parts = differences(plain, watched)
        if not parts:
            return Compared(specimen.key, mode, "same", way="forked")
        again = _forked(folder / "again", lambda: _train(script, mode))
        varies = bool(differences(plain, again))
        return Compared(specimen.key, mode, "varies" if varies else "differs", parts, way="forked")


def capture_forked(folder: Path, script: Path) -> Path:
    """Runs a script, captured as by `--rule all`; where its trial is."""
    _forked(folder / "watched", lambda: _watch(script, "train", folder))
    return folder / "trial"


def _forked(left: Path, train: Callable[[], None]) -> list[dict[str, Any]]:
    """What the process left of its numbers, in the folder that it starts in."""
    left.mkdir()
    pid = os.fork()
    if not pid:
        atexit._clear()  # what is registered is the forking process's
        os.chdir(left)
        output = os.open("output.txt", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        _end_after(train)
    deadline = time.monotonic() + _SECONDS
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return []
        time.sleep(0.05)
    return [json.loads(path.read_text()) for path in left.glob("*.json")]


def _end_after(train: Callable[[], None]) -> None:
    """As a script ends, but for what the forking process has left open on its stack."""
    try:
        train()
    except BaseException:  # noqa: BLE001 which ends the child
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(0)


def _train(script: Path, mode: str) -> None:
    sys.argv = [str(script)]
    traces.install(str(Path.cwd()), mode)
    runpy.run_path(str(script), run_name="__main__")


def _watch(script: Path, mode: str, folder: Path) -> None:
    from trackside.capture.autohook import arm

    trial = folder / "trial"
    trial.mkdir()
    rules = [
        RuleConfiguration(name=name, parameters={"rule_to_invoke": name}) for name in all_rules()
    ]
    collections = [
        {"CollectionName": each.name, "CollectionParameters": dict(each.parameters)}
        for each in plan(rules, Pace.WATCHFUL)
    ]
    config = folder / "hook.json"
    config.write_text(
        json.dumps({"LocalPath": str(trial), "CollectionConfigurations": collections})
    )
    os.environ.update(TRACKSIDE_CAPTURE="auto", SMDEBUG_CONFIG_FILE_PATH=str(config))
    arm()
    _train(script, mode)
