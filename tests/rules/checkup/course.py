"""The course of a training for tests of rules on vitals, written as a hook would write it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.rules.recording import judge
from trackside.capture.selection.collection import CollectionManager
from trackside.capture.trial import create_trial
from trackside.capture.writing.segments import StepRecord
from trackside.capture.writing.writer import SegmentWriter
from trackside.records.finding import Finding
from trackside.rules.builtin import TensorRule

STEPS = 300
MODEL: dict[str, Any] = {
    "models": ["Net"],
    "modules": [
        {"name": "Net", "type": "Net"},
        {"name": "a", "type": "Linear"},
        {"name": "relu", "type": "ReLU"},
        {"name": "b", "type": "Linear"},
    ],
    "parameters": [
        {
            "name": f"Net_{name}",
            "shape": [16, 16],
            "numel": 256,
            "optimizer": 0,
            "group": 0,
            "ever_had_gradient": True,
        }
        for name in ("a.weight", "b.weight")
    ],
    "optimizers": [{"index": 0, "type": "SGD", "num_steps": STEPS, "groups": [{"lr": 0.1}]}],
    "losses": [
        {
            "name": "CrossEntropyLoss",
            "function": "cross_entropy",
            "shapes": [[32, 10], [32]],
            "num_classes": 10,
            "label_min": 0,
            "label_max": 9,
        }
    ],
    "forwards": [{"training": True, "grad": True, "count": STEPS}],
    "backwards": [{"training": True, "count": STEPS}],
}
"""Of an ordinary training, in which nothing is wrong."""
VITALS: dict[str, Any] = {
    "batch_size": 32,
    "learning_rate/0": 0.1,
    "gradient_norm": lambda step: 1 + 0.3 * (step % 7),
    "gradient_missing": 0,
    "leftover_gradients": 0,
    "update_ratio": 5e-3,
    "step_seconds": 0.01,
    "input/min": -2.0,
    "input/max": 2.0,
    "input/mean": 0.0,
    "input/std": 1.0,
    "input/fingerprint": lambda step: 1000 + step,
    "labels/num_classes_seen": 10,
    "labels/largest_share": 0.2,
    "labels/min": 0,
    "labels/max": 9,
    "predictions/largest_share": 0.2,
    "loss_input/min": -3.0,
    "loss_input/max": 4.0,
    "loss_input/row_sum_error": 2.0,
    "activation/a/std": 0.6,
    "activation/relu/dead_share": 0.1,
    "activation/b/std": 0.6,
}


def falling(step: int) -> float:
    return 0.1 + 2.2 * 0.985**step


def flat(step: int) -> float:
    return 2.3 + 0.02 * (step % 3 - 1)


def course(
    folder: Path,
    *,
    vitals: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
    loss: Any = falling,
    evaluation_loss: Any = None,
    anatomy: Mapping[str, Any] | None = None,
    weights: Any = None,
    gradients: Any = None,
    num_steps: int = STEPS,
    ranks: Sequence[Mapping[str, Any]] = (),
    last_batch: tuple[int, float] | None = None,
) -> Any:
    """A figure is a number, or a function of the step; None leaves it out. Every 20 steps there
    is an evaluation, where one of its figures is given. `weights` and `gradients` give, by name
    and step, l2, max and min, and l2 and abs_mean. `ranks` are the files of all of them.
    `last_batch` is the size and the loss of a second batch of each evaluation."""
    for rank in ranks:
        file = folder / "ranks" / f"{rank['worker']}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(rank))
    writer = SegmentWriter(str(folder), "worker_0", home=folder)
    manager = CollectionManager()
    manager.get("vitals").include(["^vitals/"])
    writer.put_collections(manager.to_json_dict())
    known: dict[str, Any] = {**MODEL, **(anatomy or {})}
    writer.put_anatomy(known)
    names = [each["name"].removeprefix("Net_") for each in known["parameters"]]
    trained = {**VITALS, **(vitals or {})}
    evaluated = evaluation or ({} if evaluation_loss is None else {"batch_size": 100})
    number = mode_step = 0
    for step in range(num_steps):
        writer.add(_record(number, "TRAIN", step, step, trained, loss))
        if weights is not None:
            _figures(writer, number, step, ("l2", "max", "min"), weights, "", names)
        if gradients is not None:
            _figures(writer, number, step, ("l2", "abs_mean"), gradients, "gradient/", names)
        number += 1
        if evaluated and step % 20 == 19:
            writer.add(_record(number, "EVAL", mode_step, step, evaluated, evaluation_loss))
            number, mode_step = number + 1, mode_step + 1
            if last_batch is not None:
                figures, value = {"batch_size": last_batch[0]}, last_batch[1]
                writer.add(_record(number, "EVAL", mode_step, step, figures, lambda _, v=value: v))
                number, mode_step = number + 1, mode_step + 1
    writer.close(end_marker=True)
    return create_trial(str(folder))


def found(rule: TensorRule, folder: Path, **reported: Any) -> list[Finding]:
    return judge(rule, course(folder, **reported))


def _record(
    number: int, mode: str, mode_step: int, step: int, figures: Mapping[str, Any], loss: Any
) -> StepRecord:
    scalars = {
        f"vitals/{name}": float(value)
        for name, given in figures.items()
        if (value := given(step) if callable(given) else given) is not None
    }
    if loss is not None:
        scalars["loss_output_0"] = float(loss(step))
        if "vitals/target/std" in scalars:
            scalars.setdefault("vitals/loss_value", float(loss(step)))
    return StepRecord(number, mode, mode_step, 0.0, scalars=scalars)


def _figures(
    writer: SegmentWriter,
    number: int,
    step: int,
    columns: Sequence[str],
    figures: Any,
    prefix: str,
    names: Sequence[str],
) -> None:
    rows = {f"{prefix}Net_{name}": figures(name, step) for name in names}
    writer.add(
        StepRecord(
            number,
            "TRAIN",
            step,
            0.0,
            reduced=tuple(rows),
            reductions=tuple(columns),
            matrix=np.array([*rows.values()], np.float64),
        )
    )
