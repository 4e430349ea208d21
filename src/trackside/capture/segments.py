"""One saved step, as the hook hands it to the writer. The file that holds it: `segment_file.py`."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class StepRecord:
    """What one worker saved of one step. A step may come in several records; readers merge them.

    Tensors are on the CPU, contiguous and owned by the record: nobody changes them afterwards.
    """

    step: int
    """Global step."""
    mode: str
    """`ModeKeys` by name: "TRAIN"."""
    mode_step: int
    time: float
    """Seconds since the epoch."""
    tensors: dict[str, Any] = field(default_factory=dict)
    """Name to torch tensor or numpy array, bfloat16 and float8 included."""
    reduced: tuple[str, ...] = ()
    """Names of the rows of `matrix`."""
    reductions: tuple[str, ...] = ()
    """Its columns, as smdebug stores them: "min", "abs_mean", "l2", "abs_l1"."""
    matrix: Any = None
    """float32 or float64 array [len(reduced), len(reductions)], or None."""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Tensors of which only the shape was asked for."""
    scalars: dict[str, float] = field(default_factory=dict)
    size_bytes: int | None = None
    """Bytes of `tensors` where the maker knows them; counted by the writer otherwise."""
