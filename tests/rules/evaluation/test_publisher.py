"""What rules say, where it lasts."""

import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from tests.rules.conftest import MakeJob
from tests.wait import until
from trackside.records.evaluator_process import first_evaluations
from trackside.records.finding import Finding
from trackside.records.rule_status import write_evaluations
from trackside.rules.evaluation.publisher import FindingCurves, Publisher, encoded
from trackside.rules.findings_file import FindingsFile
from trackside.rules.watched_job import WatchedJob


def finding(step: int) -> Finding:
    return Finding(rule="R", configuration="C", message="it is so", step=step, time=1e9 + step)


def stored(job: WatchedJob, path: str) -> bytes:
    return (job.settings.layout.buckets / "bucket/out/job-1" / path).read_bytes()


def test_files_are_sent_while_the_job_runs_and_again_when_they_change(make_job: MakeJob):
    job = make_job()
    findings = FindingsFile(job.folder.rules.findings)
    findings.add([finding(1)])
    publisher = Publisher(job)
    publisher.start()
    where = job.settings.layout.buckets / "bucket/out/job-1/trackside/rules/findings.jsonl"
    until(lambda: where.exists() and where.read_bytes() == finding(1).to_line())
    findings.add([finding(2)])
    until(lambda: where.read_bytes().count(b"\n") == 2)
    publisher.close(600)


def test_a_store_that_is_away_gets_it_all_when_it_is_back(
    make_job: MakeJob, caplog: pytest.LogCaptureFixture
):
    job = make_job()
    in_the_way = job.settings.layout.buckets / "bucket"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.touch()
    FindingsFile(job.folder.rules.findings).add([finding(1)])
    write_evaluations(job.folder.rules.statuses, first_evaluations(job.spec, 1.0))
    publisher = Publisher(job)
    publisher.start()
    until(lambda: "rules are not published yet" in caplog.text)
    in_the_way.unlink()
    publisher.close(600)
    assert stored(job, "trackside/rules/findings.jsonl") == finding(1).to_line()
    assert stored(job, "trackside/rules/statuses.json")


def test_findings_are_sent_to_tensorboard_once_whichever_process_sends_them(make_job: MakeJob):
    job = make_job()
    path = job.folder.rules.findings
    uri = str(job.settings.layout.buckets / "curves")
    for step in (1, 2, 3):
        FindingsFile(path).add([finding(step)])
        FindingCurves(path, uri, job.settings.home).send()
    pieces = sorted((job.settings.layout.buckets / "curves/rules").iterdir())
    assert len(pieces) == 3
    whole = b"".join(piece.read_bytes() for piece in pieces)
    assert whole == encoded([finding(step) for step in (1, 2, 3)])
    joined = job.folder.rules.root / "events.out.tfevents.joined"
    joined.write_bytes(whole)
    events = list(EventFileLoader(str(joined)).Load())
    texts = [(e.step, v.tag) for e in events for v in e.summary.value]
    assert texts == [(step, "C/text_summary") for step in (1, 2, 3)]
