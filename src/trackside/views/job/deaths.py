"""The cause of a job's death, of its description, for people: `records/death.py` has the causes."""

from collections.abc import Iterator, Mapping
from typing import Any

from trackside.records.death import WORDS, Death, MemoryKiller

_KILLERS = {
    MemoryKiller.LIMIT: "killed at the limit of memory that the job asked for",
    MemoryKiller.KERNEL: "killed by the kernel",
    MemoryKiller.ENGINE: "killed by the engine",
}


def death_of(described: Mapping[str, Any]) -> Death | None:
    """None while it runs, if it completed or was stopped, and from an older server."""
    said = described["Trackside"].get("death")
    return None if not said else Death.of_line(said, said.get("attempt", 1))


def earlier_deaths(described: Mapping[str, Any]) -> Iterator[Death]:
    for said in described["Trackside"].get("earlier_deaths") or ():
        if (death := Death.of_line(said, said.get("attempt", 1))) is not None:
            yield death


def death_in_words(death: Death) -> str:
    """`out of memory (killed by the kernel)`."""
    killers = {str(killer): words for killer, words in _KILLERS.items()}
    how = killers.get(death.memory, "")
    return f"{WORDS[death.cause]} ({how})" if how else WORDS[death.cause]


def tail_of(described: Mapping[str, Any], death: Death) -> str:
    """The last lines of the log of the host that died, if they are known here."""
    hosts: Mapping[str, Any] = described["Trackside"].get("hosts") or {}
    return str(hosts.get(death.host, {}).get("tail") or "")
