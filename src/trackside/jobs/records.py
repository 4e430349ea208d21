"""A job's record: its spec and history, read from its folder on this machine or, without one, from
object storage.
"""

import fcntl
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trackside.coordination.host_files import files_of
from trackside.errors import (
    DamagedJob,
    InvalidSpec,
    JobNotFound,
    ObjectNotFound,
    TracksideError,
)
from trackside.files import damaged_files
from trackside.files.json_record import DamagedRecord, parsed_object
from trackside.files.permissions import private_opener
from trackside.jobs.masked_request import masked_environment
from trackside.quick_dataclass import dataclass
from trackside.records import notify_targets
from trackside.records.evaluator_process import all_evaluations, first_evaluations
from trackside.records.finding import RuleKey
from trackside.records.job_updates import with_updates
from trackside.records.journal import History, Journal, fold_lines
from trackside.records.layout import Home, JobFolder, JobKeys
from trackside.records.metric_totals import JobMetrics, from_json, merged
from trackside.records.owners import Submitter
from trackside.records.rule_status import (
    Evaluation,
    RuleStatus,
    parse_evaluations,
    read_evaluations,
)
from trackside.records.spec import JobSpec
from trackside.storage.locate import locate_object
from trackside.storage.unreachable_stores import asked_once

logger = logging.getLogger(__name__)

UNREADABLE = (TracksideError, OSError, ValueError, KeyError, TypeError)
"""What reading a job's files may raise when another process has changed them."""


@dataclass(frozen=True, slots=True)
class Record:
    spec: JobSpec
    """The current spec: with changes since the job was created."""
    history: History
    keys: JobKeys
    """Its location in storage: its output location, or where `reindex` found it."""
    folder: JobFolder | None
    """None when this machine has no folder of it."""
    stopped_rules: frozenset[RuleKey] = frozenset()
    """Rules that were requested to stop."""
    submitter: Submitter = Submitter()
    unreachable: str = ""
    """Why the store could not be asked about a job on other machines: this is what was known here
    last."""


def read_folder(folder: JobFolder) -> Record:
    """`JobNotFound` when there is no such folder."""
    history = Journal(folder.journal).read()
    spec = read_spec(folder)
    now = with_updates(spec, history)
    keys, submitter = JobKeys.of(spec), Submitter.of(history)
    return Record(now.spec, history, keys, folder, now.stopped_rules, submitter)


def read_spec(folder: JobFolder) -> JobSpec:
    """As submitted; `DamagedJob` when it cannot be read."""
    return _spec(folder.root.name, str(folder.spec), folder.spec.read_bytes())


def read_stored(
    keys: JobKeys, home: Home, so_far: History | None = None, owner: str | None = None
) -> Record:
    """`JobNotFound` unless both its files exist: a finished job leaves both.

    `so_far` is for one that may still run elsewhere, without a stored journal. `owner` is the
    index's value: more people can write to storage than to the index.
    """
    try:
        spec = _spec(keys.name, keys.spec, fetch(keys.spec, home))
        try:
            history = read_stored_history(keys, home)
        except ObjectNotFound:
            if so_far is None:
                raise
            history = so_far
        now = with_updates(spec, history)
        submitter = Submitter.of(history)
        if owner is not None:
            submitter = replace(submitter, owner=owner)
        return Record(now.spec, history, keys, None, now.stopped_rules, submitter)
    except ObjectNotFound:
        raise JobNotFound(keys.name) from None


def read_stored_history(keys: JobKeys, home: Home) -> History:
    return folded(keys, fetch(keys.journal, home))


def folded(keys: JobKeys, journal: bytes) -> History:
    try:
        history = fold_lines(journal.split(b"\n")[:-1])
    except DamagedRecord as error:
        what = f"its journal {keys.journal!r} is damaged: {error}"
        raise DamagedJob.of(keys.name, what) from error
    if history.num_damaged:
        damaged_files.say_once(
            keys.journal, f"{damaged_files.counted(history.num_damaged, 'line')} skipped"
        )
    return history


def _spec(name: str, where: str, data: bytes) -> JobSpec:
    try:
        return JobSpec.from_stored(data)
    except (DamagedRecord, InvalidSpec) as error:
        what = f"{where!r} is no specification of a job: {error}"
        raise DamagedJob.of(name, what) from error


