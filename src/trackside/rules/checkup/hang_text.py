"""From where each process stands to what hangs, who is to blame, and the sentences for it."""

from collections.abc import Iterable, Sequence

from trackside.capture.reading.hang_files import Collective, Place, Standing, Waiting
from trackside.quick_dataclass import dataclass

STUCK = ("still", "spins", "locked")
GRACE_SECONDS = 10.0
"""After the limit: a process that has written nothing by then, though it would be late as well, is
gone. One that is alive writes at its own limit."""
_IN_GROUP = ("collective", "backward")
_WAITS = {
    "lock": "waits for a lock or an event",
    "queue": "waits for an item of a queue",
    "sleep": "sleeps, again and again or for very long",
    "file lock": "waits for the lock of a file",
    "opening a pipe": "opens a pipe that nobody opens at its other end",
    "pipe": "waits for a pipe",
    "child process": "waits for a program that it has started",
    "disk": "waits for a disk or a network file system",
    "network": "waits for an answer over the network",
    "terminal": "waits for somebody to type",
    "poll": "waits for data from another process or over the network",
    "signal": "waits for a signal",
    "data loader": "waits for the next batch of a data loader",
}
_ADVICE = {
    "collective": "Every rank must call the same collectives in the same order: no collective in a "
    "branch that only some ranks take, the same number of batches on each (`Join`, `drop_last`).",
    "backward": "Every rank must make the same number of steps and use the same parameters: the "
    "same number of batches on each (`Join`, `drop_last`), `find_unused_parameters`.",
    "data loader": "Try num_workers=0: a lock that was held when the workers were forked, or a "
    "resource that they share, blocks them. multiprocessing_context='spawn' avoids the former.",
    "lock": "Look for a lock that is taken twice, or whose holder has ended or waits for this one.",
    "queue": "Look whether whoever fills the queue has ended: put an end marker, or use a timeout.",
    "child process": "A program whose output is not read blocks when the pipe is full: use "
    "communicate(), or send its output to a file. Give it a timeout.",
    "network": "Give the request a timeout, and see whether the other end is there.",
    "disk": "See whether the disk or the network file system answers (df, dmesg).",
    "ended": "See the end of that rank's log: it ended or was killed while others wait for it.",
    "spins": "The loop changes nothing that would end it: look at its condition.",
}


@dataclass(frozen=True, slots=True)
class Hung:
    rank: int | None
    """The one to blame, in a group."""
    place: str
    """Its line."""
    cause: str
    step: int
    quiet: float
    limit: float
    message: str


def advice_for(found: Hung) -> str:
    return _ADVICE.get(found.cause, "Give what is waited for a time limit.")


def hung(standings: Iterable[Standing]) -> Hung | None:
    """None while any process may be alive."""
    all_of_job = _of_training(_newest(standings))
    stuck = [each for each in all_of_job if each.state in STUCK]
    others = [each for each in all_of_job if each.state not in STUCK]
    if not stuck or any(not _is_gone(each, stuck) for each in others):
        return None
    missing = stuck[0].num_workers - len(all_of_job)
    if missing > 0 and not _is_late(stuck):
        return None
    return _named(stuck, others)


def _is_late(stuck: Sequence[Standing]) -> bool:
    return all(each.quiet >= each.limit + GRACE_SECONDS for each in stuck if each.state != "locked")


def _is_gone(other: Standing, stuck: Sequence[Standing]) -> bool:
    if other.state == "ended":
        return True
    return other.state == "runs" and _is_late(stuck) and other.time < max(s.time for s in stuck)


def _newest(standings: Iterable[Standing]) -> list[Standing]:
    """Of several processes that had one rank, one after the other, the last."""
    found: dict[object, Standing] = {}
    for each in sorted(standings, key=lambda each: each.time):
        is_ranked = each.rank is not None and each.num_workers > 1
        found[each.rank if is_ranked else each.process] = each
    return sorted(found.values(), key=lambda each: (each.rank or 0, each.process))


def _of_training(standings: list[Standing]) -> list[Standing]:
    """Those that make steps; before the first step all but those that only wait for a process of
    theirs, as launchers do."""
    training = [each for each in standings if each.steps > 0]
    group = [each for each in standings if each.num_workers > 1]
    if training:
        return [each for each in standings if each in training or each in group]
    parents = {(each.host, each.parent) for each in standings}
    return [each for each in standings if (each.host, each.pid) not in parents]


def _named(stuck: Sequence[Standing], others: Sequence[Standing]) -> Hung:
    outside = [each for each in stuck if each.here.waits not in _IN_GROUP]
    inside = [each for each in stuck if each.here.waits in _IN_GROUP]
    outside.sort(key=lambda each: each.here.waits in ("", "network", "poll"))
    blamed = outside[0] if outside else _odd_one(inside)
    parts = [*_groups(inside), *map(_elsewhere, outside if inside else ()), *map(_ended, others)]
    if not inside:
        parts = [*map(_alone, outside), *map(_ended, others)]
    if inside and not outside:
        parts += _differing(inside)
    is_ended = bool(others) and not outside
    quiet = max(each.quiet for each in stuck)
    limit = max(each.limit for each in stuck)
    since = f"since step {blamed.step}" if blamed.steps else "before the first step"
    return Hung(
        rank=_rank_to_blame(blamed, others),
        place=str(_place(blamed) or ""),
        cause="ended" if is_ended else "spins" if blamed.state == "spins" else blamed.here.waits,
        step=max(each.step for each in stuck),
        quiet=quiet,
        limit=limit,
        message=f"Nothing has happened for {quiet:.0f} s {since}: {'; '.join(parts)}.",
    )


