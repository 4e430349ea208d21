"""Compares a training that was stopped and resumed with one that was not: what the recorder of
`capture/checkpoints` has written in three runs.

The state that the resumed run starts with is compared with that in which the stopped run ended, so
that it counts also where two runs of the script differ; the steps after it with the unbroken run.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackside.errors import AuditFailed

_NUM_NAMES = 3
_AVERAGE = ("average", "ema", "swa", "shadow")

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """What one run has written."""

    steps: tuple[Record, ...] = ()
    saves: tuple[Record, ...] = ()
    ended_by: str = ""
    """seam or over, by the audit; empty if the script ended by itself."""

    @classmethod
    def read(cls, path: Path) -> "Run":
        lines = path.read_text().splitlines() if path.is_file() else []
        records = [json.loads(line) for line in lines if line.endswith("}")]
        ends = [each["why"] for each in records if each["kind"] == "end"]
        return cls(
            tuple(each for each in records if each["kind"] == "step"),
            tuple(each for each in records if each["kind"] == "save"),
            ends[-1] if ends else "",
        )


@dataclass(frozen=True, slots=True)
class Difference:
    part: str
    """parameters, buffers, optimizer, schedule, scaler, rng, data, update, average or saved."""
    step: int
    """Of the unbroken run, from 0."""
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class Audit:
    seam: int
    """Updates that were done when the run was stopped."""
    num_compared: int
    """Steps after it that both runs have made."""
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]
    losses: tuple[tuple[float | None, float | None], ...]
    """Of the unbroken and of the resumed run, from the seam on."""

    @property
    def is_same(self) -> bool:
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        return {
            "same": self.is_same,
            "seam": self.seam,
            "compared_steps": self.num_compared,
            "differences": [
                {"part": d.part, "step": d.step, "message": d.message, "advice": d.advice}
                for d in self.differences
            ],
            "notes": list(self.notes),
            "losses": [list(pair) for pair in self.losses],
        }


def audit(unbroken: Run, stopped: Run, resumed: Run) -> Audit:
    if not stopped.steps or stopped.ended_by != "seam":
        raise AuditFailed(
            "The script wrote no checkpoint that another update follows, so there is nothing to "
            "resume from. Checkpoints by torch.save and safetensors are seen; run it for longer, "
            "or let it save more often."
        )
    if not resumed.steps:
        raise AuditFailed(
            "The resumed run made no update: it may not find its checkpoint, or take the training "
            "for finished. Give what it needs with --resume-arguments."
        )
    last = stopped.steps[-1]
    seam = int(last["done"])
    pairs = list(zip(unbroken.steps[seam:], resumed.steps, strict=False))
    differing = _first_difference(unbroken.steps, stopped.steps[:seam])
    found = [*_at_seam(last, resumed.steps[0], stopped, unbroken)]
    found += _rates_and_scales(pairs, seam, {each.part for each in found})
    found += _data(pairs, unbroken, seam) if differing is None else ()
    is_moved = bool(found) or _first_difference_of(pairs) is not None
    notes = [*_notes(differing)]
    lost = _random(last, resumed.steps[0])
    if lost and (is_moved or differing is not None) and not _explains_all(found):
        found.insert(_place(found, pairs, unbroken), _random_difference(lost, seam))
    elif lost:
        notes.append(f"The state of {lost} is not restored, and nothing that followed used it.")
    if not found and differing is None:
        found += _saved(unbroken, resumed, seam) or _later(pairs, seam)
    losses = tuple((a.get("loss"), b.get("loss")) for a, b in pairs)
    return Audit(seam, len(pairs), tuple(found), tuple(notes), losses)


def _at_seam(expected: Record, got: Record, stopped: Run, unbroken: Run) -> Iterable[Difference]:
    seam = int(expected["done"])
    if names := _differing(expected["parameters"], got["parameters"]):
        count = f"{len(names)} of {len(expected['parameters'])} parameters differ"
        origin = _origin(got["parameters"], [*stopped.steps, *unbroken.steps])
        yield Difference(
            "parameters",
            seam,
            f"{count} after the resume: {_listed(names)}.{origin}",
            "Check what is saved as the model, and load it with strict=True: missing and "
            "unexpected keys then raise.",
        )
    names = _differing(expected["buffers"], got["buffers"])
    if names and expected["batches"] == got["batches"]:  # another batch has other statistics
        yield Difference(
            "buffers",
            seam,
            f"{len(names)} of {len(expected['buffers'])} buffers differ after the resume: "
            f"{_listed(names)}.",
            "Save model.state_dict(), which holds the statistics of batch norm, not only the "
            "parameters.",
        )
    if names := _differing(expected["state"], got["state"]):
        what = "is empty" if not got["state"] else f"differs in {_listed(names)}"
        yield Difference(
            "optimizer",
            seam,
            f"The state of the optimizer {what} after the resume.",
            "Save optimizer.state_dict() with the model's, and load it once the optimizer is made.",
        )


def _rates_and_scales(
    pairs: Sequence[tuple[Record, Record]], seam: int, known: set[str]
) -> Iterable[Difference]:
    for number, (a, b) in enumerate(pairs):
        if a["rates"] != b["rates"]:
            yield Difference(
                "schedule",
                seam + number,
                f"The learning rate at step {seam + number} is {_numbers(b['rates'])} in the "
                f"resumed run and {_numbers(a['rates'])} in the unbroken one.",
                "Save scheduler.state_dict() and load it after the scheduler was made; restore the "
                "counter of a schedule of one's own.",
            )
            break
    for number, (a, b) in enumerate(pairs):
        if a["scaler"] != b["scaler"]:
            yield Difference(
                "scaler",
                seam + number,
                f"The gradient scaler at step {seam + number} has scale and growth counter "
                f"{_numbers(b['scaler'])} in the resumed run and {_numbers(a['scaler'])} in the "
                "unbroken one.",
                "Save scaler.state_dict() and load it.",
            )
            break


def _data(pairs: Sequence[tuple[Record, Record]], unbroken: Run, seam: int) -> Iterable[Difference]:
    for number, (a, b) in enumerate(pairs):
        if a["batches"] == b["batches"]:
            continue
        step = seam + number
        places = [s["done"] for s in unbroken.steps if s["batches"] == b["batches"]]
        if number == 0 and places == [step + 1]:
            yield Difference(
                "update",
                step,
                f"The update of step {step} is lost: the resumed run goes on with the batch of "
                f"step {step + 1}, and with the weights from before step {step}.",
                "Write the checkpoint after optimizer.step(), with the number of steps that are in "
                "it.",
            )
            return
        origin = f", which was that of step {places[0]}" if places else ""
        yield Difference(
            "data",
            step,
            f"The batch of step {step} is another one after the resume{origin}.",
            "Restore the position in the data: the epoch, the seed or the state of the shuffle, "
            "and skip the batches of the epoch that were used.",
        )
        return


def _saved(unbroken: Run, resumed: Run, seam: int) -> list[Difference]:
    """Of checkpoints at the same step: what is kept besides the training, as averages are."""
    earlier = {(each["done"], each["path"]): each["content"] for each in unbroken.saves}
    for save in resumed.saves:
        content = earlier.get((save["done"] + seam, save["path"]))
        names = [] if content is None else _differing(content, save["content"])
        if names:
            first = names[0].split(".")[0]
            part = "average" if any(word in first.lower() for word in _AVERAGE) else "saved"
            return [
                Difference(
                    part,
                    seam + int(save["done"]),
                    f"{len(names)} tensors of {save['path']!r} differ at step "
                    f"{seam + int(save['done'])}: {_listed(names)}.",
                    f"Load {first!r} from the checkpoint: it is saved, and not restored.",
                )
            ]
    return []


def _later(pairs: Sequence[tuple[Record, Record]], seam: int) -> list[Difference]:
    number = _first_difference_of(pairs)
    if number is None:
        return []
    return [
        Difference(
            "parameters",
            seam + number,
            f"From step {seam + number} on the parameters differ, by something that is in no state "
            "that is recorded.",
            "Look for counters and buffers of the script itself that are not in the checkpoint.",
        )
    ]


def _random(expected: Record, got: Record) -> str:
    names = _differing(expected["random"], got["random"])
    return ", ".join(names)


def _random_difference(lost: str, seam: int) -> Difference:
    return Difference(
        "rng",
        seam,
        f"The state of random generators is not restored: {lost}.",
        "Save and restore torch.get_rng_state(), numpy.random.get_state() and random.getstate().",
    )


def _explains_all(found: Sequence[Difference]) -> bool:
    """A lost update, or other weights, come of nothing random."""
    return any(each.part in ("parameters", "update", "optimizer", "buffers") for each in found)


def _place(
    found: Sequence[Difference], pairs: Sequence[tuple[Record, Record]], unbroken: Run
) -> int:
    """Before the data, which random generators draw, unless a batch of the unbroken run was taken
    at another step: then the position in the data is what was lost."""
    other = next((b for a, b in pairs if a["batches"] != b["batches"]), None)
    if other is not None and any(s["batches"] == other["batches"] for s in unbroken.steps):
        return len(found)
    return next((n for n, each in enumerate(found) if each.part == "data"), len(found))


def _notes(differing: int | None) -> Iterable[str]:
    if differing is not None:
        yield (
            f"Two runs of the script from the start differ from step {differing} on: it is not "
            "deterministic. Only the state at the seam, rates and scales are compared."
        )


def _first_difference(a: Sequence[Record], b: Sequence[Record]) -> int | None:
    return _first_difference_of(list(zip(a, b, strict=False)))


def _first_difference_of(pairs: Sequence[tuple[Record, Record]]) -> int | None:
    for number, (a, b) in enumerate(pairs):
        if any(a[kind] != b[kind] for kind in ("parameters", "buffers", "batches")):
            return number
    return None


def _differing(a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    return [name for name in {**a, **b} if a.get(name) != b.get(name)]


def _origin(parameters: Mapping[str, str], steps: Sequence[Record]) -> str:
    for step in steps:
        if step["parameters"] == parameters:
            return (
                " They are the first ones: nothing was loaded."
                if step["done"] == 0
                else f" They are those of step {step['done']}."
            )
    return ""


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NUM_NAMES])
    return f"{shown}, …" if len(names) > _NUM_NAMES else shown


def _numbers(values: Sequence[float] | None) -> str:
    return "none" if values is None else ", ".join(f"{value:.4g}" for value in values)