def read_metrics(record: Record, home: Home) -> JobMetrics:
    """The totals of the job's metrics; an unreadable file is left out."""
    of_hosts = []
    switched_off: dict[str, str] = {}
    for host in () if record.unreachable else record.spec.hosts:
        try:
            where, data = _metrics_file(record, host, home)
        except (ObjectNotFound, FileNotFoundError):
            continue
        except (TracksideError, OSError) as error:
            logger.warning("job %s: metrics of %s are left out: %s", record.spec.name, host, error)
            continue
        try:
            found = from_json(parsed_object(data))
        except DamagedRecord as error:
            damaged_files.say_once(where, f"{error}; its metrics are left out")
            continue
        of_hosts.append(found.metrics)
        switched_off.update(found.switched_off)
    return JobMetrics(merged(of_hosts), switched_off)


def _metrics_file(record: Record, host: str, home: Home) -> tuple[str, bytes]:
    if record.folder is None:
        uri = f"{record.keys.metrics}/{host}.json"
        return uri, fetch(uri, home)
    path = files_of(record.folder, host, record.history.attempt).metrics / f"{host}.json"
    return str(path), path.read_bytes()


def read_rules(record: Record, home: Home) -> list[Evaluation]:
    """The status of each rule, in the order of the request: initially in progress."""
    if not first_evaluations(record.spec, record.history.created):
        return []
    try:
        if record.folder is not None:
            known = read_evaluations(record.folder.rules.statuses)
        else:
            uri = f"{record.keys.rules}/statuses.json"
            known = parse_evaluations(fetch(uri, home), uri)
    except UNREADABLE:
        known = []
    evaluations = all_evaluations(record.spec, known, record.history.created)
    return [_stopping(each) if each.key in record.stopped_rules else each for each in evaluations]


def _stopping(evaluation: Evaluation) -> Evaluation:
    """Its evaluator has not yet seen the stop request."""
    is_open = evaluation.status is RuleStatus.IN_PROGRESS and not evaluation.is_over
    return replace(evaluation, status=RuleStatus.STOPPING) if is_open else evaluation


def publish_spec(spec: JobSpec, home: Home) -> None:
    """Upload job.json to the output location. Idempotent."""
    location = locate_object(JobKeys.of(spec).spec, home=home.root)
    location.store.put(location.key, _bytes(masked_environment(shareable(spec).to_stored())))


def publish_journal(folder: JobFolder, home: Home) -> None:
    """Upload the journal next to the spec, unless it exists: the supervisor may have died."""
    location = locate_object(JobKeys.of(read_spec(folder)).journal, home=home.root)

    def put(journal: bytes) -> None:
        try:
            is_there = location.store.stat(location.key).size_bytes == len(journal)
        except ObjectNotFound:
            is_there = False
        if not is_there:
            location.store.put(location.key, journal)

    Journal(folder.journal).send(put)


def append_stored_note(keys: JobKeys, home: Home, what: str, **details: Any) -> None:
    """As `Journal.note`, for a job of this home whose folder is gone."""
    location = locate_object(keys.journal, home=home.root)
    with open(home.notes_lock, "wb", opener=private_opener) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        journal = location.store.get(location.key)
        version = folded(keys, journal).version
        note = {"kind": "note", "what": what, **details, "seq": version + 1, "time": time.time()}
        line = json.dumps(note, separators=(",", ":")).encode() + b"\n"
        location.store.put(location.key, journal + line)


def has_source(spec: JobSpec, home: Home) -> bool:
    """Whether the code uploaded with this job is stored; code from elsewhere is not checked."""
    if spec.source != JobKeys.of(spec).source:
        return True
    location = locate_object(spec.source, home=home.root)
    try:
        location.store.stat(location.key)
    except ObjectNotFound:
        return False
    return True


def shareable(spec: JobSpec) -> JobSpec:
    """Without the addresses for notifications."""
    hidden = notify_targets.masked(spec.options.notify)
    return replace(spec, options=replace(spec.options, notify=hidden)) if hidden else spec


def spec_bytes(spec: JobSpec) -> bytes:
    return _bytes(spec.to_stored())


def _bytes(request: Mapping[str, Any]) -> bytes:
    return json.dumps(request, indent=1).encode() + b"\n"


def fetch(uri: str, home: Home) -> bytes:
    """A small object that somebody waits for: `StoreUnreachable` within seconds."""
    location = locate_object(uri, home=home.root, hurried=True)
    with asked_once(location.store):
        return location.store.get(location.key)
