"""How fast rules read a trial: 200 gradients over 1,000 steps, against the same rule for smdebug.

Both trials hold what the rule asks the hook for: the mean of the absolute values of each tensor.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.report import Comparison, Target
from benchmarks.smdebug_peer import smdebug_environment, smdebug_python
from trackside.capture.selection.collection import CollectionManager
from trackside.capture.trial import create_trial
from trackside.capture.writing.segments import StepRecord
from trackside.capture.writing.writer import SegmentWriter
from trackside.rules.builtin import TensorRule
from trackside.rules.saved.evidence import Evidence
from trackside.rules.tensor.any_tensors import AllZero, ExplodingTensor, TensorVariance
from trackside.rules.tensor.losses import LossNotDecreasing, Overfit, Overtraining
from trackside.rules.tensor.progress import StalledTrainingRule
from trackside.rules.tensor.weights import VanishingGradient

NUM_TENSORS = 200
NAMES = tuple(f"gradient/Net_layer{i}.weight" for i in range(NUM_TENSORS))
COLUMNS = ("abs_max", "abs_mean", "variance")
ROUNDS = 5
"""The best of these counts: the machine's other work only ever makes a program slower."""

WRITE_WITH_SMDEBUG = """
import sys
import numpy as np
from smdebug.core.modes import ModeKeys
from smdebug.core.writer import FileWriter
flat, out, steps, tensors = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
values = np.memmap(flat, "<f8", "r", shape=(steps, tensors))
for step in range(steps):
    writer = FileWriter(trial_dir=out, step=step, worker="worker_0")
    for i, value in enumerate(values[step]):
        writer.write_tensor(
            tdata=np.array([value]),
            tname=f"smdebug/reductions/abs_mean/gradient/Net_layer{i}.weight",
            mode=ModeKeys.TRAIN, mode_step=step,
        )
    writer.close()
"""

JUDGE_WITH_SMDEBUG = """
import sys, time
from smdebug.exceptions import NoMoreData
from smdebug.rules import Rule, invoke_rule
from smdebug.trials import create_trial

class VanishingGradient(Rule):
    def __init__(self, base_trial, threshold="1e-7"):
        super().__init__(base_trial, "")
        self.threshold = float(threshold)

    def invoke_at_step(self, step):
        fires = False
        for name in self.base_trial.tensor_names(regex="^gradient"):
            tensor = self.base_trial.tensor(name)
            fires |= tensor.reduction_value(step, "mean", abs=True) < self.threshold
        return fires

start = time.perf_counter()
try:
    invoke_rule(VanishingGradient(create_trial(sys.argv[1])))
except NoMoreData:
    pass
print("seconds", time.perf_counter() - start)
"""


def run(quick: bool) -> list[Comparison]:
    num_steps = 100 if quick else 1_000
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as name:
        folder = Path(name)
        _write(folder, num_steps)
        return [_one(folder, num_steps), _all(folder, num_steps)]


def _one(folder: Path, num_steps: int) -> Comparison:
    figures = {"trackside": _best(lambda: _judge(folder, [VanishingGradient()]))}
    targets = []
    smdebug = _smdebug_seconds(folder, num_steps)
    if smdebug is not None:
        figures["smdebug 1.0.34"] = smdebug
        targets.append(Target("smdebug 1.0.34", 200))
    return Comparison(
        f"VanishingGradient over {NUM_TENSORS} tensors and {num_steps:,} steps, trial opened anew",
        "seconds",
        figures,
        targets=tuple(targets),
        notes=("smdebug runs the rule by its invoke_rule, with a compiled protobuf.",),
    )


def _all(folder: Path, num_steps: int) -> Comparison:
    """What one rule has read, the next one gets for nothing."""
    rules = _applicable()
    return Comparison(
        f"{len(rules)} rules at once on the same trial, against VanishingGradient alone",
        "CPU seconds",
        {
            "trackside": _best(lambda: _judge(folder, _applicable()), time.process_time),
            "VanishingGradient alone": _best(
                lambda: _judge(folder, [VanishingGradient()]), time.process_time
            ),
        },
        targets=(Target("VanishingGradient alone", 1 / 3),),
        notes=("CPU time, the opening of the trial included in both.",),
    )


def _applicable() -> list[TensorRule]:
    """Those that have something to look at in a trial of gradients' figures and a loss."""
    gradients = ("gradients",)
    return [
        VanishingGradient(),
        ExplodingTensor(),
        AllZero(collection_names=gradients),
        TensorVariance(collection_names=gradients, max_threshold=1e6),
        LossNotDecreasing(),
        Overfit(),
        Overtraining(),
        StalledTrainingRule(),
    ]


def _judge(folder: Path, rules: list[TensorRule]) -> None:
    evidence = Evidence(create_trial(folder / "trial", home=folder))
    evidence.advance()
    for rule in rules:
        list(rule.check(evidence))


def _write(folder: Path, num_steps: int) -> None:
    random = np.random.default_rng(0)
    means = random.uniform(1e-6, 1e-2, (num_steps, NUM_TENSORS))
    means.tofile(folder / "flat")
    with SegmentWriter(str(folder / "trial"), "worker_0", home=folder) as writer:
        writer.put_collections(CollectionManager().to_json_dict())
        for step, row in enumerate(means):
            record = StepRecord(step, "TRAIN", step, time.time(), {}, NAMES, COLUMNS)
            record.matrix = np.stack([3 * row, row, row**2], axis=1)
            record.tensors["CrossEntropyLoss_output_0"] = np.array(1 / (step + 1), np.float32)
            writer.add(record)


def _smdebug_seconds(folder: Path, num_steps: int) -> float | None:
    """None where its environment cannot be made."""
    python = smdebug_python()
    if python is None:
        return None
    out = folder / "smdebug"
    environment = smdebug_environment()
    sizes = [str(num_steps), str(NUM_TENSORS)]
    command = [str(python), "-c", WRITE_WITH_SMDEBUG, str(folder / "flat"), str(out), *sizes]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    collections = out / "collections" / "000000000" / "worker_0_collections.json"
    collections.parent.mkdir(parents=True)
    collections.write_text(json.dumps({"collections": {}, "_meta": {"num_workers": 1}}))
    (out / "training_job_end.ts").touch()
    command = [str(python), "-c", JUDGE_WITH_SMDEBUG, str(out)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout.rpartition("seconds ")[2])


def _best(act: Callable[[], None], clock: Callable[[], float] = time.perf_counter) -> float:
    times = []
    for _ in range(ROUNDS):
        start = clock()
        act()
        times.append(clock() - start)
    return min(times)
