"""The fence of a job whose hosts share nothing: only the newest group publishes final names.

An epoch is the number of a group of hosts among those placed for the job. Whoever places one takes
the next number in `epoch.json` by compare-and-swap.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from trackside.errors import EpochOver, ObjectChanged, ObjectNotFound
from trackside.files.json_record import numbered, numbered_record, parsed_object
from trackside.quick_dataclass import dataclass
from trackside.storage.locate import Location
from trackside.storage.store import NOTHING, Entry, up_to

_TRIES = 100


@dataclass(frozen=True, slots=True)
class Epoch:
    epoch: int
    nonce: str = ""
    """Of who took it."""


def take(place: Location, nonce: str, *, is_first: bool = False) -> Epoch:
    """The next number, which nobody else has: `place` is the job's `epoch.json`.

    May be repeated with the same nonce when it is unknown whether it succeeded. `is_first` if there
    is probably none yet: then it is taken without a look, and looked at where that fails.
    """
    store = place.store
    has_conditions = store.most_conditional_bytes != 0
    for number in range(_TRIES):
        is_guess = number == 0 and is_first and has_conditions
        etag, found = (NOTHING, Epoch(0)) if is_guess else _read(place)
        if found.nonce == nonce:
            return found  # ours: only the response was lost
        mine = Epoch(found.epoch + 1, nonce)
        # A store without conditions takes what comes last: another's number is seen as newer.
        condition = etag if has_conditions else None
        try:
            store.put(place.key, json.dumps(numbered(mine)).encode(), replaces=condition)
            return mine
        except ObjectChanged:
            continue
    raise ObjectChanged(f"{place.uri!r} changes all the time. Place the job again later.")


def current(place: Location) -> Epoch:
    """Number 0 before any group was placed."""
    return _read(place)[1]


@dataclass(frozen=True, slots=True)
class Fence:
    """The right of one epoch to publish. Its methods raise `EpochOver` once that is lost."""

    place: Location
    epoch: int

    def check(self) -> None:
        newest = current(self.place).epoch
        if newest != self.epoch:
            what = f"group {newest} has taken over" if newest else "the job was deleted"
            raise EpochOver(
                f"This host is of group {self.epoch} of its job, and {what} ({self.place.uri}). "
                "Nothing more is published from here; its files stay on this disk."
            )

    def put(self, target: Location, content: Callable[[], Iterable[bytes]]) -> Entry:
        """Store an object of the job's result; a stale group's put never replaces a newer one's.

        Between a check of the epoch and the put, a newer group may begin and publish: then the
        object is no longer the one that was there before the check, and the put is refused.
        `content` is called again for another try.
        """
        for _ in range(_TRIES):
            etag = _etag(target)
            self.check()
            try:
                return self._put(target, etag, content())
            except ObjectChanged:
                continue
        raise ObjectChanged(f"{target.uri!r} changes all the time. Try again later.")

    def _put(self, target: Location, etag: str, chunks: Iterable[bytes]) -> Entry:
        store, most = target.store, target.store.most_conditional_bytes
        if most is None:
            return store.put(target.key, chunks, replaces=etag)
        rest = iter(chunks)
        head = [*up_to(rest, most)]
        if most and sum(map(len, head)) <= most:
            return store.put(target.key, b"".join(head), replaces=etag)
        return store.put(target.key, self._checked_at_end(chain(head, rest)))

    def _checked_at_end(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """For stores that cannot do better: between this and the end of the put, another group's
        object may appear, and is lost."""
        yield from chunks
        self.check()


def _read(place: Location) -> tuple[str, Epoch]:
    for _ in range(_TRIES):
        try:
            found = place.store.get_newer(place.key, None)
        except ObjectNotFound:
            return NOTHING, Epoch(0)
        except ObjectChanged:
            continue
        assert found is not None, "nothing was known before"
        return found[1] or NOTHING, numbered_record(Epoch, parsed_object(found[0]))
    raise ObjectChanged(f"{place.uri!r} changes all the time. Try again later.")


def _etag(place: Location) -> str:
    try:
        return place.store.stat(place.key).etag or NOTHING
    except ObjectNotFound:
        return NOTHING
