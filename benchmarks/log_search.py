"""How fast a log of a million lines is opened at its end, read anywhere and searched, as the page
does it: in the folder of a running job, and in the chunks of a finished one. Peers read the file.
"""

import random
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.report import Comparison, Target
from trackside.jobs.records import Record, read_stored, spec_bytes
from trackside.records.journal import Journal
from trackside.records.layout import Home, JobKeys
from trackside.records.log_lines import TimeMark, chunk_name, encode, split_lines
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary
from trackside.storage.locate import locate, locate_object
from trackside.views.logs.log_pages import LogPages
from trackside.views.logs.log_search import Hit, LogSearch
from trackside.views.logs.open_logs import OpenLogs

ROUNDS = 3
"""The best of these counts: the machine's other work only ever makes a program slower."""
CHUNK_BYTES = 1 << 20
PAGE = 500
START = 1_790_000_000.0
PATTERNS = {
    "a text in it": r"loss: nan at step \d+",
    "one of three texts": r"nan at|Traceback|CUDA error",
    "case ignored": r"(?i)LOSS: NAN",
    "no text in it": r"\s[n-z][a-z]n\s[a-z]t\s",
}


def run(quick: bool) -> list[Comparison]:
    num_lines = 100_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as name:
        home = Home(Path(name))
        here = written_log(home, num_lines)
        stored = replace(here, folder=None)
        assert here.folder is not None
        log = here.folder.host("algo-1", 1).log
        found = [_opened(home, here, stored, log, num_lines)]
        found.append(_jumped(home, here, stored, log, num_lines))
        for title, pattern in PATTERNS.items():
            found.append(_searched(home, here, stored, log, num_lines, title, pattern))
        return found


def _opened(home: Home, here: Record, stored: Record, log: Path, num_lines: int) -> Comparison:
    """For the first time, when every line is counted; and again, by the index of a finished job
    that was kept."""

    def page(record: Record, *, is_known: bool) -> Callable[[], object]:
        def opened() -> None:
            if not is_known:
                shutil.rmtree(home.log_indexes, ignore_errors=True)
            LogPages(OpenLogs(home)).page(record, count=PAGE)

        return opened

    def shell() -> None:
        _run(["wc", "-l", str(log)])
        _run(["tail", "-n", str(PAGE), str(log)])

    return Comparison(
        f"Open a log of {num_lines:,} lines at its end: the last {PAGE}, with their number",
        "seconds",
        {
            "trackside": _best(page(here, is_known=False)),
            "trackside, seen before": _best(page(here, is_known=True)),
            "trackside, from storage": _best(page(stored, is_known=False)),
            "trackside, from storage, seen before": _best(page(stored, is_known=True)),
            "wc -l and tail": _best(shell),
        },
        targets=(Target("wc -l and tail", 0.3),),
    )


def _jumped(home: Home, here: Record, stored: Record, log: Path, num_lines: int) -> Comparison:
    places = [random.Random(0).randrange(num_lines - PAGE) for _ in range(10)]

    def page(record: Record) -> Callable[[], object]:
        pages = LogPages(OpenLogs(home))
        pages.page(record)
        return lambda: [pages.page(record, at=f"line:{at}", count=PAGE) for at in places]

    def sed() -> None:
        for at in places:
            _run(["sed", "-n", f"{at},{at + PAGE - 1}p;{at + PAGE}q", str(log)])

    return Comparison(
        f"Read {PAGE} lines at 10 places of an open log of {num_lines:,} lines",
        "seconds",
        {
            "trackside": _best(page(here)),
            "trackside, from storage": _best(page(stored)),
            "sed": _best(sed),
        },
        targets=(Target("sed", 3.0),),
    )


def _searched(
    home: Home, here: Record, stored: Record, log: Path, num_lines: int, title: str, pattern: str
) -> Comparison:
    """The only hit is in the last line; of an open log."""
    open_logs = OpenLogs(home)

    def ours(record: Record) -> Callable[[], object]:
        open_logs.get(record, "algo-1", 1)
        search = LogSearch(open_logs)

        def first() -> None:
            with search.search(record, pattern, most=1) as found:
                hit = next(found)
                assert isinstance(hit, Hit)
                assert hit.line == num_lines

        return first

    def python() -> None:
        compiled = re.compile(pattern)
        with log.open(errors="replace") as file:
            found = next(number for number, line in enumerate(file, 1) if compiled.search(line))
        assert found == num_lines

    def grep() -> None:
        option = "-nPi" if pattern.startswith("(?i)") else "-nP"
        _run(["grep", option, "-m", "1", pattern.removeprefix("(?i)"), str(log)])

    return Comparison(
        f"First hit of an expression in the last of {num_lines:,} lines: {title}",
        "seconds",
        {
            "trackside": _best(ours(here)),
            "trackside, from storage": _best(ours(stored)),
            "Python's re, line by line": _best(python),
            "grep -nP": _best(grep),
        },
        targets=(Target("Python's re, line by line", 1.0),),
    )


def written_log(home: Home, num_lines: int, name: str = "bench") -> Record:
    """A job whose log is in its folder and in storage."""
    spec = JobSpec.from_request(
        {
            "TrainingJobName": name,
            "HyperParameters": {"sagemaker_program": "train.py"},
            "OutputDataConfig": {"S3OutputPath": "s3://out/runs"},
        }
    )
    keys, folder = JobKeys.of(spec), home.job(spec.name)
    folder.root.mkdir(parents=True)
    journal = Journal(folder.journal)
    journal.open()
    for status in ("Downloading", "Training", "Uploading", "Completed"):
        journal.move(Secondary(status))
    contents = {keys.spec: spec_bytes(spec), keys.journal: folder.journal.read_bytes()}
    folder.spec.write_bytes(spec_bytes(spec))
    for key, content in contents.items():
        place = locate_object(key, home=home.root)
        place.store.put(place.key, content)
    rng = random.Random(0)
    lines = [
        b"2026-11-17 12:00:00 INFO trainer: epoch %d step %d/%d loss: %.6f lr: 3.0e-04 %.1f it/s\n"
        % (at // 10_000, at, num_lines, rng.random(), 100 * rng.random())
        for at in range(num_lines - 1)
    ]
    raw = b"".join([*lines, b"WARNING trainer: loss: nan at step %d\n" % num_lines])
    host = folder.host("algo-1", 1)
    host.root.mkdir(parents=True)
    host.log.write_bytes(raw)
    sizes = range(CHUNK_BYTES, len(raw) + CHUNK_BYTES, CHUNK_BYTES)
    marks = [TimeMark(min(size, len(raw)), START + number) for number, size in enumerate(sizes)]
    host.log_times.write_text("".join(f"{mark.size} {mark.time:.3f}\n" for mark in marks))
    _store(raw, marks, f"{keys.logs}/algo-1", home)
    return replace(read_stored(keys, home), folder=folder)


def _store(raw: bytes, marks: list[TimeMark], to: str, home: Home) -> None:
    """As a supervisor does: chunks of whole lines."""
    place = locate(to, home=home.root)
    offset = 0
    block: list[bytes] = []
    for line in [*split_lines(raw), b""]:
        block.append(line)
        if not line or len(block) >= CHUNK_BYTES // 100:
            data = b"".join(block)
            chunk = place.child(chunk_name(1, offset))
            chunk.store.put(chunk.key, encode(data, offset, marks, START))
            offset += len(data)
            block = []


def _run(command: list[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def _best(work: Callable[[], object]) -> float:
    figures = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        figures.append(time.perf_counter() - start)
    return min(figures)
