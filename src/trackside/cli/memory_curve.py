"""The memory of a script that died for lack of it: a line of text for each of its curves."""

from collections.abc import Iterator

from trackside.cli.chart import sparkline
from trackside.curves.event_reader import Follower
from trackside.curves.machine_curves import FOLDER, with_unit
from trackside.errors import StorageError
from trackside.views.job.evidence import MEMORY

_LABELS = dict(zip(MEMORY, ("Memory of the script", "Memory of the machine"), strict=True))


def memory_curve(uri: str, host: str, *, is_ascii: bool = False) -> Iterator[str]:
    """Of this host, or of all if it is empty; nothing where no figures were stored."""
    follower = Follower(uri)
    try:
        follower.update()
    except StorageError:
        return
    for tag in MEMORY:
        for (run, name), series in sorted(follower.curves.scalars.items()):
            if name != tag or run not in (f"{FOLDER}/{host}", run if not host else ""):
                continue
            drawn = sparkline(series.values, is_ascii=is_ascii)
            most = with_unit(tag, float(series.values.max()))
            where = run.removeprefix(f"{FOLDER}/")
            yield f"{_LABELS[tag]} on {where}: {drawn} at most {most}"
