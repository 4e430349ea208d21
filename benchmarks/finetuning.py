"""Mistakes of fine-tuning that the check-up names within three optimizer steps: 24 trainings of a
small language model, and the same ones mended (`finetuning_set/train.py`).

Each is captured as by `--rule all`, in a process forked from this one, which has imported
everything once; what it saved is then judged by the whole check-up.
"""

import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import Comparison, Target
from trackside.capture.autohook import arm
from trackside.capture.hook import get_hook
from trackside.capture.trial import create_trial
from trackside.records.spec import RuleConfiguration
from trackside.rules.capture_plan import Pace, all_rules, plan
from trackside.rules.checkup.checkup import Checkup
from trackside.rules.checkup.diagnosis import Diagnosis, diagnose
from trackside.rules.saved.evidence import Evidence

TARGET = 22
_STEPS = 3
_QUICK = ("no_supervised_token", "two_bos", "adapters_both_zero")
_SECONDS = 120
EXPECTED = {
    "no_supervised_token": "NothingSupervised",
    "prompt_in_loss": "PromptTrained",
    "eos_never_target": "EndNeverTrained",
    "pad_is_eos": "EndNeverTrained",
    "two_bos": "TemplateMisused",
    "labels_shifted_twice": "TargetsShiftedWrongly",
    "labels_not_shifted": "TargetsShiftedWrongly",
    "completions_cut_off": "AnswersCutOff",
    "whole_talk_is_assistant": "PromptTrained",
    "packing_bleeds": "PackedTextsMixed",
    "evaluated_on_training_data": "EvaluationOnTrainingData",
    "left_padding_without_mask": "PaddingAttended",
    "generation_prompt_in_text": "TemplateMisused",
    "template_of_another_model": "TemplateMisused",
    "adapters_without_gradient": "AdaptersNotTrained",
    "adapters_both_zero": "AdaptersNotTrained",
    "base_not_frozen": "BaseNotFrozen",
    "everything_frozen": "AdaptersNotTrained",
    "reentrant_checkpointing": "AdaptersNotTrained",
    "rate_too_low_for_adapters": "FineTuningRate",
    "rate_of_adapters_for_all": "FineTuningRate",
    "new_tokens_not_trained": "NewTokensNotTrained",
    "accumulated_without_dividing": "LossScaledWrongly",
    "divided_twice": "LossScaledWrongly",
}
"""The right cause of each."""


class TrainingSet(NamedTuple):
    """A folder with `train.py`, whose functions are trainings, and `parts.py`, which makes the
    base models."""

    folder: Path
    expected: Mapping[str, str]

    @property
    def script(self) -> Path:
        return self.folder / "train.py"

    def names(self, mark: str = "case") -> tuple[str, ...]:
        """The functions with this decorator."""
        pattern = rf"^@{mark}\ndef (\w+)"
        return tuple(re.findall(pattern, self.script.read_text(), re.MULTILINE))


PLAIN = TrainingSet(Path(__file__).with_name("finetuning_set"), EXPECTED)


def run(quick: bool = False) -> Iterator[Comparison]:
    names = _QUICK if quick else PLAIN.names()
    with tempfile.TemporaryDirectory() as folder:
        base = prepared(PLAIN, Path(folder))
        named, silent = examine_all(PLAIN, names, base, Path(folder))
    yield Comparison(
        title=f"Mistakes of fine-tuning named within {_STEPS} steps, of {len(names)}",
        unit="named",
        figures={"trackside": named, "the target": TARGET * len(names) / len(PLAIN.names())},
        higher_is_better=True,
        targets=(Target("the target", 1.0),),
        notes=(f"Of {len(names)} mended trainings {silent} had no finding.",),
    )


def examine_all(
    trainings: TrainingSet, names: tuple[str, ...], base: Path, folder: Path
) -> tuple[int, int]:
    """How many are named rightly, and how many mended ones have no finding; prints a table."""
    named = silent = 0
    print("| training | expected | named first | confidence | mended |\n|---|---|---|---|---|")
    for name in names:
        sick, mended = (examine(trainings, name, base, folder, is_mended=m) for m in (False, True))
        is_right = bool(sick) and sick[0].cause in trainings.expected[name].split(" or ")
        named, silent = named + is_right, silent + (not mended)
        print(_row(name, trainings.expected[name], sick, mended), flush=True)
    return named, silent


def prepared(trainings: TrainingSet, folder: Path) -> Path:
    """The base models, which all of them load; and what they import."""
    base, parts = folder / "base", trainings.folder / "parts.py"
    subprocess.run([sys.executable, str(parts), str(base)], check=True, text=True)
    import accelerate  # noqa: F401
    import torch
    from transformers import AutoModelForCausalLM, Trainer  # noqa: F401

    torch.set_num_threads(1)
    return base


def examine(
    trainings: TrainingSet,
    name: str,
    base: Path,
    folder: Path,
    *,
    is_mended: bool = False,
    steps: int = _STEPS,
) -> list[Diagnosis]:
    trial = folder / f"{name}-{'mended' if is_mended else 'sick'}"
    arguments = [name, "--base", str(base), "--steps", str(steps), *["--mended"] * is_mended]
    pid = os.fork()
    if not pid:
        _train(trainings.script, trial, arguments)
    deadline = time.monotonic() + _SECONDS
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            os.kill(pid, 9)
        time.sleep(0.05)
    return judged(trial)


def judged(trial: Path) -> list[Diagnosis]:
    """Nothing, if it saved nothing."""
    if not (trial / "segments").is_dir():
        return []
    evidence, checkup = Evidence(create_trial(str(trial))), Checkup()
    findings = list(checkup.check(evidence))
    while not evidence.is_all:
        evidence.advance()
        findings += checkup.check(evidence)
    return diagnose(findings)


def _train(script: Path, trial: Path, arguments: list[str]) -> None:
    """In the child process, until its end."""
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
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.parent))
    arm()
    try:
        runpy.run_path(str(script), run_name="__main__")
    except BaseException:  # noqa: BLE001 nothing may return into the copy of this program
        traceback.print_exc()
    hook = get_hook()
    if hook is not None:
        hook.close()
    os._exit(0)  # anything else would also remove the parent's temporary folder


def _row(name: str, expected: str, sick: list[Diagnosis], mended: list[Diagnosis]) -> str:
    first = (f"{sick[0].cause}", sick[0].confidence) if sick else ("nothing", "")
    alarms = ", ".join(each.cause for each in mended) or "silent"
    return f"| {name} | {expected} | {first[0]} | {first[1]} | {alarms} |"
