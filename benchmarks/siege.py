"""A server under attack: idle connections, endless headers, large unsigned bodies and searches
through a long log, all at once, while another key requests a job. Measures how long that takes, how
much memory the server uses, and how each attack ended.

`python -m benchmarks.siege PORT KEY SECRET SECONDS` is the attacker, in a process of its own. It
and the server share the cores.
"""

import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from botocore.credentials import Credentials

from benchmarks.api import Client, Measured
from benchmarks.report import Comparison, Target
from benchmarks.running_server import RunningServer, running_server
from trackside.api.keys import AccessKeys, Rights
from trackside.jobs.records import spec_bytes
from trackside.records.journal import Journal
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary

NUM_SILENT, NUM_HEADERS, NUM_BODIES, NUM_SEARCHES = 300, 8, 40, 16
NUM_EVENTS = 400_000
MOST_MS, MOST_MB = 500.0, 400.0
BODY_BYTES = 10_000_000
_JOB = "besieged"
_GROUP = "/aws/sagemaker/TrainingJobs"
_PATTERNS = ("loss -epoch", "nothing-like-this", "?nan ?inf", "{ $.loss > 3 }")
"""The first has to read every line, and none ever matches."""
_PAUSE_SECONDS = 0.005


def run(quick: bool = False) -> list[Comparison]:
    seconds = 5.0 if quick else 20.0
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as server:
        _write_job(server, NUM_EVENTS // 10 if quick else NUM_EVENTS)
        keys = AccessKeys(server.settings.layout.server.root)
        (key, secret), (other, hidden) = (
            keys.create(label, Rights.ADMIN) for label in ("client", "searcher")
        )
        port = int(server.client.meta.endpoint_url.rpartition(":")[2])
        target = Measured(port, Credentials(key.id, secret))
        quiet = _response_seconds(target, seconds / 2)
        with _attack(port, other.id, hidden, seconds + 4) as attackers, _memory(server) as highest:
            time.sleep(2.0)  # until all are there
            taken = _response_seconds(target, seconds)
            outcomes = json.loads(attackers())
    return _figures(quiet, taken, max(highest), outcomes)


def _figures(
    quiet: list[float], taken: list[float], memory_mb: float, outcomes: Mapping[str, Any]
) -> list[Comparison]:
    notes = (
        f"{len(taken):,} calls, half of them on new connections; p50 {_percentile(taken, 50):.1f} "
        f"ms. Before the siege: p50 {_percentile(quiet, 50):.1f} ms, p99 "
        f"{_percentile(quiet, 99):.1f} ms.",
        *(
            f"- {who}: {', '.join(f'{what} {n}' for what, n in outcomes[who].items())}"
            for who in outcomes
        ),
    )
    p99 = _percentile(taken, 99)
    return [
        Comparison(
            "DescribeTrainingJob of a server under siege, p99",
            "ms",
            {"trackside": p99, "the limit": MOST_MS, "before the siege": _percentile(quiet, 99)},
            targets=(Target("the limit", 1.0),),
            notes=notes,
        ),
        Comparison(
            "Most memory of a server under siege",
            "MB",
            {"trackside": memory_mb, "the limit": MOST_MB},
            targets=(Target("the limit", 1.0),),
        ),
    ]


def _percentile(taken: list[float], percent: int) -> float:
    return statistics.quantiles(taken, n=100)[percent - 1]


def _response_seconds(target: Measured, seconds: float) -> list[float]:
    """Milliseconds of each call: by turns on one connection, and on a new one."""
    request = target.signed("DescribeTrainingJob", {"TrainingJobName": _JOB})
    kept, taken = Client(target.port), []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for client in (kept, Client(target.port)):
            started = time.perf_counter()
            client.send(request)
            taken.append((time.perf_counter() - started) * 1000)
            if client is not kept:
                client.close()
            time.sleep(_PAUSE_SECONDS)
    return taken


@contextmanager
def _attack(port: int, key: str, secret: str, seconds: float) -> Iterator[Callable[[], str]]:
    """Returns its output when it has ended."""
    command = [sys.executable, "-m", "benchmarks.siege", str(port), key, secret, str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield lambda: process.communicate(timeout=120)[0]
        finally:
            process.kill()


@contextmanager
def _memory(server: RunningServer) -> Iterator[list[float]]:
    """Megabytes, sampled repeatedly."""
    seen, ending = [server.resident_mb()], threading.Event()

    def sample() -> None:
        while not ending.wait(0.1):
            with suppress(OSError):
                seen.append(server.resident_mb())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield seen
    finally:
        ending.set()
        thread.join()


def _write_job(server: RunningServer, num_events: int) -> None:
    """One that has ended, with a long log."""
    folder = server.settings.layout.job(_JOB)
    folder.root.mkdir(parents=True)
    folder.spec.write_bytes(spec_bytes(JobSpec.from_request(server.request(_JOB))))
    journal = Journal(folder.journal)
    journal.open()
    for move in ("DOWNLOADING", "TRAINING", "UPLOADING", "COMPLETED"):
        journal.move(Secondary[move])
    place = folder.host("algo-1", 1)
    place.root.mkdir(parents=True)
    started = journal.read().created
    with place.log.open("wb") as log, place.log_times.open("w") as times:
        for number in range(num_events):
            log.write(b"epoch %d step %d loss 0.123 lr 1e-3\n" % (number // 1000, number))
            if number % 100 == 99:
                times.write(f"{log.tell()} {started + number * 1e-9:.3f}\n")


class Attackers:
    """Reconnect whenever they are closed. `outcomes` counts what became of them."""

    def __init__(self, port: int, key: str, secret: str, seconds: float) -> None:
        self._port = port
        self._target = Measured(port, Credentials(key, secret))
        self._deadline = time.monotonic() + seconds
        self.outcomes: dict[str, Counter[str]] = {}

    async def attack(self) -> None:
        crowds = (
            (NUM_SILENT, "silent connections", self._silent),
            (NUM_HEADERS // 2, "endless header lines", self._header_lines),
            (NUM_HEADERS // 2, "endless header values", self._header_value),
            (NUM_BODIES, "unsigned bodies of 10 MB", self._body),
            (NUM_SEARCHES, f"FilterLogEvents over {NUM_EVENTS:,} events", self._search),
        )
        await asyncio.gather(
            *(self._again(who, one) for count, who, one in crowds for _ in range(count))
        )

    async def _again(self, who: str, once: Callable[[], Any]) -> None:
        outcomes = self.outcomes.setdefault(who, Counter())
        while (left := self._deadline - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    outcomes[await once()] += 1
            except TimeoutError:
                outcomes["held to the end"] += 1
            except OSError:
                outcomes["cut off"] += 1
            await asyncio.sleep(0.05)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)

    async def _silent(self) -> str:
        reader, writer = await self._connected()
        try:
            return "answered" if await reader.read(1) else "closed"
        finally:
            writer.close()

    async def _header_lines(self) -> str:
        line = b"".join(b"x-%d: y\r\n" % number for number in range(4000))
        return await self._poured(b"GET / HTTP/1.1\r\nhost: x\r\n", line)

    async def _header_value(self) -> str:
        return await self._poured(b"GET / HTTP/1.1\r\nhost: x\r\nx: ", b"y" * 65536)

    async def _poured(self, head: bytes, piece: bytes) -> str:
        reader, writer = await self._connected()
        try:
            writer.write(head)
            while not reader.at_eof():
                writer.write(piece)
                await writer.drain()
            return "closed"
        finally:
            writer.close()

    async def _body(self) -> str:
        reader, writer = await self._connected()
        try:
            head = "POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: SageMaker.ListTrainingJobs\r\n"
            writer.write(f"{head}content-length: {BODY_BYTES}\r\n\r\n".encode())
            for _ in range(BODY_BYTES // 100_000):
                writer.write(bytes(100_000))
                await writer.drain()
            return (await _answer(reader))[0]
        finally:
            writer.close()

    async def _search(self) -> str:
        """All pages of one search."""
        pattern = random.choice(_PATTERNS)
        reader, writer = await self._connected()
        token: dict[str, str] = {}
        try:
            while True:
                given = {"logGroupName": _GROUP, "filterPattern": pattern, **token}
                writer.write(self._target.signed("FilterLogEvents", given, "logs"))
                status, body = await _answer(reader)
                if status != "200":
                    return status
                answer = json.loads(body)
                if "nextToken" not in answer:
                    return "searches done"
                self.outcomes.setdefault("their pages", Counter())["led on"] += 1
                token = {"nextToken": answer["nextToken"]}
        finally:
            writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """The status and the body; `closed` when none came."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return "closed", b""
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    return head.split(b" ", 2)[1].decode(), await reader.readexactly(length)


def main(port: str, key: str, secret: str, seconds: str) -> None:
    attackers = Attackers(int(port), key, secret, float(seconds))
    asyncio.run(attackers.attack())
    print(json.dumps(attackers.outcomes))


if __name__ == "__main__":
    main(*sys.argv[1:])
