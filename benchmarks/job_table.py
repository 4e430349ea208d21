"""The table of 1,000 jobs: how long a keystroke in its filter takes, the first answer of a new
process, and a look at a table in which nothing has changed.

The peer reads the records and curves of all jobs for each answer, as `trackside jobs --where` does.
Jobs are what they leave in storage: request, journal, ten curves of 200 points, findings of some.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from benchmarks.report import Comparison, Target
from trackside.curves.event_file import EventFile
from trackside.errors import BadQuery
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import spec_bytes
from trackside.records.finding import Finding
from trackside.records.layout import Home, JobKeys, curves_of
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary
from trackside.settings import Settings
from trackside.storage.locate import locate
from trackside.views.query.job_search import Search, find
from trackside.views.query.search_conditions import parse_condition
from trackside.views.table.job_table import FRESH_SECONDS, JobTable, TableRequest
from trackside.views.table.row_cache import RowCache

JOBS, CURVES, POINTS = 1000, 10, 200
KEYSTROKE_MS, FIRST_MS = 100.0, 1000.0
BAR, PEER = "the bar", "reading all jobs"
TYPED = "val_loss<0.5 name~/job-[0-9]*7/ -status:failed tag:team-1 lr>=0.3"
CREATED = 1_780_000_000.0
RULE = {"RuleConfigurationName": "Checkup", "RuleParameters": {"rule_to_invoke": "Checkup"}}


def run(quick: bool = False) -> Iterator[Comparison]:
    count = JOBS // 10 if quick else JOBS
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.load({"TRACKSIDE_HOME": folder, "TRACKSIDE_S3": "embedded"})
        jobs = Jobs(settings, {})
        make_jobs(settings.layout, count)
        jobs.reindex()
        yield from _measured(jobs, settings.layout, count)


def _measured(jobs: Jobs, home: Home, count: int) -> Iterator[Comparison]:
    search = Search(conditions=[parse_condition("val_loss<0.5")], limit=100)
    reading = _milliseconds(lambda: find(jobs, search))
    cold = _opened(jobs, home)
    cold_ms = _milliseconds(cold.read_all)
    first_ms = [_milliseconds(lambda: _opened(jobs, home).find()) for _ in range(5)]
    table = _opened(jobs, home)
    table.find()
    typed = [TYPED[:end] for end in range(1, len(TYPED) + 1)]
    strokes = [_milliseconds(partial(_find, table, text)) for text in typed]
    yield Comparison(
        f"A keystroke in the filter of {count:,} jobs, the slowest of {len(typed)}",
        "ms",
        {"trackside": max(strokes), BAR: KEYSTROKE_MS, PEER: reading},
        targets=(Target(BAR, 1.0), Target(PEER, 10.0)),
        notes=(f"Median {statistics.median(strokes):.2f} ms.",),
    )
    yield Comparison(
        f"The first answer of a new process, {count:,} jobs that have ended",
        "ms",
        {"trackside": statistics.median(first_ms), BAR: FIRST_MS, PEER: reading},
        targets=(Target(BAR, 1.0), Target(PEER, 3.0)),
        notes=(f"Without the cache everything is read in {cold_ms / 1000:.1f} s, in a thread.",),
    )
    looks = [_milliseconds(lambda: _looked(table)) for _ in range(5)]
    yield Comparison(
        f"A look for changes, none of {count:,} jobs has any",
        "ms",
        {"trackside": statistics.median(looks), PEER: reading},
    )


def _opened(jobs: Jobs, home: Home) -> JobTable:
    return JobTable(jobs, cache=RowCache(home.job_table), is_read_on_demand=True)


def _find(table: JobTable, text: str) -> None:
    """A text that is not finished may be wrong: that is an answer, too."""
    with suppress(BadQuery):
        table.find(TableRequest(query=text))


def _looked(table: JobTable) -> None:
    table.changed_since(table.revision)


def _milliseconds(act: Callable[[], object]) -> float:
    """Each looks at the index again, as after a pause."""
    time.sleep(FRESH_SECONDS)
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def make_jobs(home: Home, count: int) -> None:
    for number in range(count):
        name = f"job-{number}"
        spec = JobSpec.from_request(
            {
                "TrainingJobName": name,
                "HyperParameters": {
                    "lr": f"{number / count}",
                    "seed": f"{number % 7}",
                    "sagemaker_program": "train.py",
                },
                "OutputDataConfig": {"S3OutputPath": "s3://trackside"},
                "ResourceConfig": {"InstanceCount": 1},
                "Tags": [{"Key": "team", "Value": f"team-{number % 3}"}],
                "DebugRuleConfigurations": [RULE] if number % 10 == 0 else [],
            }
        )
        keys = JobKeys.of(spec)
        _put(home, keys.spec, spec_bytes(spec))
        _put(home, keys.journal, _journal(CREATED + number, failed=number % 9 == 0))
        if number % 10 == 0:
            finding = Finding(rule="LossNotFalling", message="The loss does not fall.", step=3)
            _put(home, f"{keys.rules}/findings.jsonl", finding.to_line())
        _write_curves(locate(curves_of(spec), home=home.root).local, number)


def _journal(created: float, *, failed: bool) -> bytes:
    moves = [Secondary.STARTING, Secondary.DOWNLOADING, Secondary.TRAINING]
    moves += [Secondary.FAILED] if failed else [Secondary.UPLOADING, Secondary.COMPLETED]
    events = [
        {"kind": "status", "secondary": move, "time": created + 60 * at, "seq": at + 1}
        for at, move in enumerate(moves)
    ]
    return "".join(f"{json.dumps(event)}\n" for event in events).encode()


def _write_curves(folder: Path | None, number: int) -> None:
    assert folder is not None
    file = EventFile(folder)
    for step in range(POINTS):
        for curve in range(CURVES):
            tag = "loss/val" if curve == 0 else f"metric-{curve}"
            file.add((tag, (number % 10) / 10 + 1 / (step + 1), step, CREATED + step))
    file.close()


def _put(home: Home, uri: str, data: bytes) -> None:
    path = locate(uri, home=home.root).local
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