def _rank_to_blame(blamed: Standing, others: Sequence[Standing]) -> int | None:
    if blamed.num_workers < 2 and not others:
        return None
    ended = [each.rank for each in others if each.rank is not None]
    return ended[0] if ended else blamed.rank


def _odd_one(inside: Sequence[Standing]) -> Standing:
    """In another collective than most, or behind them; else the first."""
    keys = [_key(each) for each in inside]
    rarest = min(keys, key=keys.count)
    return inside[keys.index(rarest)]


def _key(standing: Standing) -> tuple[str, str, str]:
    last = _last(standing)
    where = str(_place(standing) or "")
    return (where, *((last.name, str(last.number)) if last else ("", "")))


def _last(standing: Standing) -> Collective | None:
    return standing.collectives[-1] if standing.collectives else None


def _groups(inside: Sequence[Standing]) -> list[str]:
    """Ranks that wait at one line, together."""
    at: dict[str, list[Standing]] = {}
    for each in inside:
        at.setdefault(f"{call_of(each)} at {_place(each)}", []).append(each)
    return [
        f"{ranks_said(group)} {'waits' if len(group) == 1 else 'wait'} in {where}"
        for where, group in at.items()
    ]


def ranks_said(group: Sequence[Standing]) -> str:
    """`rank 3`, `ranks 0-2`."""
    ranks = sorted(each.rank or 0 for each in group)
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    is_row = ranks == list(range(ranks[0], ranks[-1] + 1))
    named = f"{ranks[0]}-{ranks[-1]}" if is_row else ", ".join(map(str, ranks))
    return f"ranks {named}"


def call_of(standing: Standing) -> str:
    """The collective by the name that the script calls, or what backward does."""
    if standing.here.waits == "backward":
        last = _last(standing)
        return "backward" + (f" ({last.name} of gradients)" if last else "")
    calls = [f.function for f in standing.here.frames if "distributed_c10d.py" in f.file]
    return calls[0] if calls else "a collective"


def _elsewhere(standing: Standing) -> str:
    return f"{_who(standing)} never came: it is at {_at(standing)} and {_doing(standing)}"


def _alone(standing: Standing) -> str:
    who = f"{_who(standing)} is" if standing.num_workers > 1 else "the script is"
    return f"{who} at {_at(standing)} and {_doing(standing)}"


def _ended(standing: Standing) -> str:
    if standing.state == "ended":
        return f"{_who(standing)} has ended"
    return f"{_who(standing)} shows no sign of life: it has died"


def _who(standing: Standing) -> str:
    return "the process" if standing.rank is None else f"rank {standing.rank}"


def _at(standing: Standing) -> str:
    place = own_place(standing.here)
    if place is None:
        return "an unknown line"
    return f"{place} in {place.function}" if place.function != "<module>" else str(place)


def _doing(standing: Standing) -> str:
    if standing.state == "spins":
        return "runs round in a loop that changes none of its variables"
    if standing.state == "locked":
        return "holds the interpreter's lock in a call that does not return"
    said = _WAITS.get(standing.here.waits, "waits")
    if worker := _blocked_worker(standing):
        said += f", whose worker is at {own_place(worker)} and {_WAITS.get(worker.waits, 'waits')}"
    elif thread := _thread(standing):
        said += f" (its thread {thread.name} is at {own_place(thread)})"
    return said


def _differing(inside: Sequence[Standing]) -> list[str]:
    lasts = [(each, last) for each in inside if (last := _last(each))]
    kinds = {(last.group, last.number, last.name, last.sizes) for _, last in lasts}
    if len(kinds) < 2:
        return []
    shown = [f"rank {each.rank} {last.name} no. {last.number}" for each, last in lasts[:8]]
    return [f"they are in different collectives ({', '.join(shown)})"]


def _place(standing: Standing) -> Place | None:
    """The line to look at: of a data loader's worker, if that is what blocks."""
    worker = _blocked_worker(standing)
    return own_place(worker or standing.here)


def own_place(waiting: Waiting) -> Place | None:
    return waiting.script or (waiting.frames[-1] if waiting.frames else None)


def _blocked_worker(standing: Standing) -> Waiting | None:
    if standing.here.waits != "data loader":
        return None
    return next((each for each in standing.workers if each.script and _is_inside(each)), None)


def _is_inside(worker: Waiting) -> bool:
    """In code of the user's, not in the loop that waits for the next index."""
    files = [frame.file for frame in worker.frames]
    loops = [at for at, file in enumerate(files) if "_utils/worker.py" in file]
    if not loops or worker.script is None:
        return False
    return worker.script in worker.frames[loops[-1] :]


def _thread(standing: Standing) -> Waiting | None:
    """Another thread of the script's own: it may be the one that is waited for."""
    if standing.here.waits not in ("lock", "queue"):
        return None
    return next((each for each in standing.threads if each.script), None)
