"""How far a training is: by its Trainer's progress bar, or by what it was given and what capture
counts."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trackside.coordination.host_files import files_of
from trackside.errors import TracksideError
from trackside.records.layout import FIRST_HOST, tensors_of

if TYPE_CHECKING:
    from trackside.capture.reading.anatomy import Anatomy
    from trackside.jobs.records import Record
    from trackside.records.layout import Home

_TOTAL = re.compile(
    r"(?:max|num|n|total|train|training)?(?:train|training)?(?:steps|iters|iterations|updates)"
)
"""Of a name in lower case, without dashes and underscores."""
_EPOCHS = re.compile(r"(?:max|num|n|total|train|training)?(?:train|training)?epochs")
_MOST = 10**12


def total_on_bar(record: "Record") -> int | None:
    """Of a job with a folder on this machine whose Trainer draws a bar over its whole training."""
    from trackside.curves.loggers import printed_metrics

    return _printed(record, printed_metrics.total_steps)


def total_on_own_bar(record: "Record") -> int | None:
    """The same by a bar of the script's own: its word counts if nothing else is known."""
    from trackside.curves.loggers import printed_metrics

    return _printed(record, printed_metrics.bar_steps)


def _printed(record: "Record", read: "Callable[[Path], int | None]") -> int | None:
    if record.folder is None:
        return None
    from trackside.curves.loggers import printed_metrics

    lead = files_of(record.folder, FIRST_HOST, record.history.attempt)
    try:
        return read(lead.logger_state(printed_metrics.STATE))
    except TracksideError:  # of a later version
        return None


def total_steps(hyperparameters: Mapping[str, str], arguments: Sequence[str] = ()) -> int | None:
    """None if nothing says so: of epochs it is not known how many steps they have."""
    return _given(_TOTAL, hyperparameters, arguments)


def counted_steps(record: "Record", home: "Home") -> tuple[int, int] | None:
    """What capture has counted, and how many there will be, in the same unit; None unless both are
    known: batches of the only loader that trains, in the epochs that the job was given; or updates,
    of as many steps."""
    given = record.spec.hyperparameters, record.spec.options.arguments
    epochs, steps = _given(_EPOCHS, *given), _given(_TOTAL, *given)
    where = tensors_of(record.spec, record.keys)
    if where is None or (epochs is None and steps is None):
        return None
    from trackside.capture.reading.anatomy import read_anatomy

    try:
        anatomy = read_anatomy(where, home=home.root)
    except (TracksideError, OSError, ValueError):
        return None
    return None if anatomy is None else steps_of(anatomy, epochs, steps)


def steps_of(anatomy: "Anatomy", epochs: int | None, steps: int | None) -> tuple[int, int] | None:
    trained = [each for each in anatomy.loaders if each.num_trained]
    found = None
    if epochs is not None and len(trained) == 1:
        loader = trained[0]
        if loader.num_samples and loader.batch_size:
            whole = epochs * math.ceil(loader.num_samples / loader.batch_size)
            found = loader.num_trained, whole
    elif steps is not None and len(anatomy.optimizers) == 1:
        found = anatomy.num_optimizer_steps, steps
    return found if found is not None and 0 < found[0] <= found[1] else None


def _given(
    pattern: re.Pattern[str], hyperparameters: Mapping[str, str], arguments: Sequence[str]
) -> int | None:
    given = [*hyperparameters.items(), *_options(arguments)]
    found = {name: value for name, value in given if pattern.fullmatch(_plain(name))}
    return next((number for text in found.values() if (number := _whole(text))), None)


def _options(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """`--max-steps 500` and `--max-steps=500`."""
    found = []
    for word, following in zip(arguments, [*arguments, ""][1:], strict=True):
        if word.startswith("--"):
            name, is_joined, value = word[2:].partition("=")
            found.append((name, value if is_joined else following))
    return found


def _plain(name: str) -> str:
    return re.sub("[-_.]", "", name).lower()


def _whole(text: str) -> int | None:
    try:
        number = float(text.strip("\"' ").replace("_", ""))
    except ValueError:
        return None
    return int(number) if 0 < number < _MOST and number.is_integer() else None
