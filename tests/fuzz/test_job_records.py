"""Damaged journals, host records and other files of jobs: each costs itself, and no other job."""

import json
import shutil
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import bounded
from tests.fuzz.mutations import damaged, damaged_json
from tests.fuzz.rounds import rounds
from trackside.errors import DamagedJob
from trackside.jobs.artifacts import artifacts_of
from trackside.jobs.catalog import Catalog
from trackside.jobs.describe import describe
from trackside.jobs.index import Page
from trackside.jobs.machine_resources import MachineResources
from trackside.jobs.queue import Entry
from trackside.jobs.reconcile import observe
from trackside.jobs.records import (
    Record,
    publish_spec,
    read_folder,
    read_metrics,
    read_rules,
    read_stored,
    spec_bytes,
)
from trackside.jobs.start_supervisor import Launcher
from trackside.jobs.update_job import tags_of
from trackside.records import evaluator_process, hosts
from trackside.records.finding import Finding
from trackside.records.host_processes import is_supervised
from trackside.records.hosts import HostRecord, Phase, SyncState
from trackside.records.journal import Journal
from trackside.records.layout import Home, JobFolder, JobKeys
from trackside.records.placed import Placed, PlacedHost
from trackside.records.rule_status import Evaluation, RuleStatus
from trackside.records.spec import JobSpec
from trackside.records.status import FIRST, MOVES, Secondary, can_follow
from trackside.rules.action.action_log import ActionLog
from trackside.rules.findings_file import FindingsFile
from trackside.storage.locate import locate_object
from trackside.system.processes import myself

SPEC = JobSpec.from_request(
    {
        "TrainingJobName": "job-1",
        "HyperParameters": {"sagemaker_program": "train.py"},
        "OutputDataConfig": {"S3OutputPath": "s3://out/runs"},
        "ResourceConfig": {"InstanceCount": 2},
        "Tags": [{"Key": "team", "Value": "vision"}],
        "DebugRuleConfigurations": [
            {"RuleConfigurationName": "all", "RuleParameters": {"rule_to_invoke": "Overfit"}}
        ],
    }
)
FINDING = Finding(rule="Overfit", message="It overfits.", configuration="all", step=3, value=0.5)
NOTES: list[dict[str, Any]] = [
    {"kind": "note", "what": "submitted", "who": "me", "key": "TSAK1"},
    {"kind": "note", "what": "tags", "put": {"a": "b"}, "removed": ["team"]},
    {"kind": "note", "what": "stopped_rule", "is_profiler": False, "configuration": "all"},
    {"kind": "note", "what": "update", "profiler": {"DisableProfiler": True}, "rules": []},
    {"kind": "message", "message": "3 of 9 files"},
]


def course(rng: Random) -> list[dict[str, Any]]:
    """What a job's journal may tell, line by line."""
    state = FIRST
    reported: list[dict[str, Any]] = [{"kind": "status", "secondary": "Starting"}]
    for _ in range(rng.randint(0, 12)):
        moves = [move for move in sorted(MOVES[state.secondary]) if can_follow(state, move)]
        if moves and rng.random() < 0.7:
            move = rng.choice(moves)
            state = state.after(move)
            reported.append({"kind": "status", "secondary": str(move), "attempt": 1})
        else:
            reported.append(rng.choice(NOTES))
    return [{**each, "seq": seq, "time": 1.7e9 + seq} for seq, each in enumerate(reported, 1)]


def written(events: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]


def good_lines_of_a_journal_count(rng: Random, folder: Path) -> None:
    events = course(rng)
    lines = written(events)
    spoilt = rng.sample(range(len(lines)), rng.randint(1, min(3, len(lines))))
    for at in spoilt:
        lines[at] = rng.choice((b"[1]", b"", b"\xff\x00", lines[at][:-2], b'{"kind": "status"}'))
    journal = Journal(folder / "journal.jsonl")
    journal.path.write_bytes(b"".join(line + b"\n" for line in lines))
    good = [event for at, event in enumerate(events) if at not in spoilt]
    if not good:
        return
    history = journal.read()
    assert history.num_damaged == len(spoilt)
    moves = [event["secondary"] for event in good if event["kind"] == "status"]
    assert str(history.state.secondary) == (moves[-1] if moves else "Starting")
    assert len(history.notes) == sum(event["kind"] == "note" for event in good)
    assert journal.try_move(Secondary.FAILED, reason="x").state.is_final
    assert journal.read().state.is_final


def any_journal_is_read_or_refused(rng: Random, folder: Path) -> None:
    lines = written(course(rng))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(lines))
        lines[at] = damaged_json(rng, json.loads(written(course(rng))[0])).replace(b"\n", b" ")
    data = b"".join(line + b"\n" for line in lines)
    for _ in range(rng.choice((0, 1, 2))):
        data = damaged(rng, data)
    journal = Journal(folder / "journal.jsonl")
    journal.path.write_bytes(data)
    try:
        history = journal.read()
    except DamagedJob:
        return
    assert history.created <= 253402300800
    journal.note("seen")
    journal.say("still there")
    assert journal.try_move(Secondary.FAILED).state.is_final
    assert len(journal.read().notes) == len(history.notes) + 1


