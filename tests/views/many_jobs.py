"""Jobs that have ended, as their records in storage: quick to make, and read like any other."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.jobs.conftest import make_spec
from trackside.curves.event_file import EventFile
from trackside.jobs.records import spec_bytes
from trackside.records.finding import Finding
from trackside.records.layout import Home, JobKeys, curves_of
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary
from trackside.storage.locate import locate

CREATED = 1_780_000_000.0
CHECKUP = {"RuleConfigurationName": "Checkup", "RuleParameters": {"rule_to_invoke": "Checkup"}}


def ended_job(
    home: Home,
    name: str,
    *,
    created: float = CREATED,
    trained_seconds: float = 60.0,
    as_: Secondary = Secondary.COMPLETED,
    hyper: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
    owner: str = "ci",
    curves: Mapping[tuple[str, str], Sequence[float]] | None = None,
    findings: Sequence[Finding] = (),
    arguments: Sequence[str] = (),
    reason: str = "",
    **members: Any,
) -> JobSpec:
    """`curves` are by run, "" at the top, and tag; `members` are the request's. `jobs.reindex()`
    finds what was made."""
    spec = make_spec(
        name,
        hyper=hyper or {},
        Tags=[{"Key": key, "Value": value} for key, value in (tags or {}).items()],
        Trackside={"Arguments": [*arguments]},
        DebugRuleConfigurations=[CHECKUP] if findings else [],
        **members,
    )
    keys = JobKeys.of(spec)
    put(home, keys.spec, spec_bytes(spec))
    put(home, keys.journal, journal(created, trained_seconds, as_, owner, reason))
    if findings:
        put(home, f"{keys.rules}/findings.jsonl", b"".join(each.to_line() for each in findings))
        put(home, f"{keys.rules}/statuses.json", b"[]")
    for (run, tag), values in (curves or {}).items():
        write_curve(curves_folder(home, spec) / run, tag, values, created)
    return spec


def journal(created: float, seconds: float, as_: Secondary, owner: str, reason: str = "") -> bytes:
    moves = [Secondary.STARTING, Secondary.DOWNLOADING, Secondary.TRAINING]
    ends = [Secondary.UPLOADING, as_] if as_ is Secondary.COMPLETED else [as_]
    events: list[dict[str, Any]] = [
        {"kind": "status", "secondary": move, "time": created + 1} for move in moves
    ]
    events[0]["time"] = created
    events += [{"kind": "status", "secondary": end, "time": created + 1 + seconds} for end in ends]
    if reason:
        events[-1]["reason"] = reason
    events.insert(1, {"kind": "note", "what": "submitted", "owner": owner, "time": created})
    lines = (json.dumps({**event, "seq": seq}) for seq, event in enumerate(events, 1))
    return "".join(f"{line}\n" for line in lines).encode()


def curves_folder(home: Home, spec: JobSpec) -> Path:
    folder = locate(curves_of(spec), home=home.root).local
    assert folder is not None
    return folder


def write_curve(folder: Path, tag: str, values: Sequence[float], began: float = CREATED) -> None:
    file = EventFile(folder)
    for step, value in enumerate(values):
        file.add((tag, value, step, began + step))
    file.close()


def put(home: Home, uri: str, data: bytes) -> None:
    """Without waiting for the disk, as a store would."""
    path = locate(uri, home=home.root).local
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
