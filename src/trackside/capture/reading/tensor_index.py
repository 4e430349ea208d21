"""Where each tensor's values, reductions and shapes are stored. Independent of file formats."""

from bisect import bisect_left, bisect_right
from collections.abc import ItemsView, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from trackside.capture.dtypes import Array


class Block(Protocol):
    """An array in some file whose first axis is the step; read lazily."""

    def read(self) -> Array:
        """Read-only where that saves a copy."""
        ...

    @property
    def dtype(self) -> str:
        """As it was saved: "bfloat16"."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one step."""
        ...

    @property
    def position(self) -> tuple[str, int]:
        """File and first byte: the order in which many blocks are best read."""
        ...

    def followed_by(self, other: Any, limit_bytes: int) -> "Block | None":
        """Both as one block, this one's steps first; None unless the other directly follows this
        one, is of the same kind, and the result is within that size.
        """
        ...


class Run(NamedTuple):
    """One tensor at some steps, by one worker."""

    worker: str
    steps: Sequence[int]
    """Global steps, ascending, at least one."""
    block: Block


class CubeRun(NamedTuple):
    """Reductions of many tensors at some steps: a block [step, tensor, column]."""

    worker: str
    steps: Sequence[int]
    block: Block
    positions: Mapping[str, int]
    """Tensor to its index on the second axis; one object for all with the same layout."""
    columns: tuple[str, ...]


class ShapeRun(NamedTuple):
    worker: str
    steps: Sequence[int]
    shape: tuple[int, ...]


_R = TypeVar("_R", Run, CubeRun, ShapeRun)


class RunList(Generic[_R]):
    """Runs in the order of arrival. Searches by bisection: stores nothing per step."""

    def __init__(self) -> None:
        self._workers: dict[str, _WorkerRuns[_R]] = {}

    def __iter__(self) -> Iterator[_R]:
        for runs in self._workers.values():
            yield from runs.runs

    @property
    def workers(self) -> list[str]:
        return sorted(self._workers)

    def add(self, run: _R) -> None:
        if run.worker not in self._workers:
            self._workers[run.worker] = _WorkerRuns()
        self._workers[run.worker].add(run)

    def of(self, worker: str) -> list[_R]:
        return self._workers[worker].runs if worker in self._workers else []

    def since(self, worker: str, step: int) -> list[_R]:
        """Those of a worker that may have this step or a later one."""
        return self._workers[worker].since(step) if worker in self._workers else []

    def at(self, step: int, worker: str | None) -> list[tuple[_R, int]]:
        """Each run that has the step, with its row there. Without a worker: the first with it."""
        for each in self.workers if worker is None else [worker]:
            found = self._workers[each].at(step) if each in self._workers else []
            if found:
                return found
        return []

    def workers_at(self, step: int) -> set[str]:
        return {worker for worker, runs in self._workers.items() if runs.at(step)}


class _WorkerRuns(Generic[_R]):
    def __init__(self) -> None:
        self.runs: list[_R] = []
        self._firsts: list[int] = []
        self._is_ordered = True
        """Whether each run begins after the end of the one before: not so after a restart."""

    def add(self, run: _R) -> None:
        if self.runs and run.steps[0] <= self.runs[-1].steps[-1]:
            self._is_ordered = False
        self.runs.append(run)
        self._firsts.append(run.steps[0])

    def since(self, step: int) -> list[_R]:
        if not self._is_ordered:
            return [run for run in self.runs if run.steps[-1] >= step]
        return self.runs[max(0, bisect_right(self._firsts, step) - 1) :]

    def at(self, step: int) -> list[tuple[_R, int]]:
        candidates = self.runs
        if self._is_ordered:
            position = bisect_right(self._firsts, step)
            candidates = self.runs[position - 1 : position] if position else []
        found = []
        for run in candidates:
            if run.steps[0] <= step <= run.steps[-1]:
                row = bisect_left(run.steps, step)
                if run.steps[row] == step:
                    found.append((run, row))
        return found


class TensorRecord:
    """Everything known about one tensor. Of two runs with one step, the later wins."""

    def __init__(self) -> None:
        self.runs = RunList[Run]()
        self.cubes = RunList[CubeRun]()
        self.shapes = RunList[ShapeRun]()

    def has_step(self, step: int) -> bool:
        lists: tuple[_AnyList, ...] = (self.runs, self.cubes, self.shapes)
        return any(each.at(step, None) for each in lists)

    def steps(self) -> set[int]:
        """Global steps at which anything of this tensor was saved."""
        lists: tuple[_AnyList, ...] = (self.runs, self.cubes, self.shapes)
        return {step for runs in lists for run in runs for step in run.steps}

    def workers_at(self, step: int) -> list[str]:
        lists: tuple[_AnyList, ...] = (self.runs, self.cubes, self.shapes)
        return sorted({worker for runs in lists for worker in runs.workers_at(step)})


_AnyList = RunList[Run] | RunList[CubeRun] | RunList[ShapeRun]


class TensorIndex:
    """Name to record."""

    def __init__(self) -> None:
        self.cubes = RunList[CubeRun]()
        """Those of all tensors, each once."""
        self.loose: dict[str, TensorRecord] = {}
        """Tensors of which a value or a shape was saved, not only reductions."""
        self._records: dict[str, TensorRecord] = {}
        self._layouts: dict[tuple[str, ...], Mapping[str, int]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._records

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def items(self) -> ItemsView[str, TensorRecord]:
        return self._records.items()

    def get(self, name: str) -> TensorRecord | None:
        return self._records.get(name)

    def add_run(self, name: str, run: Run) -> None:
        self._loose(name).runs.add(run)

    def positions(self, tensors: tuple[str, ...]) -> Mapping[str, int]:
        """Of tensors in this order."""
        if tensors not in self._layouts:
            self._layouts[tensors] = {name: position for position, name in enumerate(tensors)}
        return self._layouts[tensors]

    def add_cube(self, cube: CubeRun) -> None:
        self.cubes.add(cube)
        for name in cube.positions:
            self._record(name).cubes.add(cube)

    def add_shape(self, name: str, run: ShapeRun) -> None:
        self._loose(name).shapes.add(run)

    def _loose(self, name: str) -> TensorRecord:
        record = self.loose[name] = self._record(name)
        return record

    def _record(self, name: str) -> TensorRecord:
        record = self._records.get(name)
        if record is None:
            record = self._records[name] = TensorRecord()
        return record
