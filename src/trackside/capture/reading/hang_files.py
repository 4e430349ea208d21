"""Reads where processes stand that make no step: `hangs/watch.py` writes it."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from trackside.capture.hangs.stacks import is_of_library, parsed_dump
from trackside.capture.reading.trial_folder import TrialFolder
from trackside.capture.trial_layout import HANGS
from trackside.errors import ObjectNotFound
from trackside.files import damaged_files
from trackside.files.json_record import DamagedRecord, parsed_object
from trackside.quick_dataclass import dataclass

_FILE = re.compile(re.escape(HANGS) + r"([A-Za-z0-9_.-]{1,200})\.(json|stacks|step|fatal|exit)")
_TIMEOUT = re.compile(rb"Timeout \((\d+):(\d+):(\d+)")
_MOST = 4096
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """A line of code that somebody is at."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"


@dataclass(frozen=True, slots=True)
class Collective:
    group: str
    number: int
    is_p2p: bool
    name: str
    sizes: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A thread or a process, by its stack: outermost first."""

    name: str
    waits: str
    script: Place | None
    frames: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """One process, as it last wrote."""

    process: str
    rank: int | None
    num_workers: int
    state: str
    """still, spins, busy, runs or ended; locked: it holds the interpreter's lock."""
    step: int
    steps: int
    time: float
    quiet: float
    limit: float
    here: Waiting
    pid: int
    parent: int
    host: str
    threads: tuple[Waiting, ...] = ()
    workers: tuple[Waiting, ...] = ()
    collectives: tuple[Collective, ...] = ()
    error: str = ""
    """The exception that ended it; `here` is where it was raised."""
    exit_code: int | None = None
    """As its parent has seen it: minus the number of a signal. None if it is 0, or not known."""
    exit_time: float = 0.0


def read_standings(folder: TrialFolder) -> list[Standing]:
    """Of all processes that wrote, by rank. A damaged file is left out."""
    found: dict[str, Standing] = {}
    files = [(file, _FILE.fullmatch(file.name)) for file in folder.list(HANGS)]
    for file, matched in sorted(files, key=lambda each: _order(each[1])):
        if matched is None or not file.size_bytes or file.size_bytes > _MOST_BYTES:
            continue
        try:
            data = folder.read(file.name)
            if matched[2] == "json":
                found.setdefault(matched[1], _parsed(matched[1], parsed_object(data)))
            elif (known := found.get(matched[1])) is not None:
                found[matched[1]] = _MORE[matched[2]](data, known)
            else:
                raise ValueError("its process has written nothing else")
        except (DamagedRecord, LookupError, TypeError, ValueError) as error:
            damaged_files.say_once(file.name, f"{error}; it is left out")
        except (FileNotFoundError, ObjectNotFound):
            continue
        if len(found) >= _MOST:
            break
    return sorted(found.values(), key=lambda each: (each.rank is None, each.rank, each.process))


def _parsed(process: str, content: dict[str, Any]) -> Standing:
    rank = content.get("rank")
    return Standing(
        process,
        None if rank is None else int(rank),
        max(1, int(content.get("num_workers", 1))),
        str(content["state"])[:16],
        int(content.get("step", -1)),
        int(content.get("steps", 0)),
        float(content["time"]),
        float(content.get("quiet", 0.0)),
        float(content.get("limit", 0.0)),
        _waiting({**content, "name": "MainThread"}),
        int(content.get("pid", 0)),
        int(content.get("parent", 0)),
        str(content.get("host", ""))[:200],
        tuple(map(_waiting, content.get("threads", ()))),
        tuple(map(_waiting, content.get("workers", ()))),
        tuple(map(_collective, content.get("collectives", ()))),
        str(content.get("error", ""))[:500],
    )


def _order(matched: re.Match[str] | None) -> int:
    """What a process writes itself first; the rest adds to it."""
    return _KINDS.index(matched[2]) if matched else -1


def _at_step(data: bytes, known: Standing) -> Standing:
    return replace(known, step=int.from_bytes(data[:8], "little", signed=True))


def _fatal(data: bytes, known: Standing) -> Standing:
    """From what faulthandler wrote when a signal ended it."""
    frames = _places(parsed_dump(data.decode(errors="replace").splitlines()))
    return replace(known, here=Waiting("MainThread", "", _own(frames), frames))


def _exited(data: bytes, known: Standing) -> Standing:
    content = parsed_object(data)
    return replace(known, exit_code=int(content["code"]), exit_time=float(content["time"]))


def _locked(data: bytes, known: Standing) -> Standing:
    """From what faulthandler wrote; the rest as the process wrote it when it began."""
    frames = _places(parsed_dump(data.decode(errors="replace").splitlines()))
    here = Waiting("MainThread", "", _own(frames), frames)
    waited = _TIMEOUT.match(data)
    seconds = (
        sum(int(n) * each for n, each in zip(waited.groups(), (3600, 60, 1), strict=True))
        if waited
        else 0
    )
    return replace(known, state="locked", here=here, quiet=seconds, limit=seconds)


def _waiting(content: dict[str, Any]) -> Waiting:
    frames = _places(content.get("frames", ()))
    return Waiting(
        str(content.get("name", ""))[:100], str(content.get("waits", ""))[:40], _own(frames), frames
    )


def _places(frames: Iterable[Any]) -> tuple[Place, ...]:
    return tuple(Place(str(f)[:500], int(line), str(name)[:200]) for f, line, name in frames)


def _own(frames: tuple[Place, ...]) -> Place | None:
    """The innermost of the user's own code."""
    own = [frame for frame in frames if not is_of_library(frame.file)]
    return own[-1] if own else None


def _collective(content: dict[str, Any]) -> Collective:
    return Collective(
        str(content["group"])[:100],
        int(content["number"]),
        bool(content["is_p2p"]),
        str(content["name"])[:100],
        str(content.get("sizes", ""))[:100],
    )


_MORE = {"step": _at_step, "stacks": _locked, "fatal": _fatal, "exit": _exited}
_KINDS = ("json", *_MORE)
