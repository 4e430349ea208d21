"""Publishes findings, statuses and actions to storage while the job runs.

The files are uploaded whole, for they are small; findings also go into the job's curves, as text
summaries that TensorBoard shows.
"""

import logging
import time
from pathlib import Path

from trackside.curves import records, wire
from trackside.curves.chunks import Chunk, Source, by_source
from trackside.curves.event_locations import list_event_files
from trackside.records.finding import Finding, read_findings
from trackside.records.layout import curves_of
from trackside.rules.watched_job import WatchedJob
from trackside.storage.locate import Location, locate, locate_object
from trackside.system.worker import Worker

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
RUN = "rules"
"""The run in TensorBoard that contains the findings."""
_SOURCE = Source("", "events.out.tfevents.rules", RUN)


class Publisher:
    """Owns one thread. An unavailable store delays publishing and blocks nothing else."""

    def __init__(self, job: WatchedJob) -> None:
        rules = job.folder.rules
        self._home = job.settings.home
        self._files = {
            path: f"{job.keys.rules}/{path.name}"
            for path in (rules.findings, rules.statuses, rules.actions)
        }
        self._job = job
        self._outputs = rules.outputs
        self._sent: dict[Path, tuple[int, int]] = {}
        self._curves = FindingCurves(rules.findings, curves_of(job.spec), self._home)
        self._worker = Worker(
            "trackside-rules-publish",
            self._send,
            interval=LOOK_SECONDS,
            delay=LOOK_SECONDS,
            at_end=self._send,
            problem="rules are not published yet",
        )

    def start(self) -> None:
        self._worker.start()

    def close(self, seconds: float) -> None:
        """Upload the rest, for at most this long. Whatever remains then stays on this machine."""
        try:
            self._worker.close(retry_for=seconds)
        except Exception as error:  # noqa: BLE001 - it must not fail the evaluator
            logger.warning("rules are not published: %s", error)

    def _send(self) -> None:
        for path, uri in {**self._files, **self._made()}.items():
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            state = (status.st_mtime_ns, status.st_size)
            if self._sent.get(path) != state:
                place = locate_object(uri, home=self._home)
                place.store.put(place.key, path.read_bytes())
                self._sent[path] = state
        self._curves.send()

    def _made(self) -> dict[Path, str]:
        """Files that rules have produced, and the destination of each."""
        made = {}
        job = self._job
        names = job.output_names
        uris = {
            names[is_profiler, rule.name]: job.keys.under(
                rule.uri or job.spec.output.uri, "rule-output"
            )
            for is_profiler, rule in job.rules
        }
        for path in self._outputs.rglob("*"):
            below = path.relative_to(self._outputs)
            if path.is_file() and not path.name.endswith(".part"):
                made[path] = f"{uris[below.parts[0]]}/{below.as_posix()}"
        return made


class FindingCurves:
    """An event file made from `findings.jsonl` alone: the same findings give the same bytes. So an
    evaluator that takes over uploads exactly the missing ones.
    """

    def __init__(self, findings: Path, uri: str, home: Path) -> None:
        self._findings = findings
        self._place: Location = locate(uri, home=home).child(RUN)
        self._sent: int | None = None
        self._last_check = 0

    def send(self) -> None:
        size = self._findings.stat().st_size if self._findings.exists() else 0
        if size == self._last_check:
            return
        data = encoded(read_findings(self._findings))
        if self._sent is None:
            pieces = by_source(list_event_files(self._place)).get(_SOURCE, [])
            self._sent = max((piece.end for piece in pieces), default=0)
        if len(data) > self._sent:
            chunk = Chunk(_SOURCE, self._sent, time.time_ns() // 1000)
            place = self._place.child(chunk.path)
            place.store.put(place.key, data[self._sent :])
            self._sent = len(data)
        self._last_check = size


def encoded(findings: list[Finding]) -> bytes:
    """An event file with one text summary for each, tagged with its rule's name."""
    if not findings:
        return b""
    events = [wire.event(findings[0].time, None, wire.file_version())]
    for finding in findings:
        value = wire.text_value(f"{finding.configuration}/text_summary", markdown(finding))
        events.append(wire.event(finding.time, finding.step, wire.summary(value)))
    return b"".join(map(records.frame, events))


def markdown(finding: Finding) -> str:
    where = f"`{finding.tensor}`" if finding.tensor else ""
    when = "" if finding.step is None else f"step {finding.step}"
    mode = finding.mode if finding.mode != "GLOBAL" else ""
    place = ", ".join(filter(None, (when, mode, finding.worker, where)))
    head = f"**{finding.rule}**" + (f" ({place})" if place else "")
    return "\n\n".join(filter(None, (f"{head}: {finding.message}", finding.advice)))
