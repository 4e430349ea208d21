"""`python -m tests.rules.checkup.zoo_recorder SCRIPTS TRIALS [--seconds N]`: trains each script of
the zoo once, captured as by `--rule all`, and saves its trial, for `sensitivity` to judge."""

import argparse
import json
import os
import random
import runpy
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from trackside.records.spec import RuleConfiguration
from trackside.rules.capture_plan import Pace, all_rules, plan

_MOST_SECONDS_PER_SCRIPT = 60


def main() -> None:
    parser = argparse.ArgumentParser(prog=__spec__.name, description=__doc__)
    parser.add_argument("scripts", type=Path, help="the folder with `broken` and `healthy`")
    parser.add_argument("trials", type=Path, help="the folder to save trials in")
    parser.add_argument("--seconds", type=float, default=900, help="stop starting scripts then")
    arguments = parser.parse_args()
    import torch  # once, before the forks: importing it takes longer than most of the trainings

    torch.set_num_threads(1)
    end = time.monotonic() + arguments.seconds
    for script in _scripts(arguments.scripts.resolve()):
        trial = arguments.trials.resolve() / script.parent.name / script.stem
        if trial.exists():
            continue
        if time.monotonic() > end:
            break
        result = _record(script, trial)
        sys.stderr.write(f"{script.parent.name}/{script.stem}: {result}\n")


def _scripts(folder: Path) -> Iterator[Path]:
    """In a fixed random order, so that any part of them is a fair sample."""
    found = sorted(folder.glob("*/*.py"))
    random.Random(0).shuffle(found)
    yield from found


def _record(script: Path, trial: Path) -> str:
    unfinished = trial.with_name(f"{trial.name}.part")
    pid = os.fork()
    if not pid:
        _train(script, unfinished)
    deadline = time.monotonic() + _MOST_SECONDS_PER_SCRIPT
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "took too long"
        time.sleep(0.1)
    if not (unfinished / "segments").is_dir():
        return "saved nothing"
    unfinished.rename(trial)
    return "recorded"


def _train(script: Path, trial: Path) -> None:
    """In the child process, until it exits as any script does, so that the hook is closed."""
    from trackside.capture.autohook import arm

    trial.mkdir(parents=True)
    rules = [
        RuleConfiguration(name=name, parameters={"rule_to_invoke": name}) for name in all_rules()
    ]
    collections = [
        {"CollectionName": each.name, "CollectionParameters": dict(each.parameters)}
        for each in plan(rules, Pace.WATCHFUL)
    ]
    config = trial / "hook.json"
    config.write_text(
        json.dumps({"LocalPath": str(trial), "CollectionConfigurations": collections})
    )
    os.environ.update(TRACKSIDE_CAPTURE="auto", SMDEBUG_CONFIG_FILE_PATH=str(config))
    os.chdir(trial)
    output = os.open(trial / "output.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = [str(script)]
    arm()
    runpy.run_path(str(script), run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    main()