def a_damaged_file_of_a_job_costs_itself(rng: Random, folder: Path) -> None:
    """Everything that is asked of jobs is answered; the job beside it is as it was."""
    shutil.rmtree(folder, ignore_errors=True)
    home = Home(folder)
    fill(home.job("job-2"), rng)
    job = home.job("job-1")
    fill(job, rng)
    publish_spec(SPEC, home)
    stored = locate_object(JobKeys.of(SPEC).artifacts, home=home.root)
    stored.store.put(stored.key, json.dumps(ARTIFACTS).encode())
    files = [path for path in job.root.rglob("*") if path.is_file()]
    stored_files = [path for path in (folder / "buckets").rglob("*.json") if path.is_file()]
    for path in rng.sample([*files, *stored_files], rng.randint(1, 3)):
        _damage(rng, path)
    with suppress(DamagedJob):
        ask(read_folder(job), home)
    rows = {row.name for row in Catalog(home).select(Page())}
    assert "job-2" in rows
    ask(read_folder(home.job("job-2")), home)
    keys = JobKeys.of(SPEC)
    journal = locate_object(keys.journal, home=home.root)
    journal.store.put(journal.key, job.journal.read_bytes())
    with suppress(DamagedJob):
        ask(read_stored(keys, home), home)


ARTIFACTS = [{"uri": "s3://out/runs/job-1/model.tar.gz", "size_bytes": 5, "sha256": "ab"}]


def fill(job: JobFolder, rng: Random) -> None:
    """A job's folder with every file that is read back."""
    job.root.mkdir(parents=True)
    job.spec.write_bytes(spec_bytes(SPEC))
    job.journal.write_bytes(b"".join(line + b"\n" for line in written(course(rng))))
    for host in SPEC.hosts:
        place = job.host(host, 1)
        place.metrics.mkdir(parents=True)
        total = {"count": 1, "value": 0.5, "time": 1.7e9, "least": 0.5, "most": 0.5}
        metrics = {"metrics": {"loss": total}, "offsets": {"": 5}, "switched_off": {"a": "b"}}
        (place.metrics / f"{host}.json").write_text(json.dumps(metrics))
        syncs = {"/opt/ml/checkpoints": SyncState(to="s3://b", last=1.7e9)}
        hosts.write(place.record, HostRecord(phase=Phase.RUNNING, syncs=syncs))
        place.supervisor.write_text(json.dumps({**asdict(myself()), "nonce": "n"}))
    handle = {"job": SPEC.name, "hosts": {host: asdict(myself()) for host in SPEC.hosts}}
    placed = {host: PlacedHost(nonce="n" * 32, gpus=("0",)) for host in SPEC.hosts}
    Placed(hosts=placed).after_start(SPEC.hosts, handle).write(job)
    job.rules.root.mkdir()
    evaluation = Evaluation(configuration="all", rule="Overfit", status=RuleStatus.ISSUES_FOUND)
    job.rules.statuses.write_text(json.dumps([asdict(evaluation)]))
    FindingsFile(job.rules.findings).add([FINDING])
    log = ActionLog(job.rules.actions)
    log.intend(((False, "all"), "stop"), FINDING)
    log.settle(((False, "all"), "stop"), "", "done")
    evaluator_process.intend(job.rules)
    evaluator_process.write_myself(job.rules, "n")


def ask(record: Record, home: Home) -> None:
    """What clients, a scheduler, a reconciler and an evaluator ask."""
    described = describe(record, read_metrics(record, home), read_rules(record, home))
    assert json.loads(json.dumps(described, default=str))["TrainingJobName"]
    tags_of(record)
    Entry.of(record, MachineResources(4, 16.0, 0))
    list(artifacts_of(record, home))
    if record.folder is None:
        return
    rules = record.folder.rules
    FindingsFile(rules.findings)
    ActionLog(rules.actions)
    evaluator_process.may_live(rules)
    evaluator_process.is_done(rules, record.spec)
    is_supervised(record.folder)
    observe(record.folder, record.history.attempt, Launcher([], {}))


def _damage(rng: Random, path: Path) -> None:
    data = path.read_bytes()
    lines = data.split(b"\n")
    if rng.random() < 0.3 or path.suffix not in (".json", ".jsonl"):
        path.write_bytes(damaged(rng, data))
    elif path.suffix == ".jsonl":
        at = rng.randrange(max(1, len(lines) - 1))
        lines[at] = damaged_json(rng, json.loads(lines[at] or b"{}")).replace(b"\n", b" ")
        path.write_bytes(b"\n".join(lines))
    else:
        path.write_bytes(damaged_json(rng, json.loads(data)))


def a_damaged_host_record_is_one_or_none(rng: Random, folder: Path) -> None:
    sync = SyncState(to="s3://b/c", last=1.7e9, pending_files=2, error="e")
    record = HostRecord(phase=Phase.ENDED, exit_code=-15, failure="no", syncs={"/opt/ml": sync})
    path = folder / "host.json"
    path.write_bytes(damaged_json(rng, asdict(record)))
    read = hosts.read(path)
    if read is not None:
        hosts.write(path, read)
        again = hosts.read(path)
        assert str(again) == str(read)


def test_good_lines_of_a_journal_count():
    bounded.play(good_lines_of_a_journal_count, rounds(200))


def test_any_journal_is_read_or_refused():
    bounded.play(any_journal_is_read_or_refused, rounds(200))


def test_a_damaged_host_record_is_one_or_none():
    bounded.play(a_damaged_host_record_is_one_or_none, rounds(400))


def test_a_damaged_file_of_a_job_costs_itself(monkeypatch):
    monkeypatch.setenv("TRACKSIDE_S3", "embedded")
    bounded.play(a_damaged_file_of_a_job_costs_itself, rounds(20))
