"""The service against moto's server, which answers the same calls and runs nothing: requests per
second and the slowest hundredth, with 10,000 jobs in the store. Also, a page of a listing among
100,000 jobs, and how much later than an embedded run a job of the server begins.

Requests are signed beforehand and sent over plain sockets, so that the client costs next to
nothing. Ours verifies each signature, reads each job from its folder, and has a new one on disk
before it answers; nothing is scheduled meanwhile, as moto does nothing either.
`python -m benchmarks.api HOME` is the server that is measured.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from benchmarks.report import Comparison, Target
from benchmarks.running_server import running_server
from trackside.api.keys import AccessKeys, Rights
from trackside.api.server import listen, make_server
from trackside.api.services import Services
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import spec_bytes
from trackside.records.journal import Journal
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary
from trackside.settings import Settings, environment

MOTO = "moto's server"
CONNECTIONS = 8
_TARGETS = {"sagemaker": "SageMaker", "logs": "Logs_20140328"}
_FLAT = 1.5
"""How many times as long a page may take among a hundred times as many jobs."""
_MOST_LATER_MS = 300
_FILTERS: dict[str, dict[str, Any]] = {
    "the newest": {},
    "by status": {"StatusEquals": "Completed"},
    "by time": {"CreationTimeAfter": 1e9, "SortOrder": "Ascending"},
    "by a part of the name": {"NameContains": "7", "SortBy": "Name"},
}
_MOTO_SERVER = (
    "import logging, sys; logging.disable(logging.CRITICAL)\n"
    "from moto.server import ThreadedMotoServer\n"
    "server = ThreadedMotoServer('127.0.0.1', 0, verbose=False); server.start()\n"
    "print(server.get_host_and_port()[1], flush=True)\n"
    "sys.stdin.read()"
)


class Client:
    """Sends prepared bytes over one connection, again when the server closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def send(self, request: bytes) -> bytes:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(request)
        head, body = self._head()
        lowered = head.lower()
        length = int(lowered.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        while len(body) < length:
            body += self._socket.recv(1 << 16)
        if b"connection: close" in lowered or lowered.startswith(b"http/1.0"):
            self._socket.close()
            self._socket = None
        if head.split(b" ", 2)[1] != b"200":
            raise RuntimeError(f"{head.splitlines()[0]!r}: {body!r}")
        return body

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _head(self) -> tuple[bytes, bytes]:
        assert self._socket is not None
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = self._socket.recv(1 << 16)
            if not chunk:
                raise RuntimeError("the server closed the connection")
            data += chunk
        head, _, body = data.partition(b"\r\n\r\n")
        return head, body


class Measured:
    """A server under measurement, and who one is to it."""

    def __init__(self, port: int, credentials: Credentials) -> None:
        self.port = port
        self._credentials = credentials

    def signed(self, operation: str, given: Mapping[str, Any], service: str = "sagemaker") -> bytes:
        body = json.dumps(given).encode()
        url = f"http://127.0.0.1:{self.port}/"
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"{_TARGETS[service]}.{operation}",
        }
        request = AWSRequest("POST", url, headers=headers, data=body)
        SigV4Auth(self._credentials, service, "us-east-1").add_auth(request)
        lines = [f"{name}: {value}" for name, value in request.headers.items()]
        host = f"Host: 127.0.0.1:{self.port}"
        head = "\r\n".join(["POST / HTTP/1.1", host, *lines, f"Content-Length: {len(body)}"])
        return head.encode() + b"\r\n\r\n" + body


def run(quick: bool = False) -> list[Comparison]:
    count = 1_000 if quick else 10_000
    num_requests = 1_000 if quick else 2_000
    figures: dict[str, dict[str, tuple[float, float]]] = {}
    for name, server in (("trackside", our_server), (MOTO, moto_server)):
        with server(count) as target:
            figures[name] = _measured(target, count, num_requests)
    compared = [
        comparison
        for operation in figures["trackside"]
        for comparison in _compared(operation, count, figures)
    ]
    return [*compared, *listings(quick), first_line(5 if quick else 21)]


def listings(quick: bool) -> list[Comparison]:
    """A page among many jobs, and among few."""
    few, many = 1_000, 10_000 if quick else 100_000
    figures: dict[int, dict[str, float]] = {}
    for count in (few, many):
        with our_server(count) as target:
            figures[count] = {
                title: _median(target, {"MaxResults": 10, **filters})
                for title, filters in _FILTERS.items()
            }
    peer = f"among {few:,} jobs"
    return [
        Comparison(
            f"ListTrainingJobs, a page of ten among {many:,} jobs, {title}",
            "ms",
            {"trackside": figures[many][title], peer: figures[few][title]},
            targets=(Target(peer, 1 / _FLAT),),
            notes=("Medians of requests one after the other.",),
        )
        for title in _FILTERS
    ]


def _median(target: Measured, given: dict[str, Any], num_requests: int = 200) -> float:
    client = Client(target.port)
    taken = []
    for _ in range(num_requests):
        request = target.signed("ListTrainingJobs", given)
        started = time.perf_counter()
        client.send(request)
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken)


def first_line(num_runs: int) -> Comparison:
    """By turns, so that a busy moment of the machine hits both."""
    served, embedded = [], []
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as server:
        jobs = Jobs(server.settings, environment())
        for turn in range(num_runs + 1):
            started = time.time_ns()
            server.create(f"served-{turn}")
            took = server.first_line(f"served-{turn}", started)
            started = time.time_ns()
            jobs.submit(JobSpec.from_request(server.request(f"embedded-{turn}")))
            took_embedded = server.first_line(f"embedded-{turn}", started)
            if turn:  # the first ones fill the caches
                served.append(took)
                embedded.append(took_embedded)
    peer = f"embedded, and {_MOST_LATER_MS} ms"
    figures = {
        "trackside": statistics.median(served),
        "embedded": statistics.median(embedded),
        peer: statistics.median(embedded) + _MOST_LATER_MS,
    }
    return Comparison(
        "From CreateTrainingJob to the script's first line",
        "ms",
        figures,
        targets=(Target(peer, 1.0),),
        notes=(f"Medians of {num_runs} jobs each, on an idle server.",),
    )


@contextmanager
def our_server(count: int) -> Iterator[Measured]:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.load({"TRACKSIDE_HOME": folder})
        _fill(settings, count)
        key, secret = AccessKeys(settings.layout.server.root).create("bench", Rights.ADMIN)
        command = [sys.executable, "-m", "benchmarks.api", folder]
        with _process(command, {"TRACKSIDE_S3": "embedded"}) as port:
            yield Measured(port, Credentials(key.id, secret))


@contextmanager
def moto_server(count: int) -> Iterator[Measured]:
    with _process([sys.executable, "-c", _MOTO_SERVER], {}) as port:
        target = Measured(port, Credentials("test-access-key", "test-secret-key"))
        client = Client(port)
        for number in range(count):
            client.send(target.signed("CreateTrainingJob", _request(f"job-{number:06d}")))
        yield target


def _process(command: Sequence[str], environ: dict[str, str]) -> Any:
    @contextmanager
    def started() -> Iterator[int]:
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environ},
        ) as process:
            assert process.stdout is not None
            yield int(process.stdout.readline())
            process.kill()

    return started()


def _measured(target: Measured, count: int, num_requests: int) -> dict[str, tuple[float, float]]:
    def described(number: int) -> bytes:
        name = f"job-{number * 7919 % count:06d}"
        return target.signed("DescribeTrainingJob", {"TrainingJobName": name})

    def listed(number: int) -> bytes:
        return target.signed("ListTrainingJobs", {"MaxResults": 10})

    def created(number: int) -> bytes:
        return target.signed("CreateTrainingJob", _request(f"new-{number:06d}"))

    return {
        "DescribeTrainingJob": _load(target.port, described, num_requests),
        "ListTrainingJobs, a page of ten": _load(target.port, listed, num_requests),
        "CreateTrainingJob": _load(target.port, created, num_requests // 4),
    }


def _load(port: int, made: Callable[[int], bytes], num_requests: int) -> tuple[float, float]:
    """Requests per second, and the milliseconds that 99 of 100 do not exceed."""
    prepared = [made(number) for number in range(num_requests)]
    Client(port).send(prepared.pop())
    taken: list[float] = []

    def send(share: Sequence[bytes]) -> None:
        client = Client(port)
        for request in share:
            started = time.perf_counter()
            client.send(request)
            taken.append(time.perf_counter() - started)

    shares = [prepared[start::CONNECTIONS] for start in range(CONNECTIONS)]
    threads = [threading.Thread(target=send, args=(share,)) for share in shares]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - started
    assert len(taken) == len(prepared), "a client died"
    return len(taken) / elapsed, statistics.quantiles(taken, n=100)[98] * 1000


def _compared(
    operation: str, count: int, figures: dict[str, dict[str, tuple[float, float]]]
) -> Iterator[Comparison]:
    among = f"{count:,} jobs, {CONNECTIONS} connections"
    rates = {name: measured[operation][0] for name, measured in figures.items()}
    target = (Target(MOTO, 1.0),)
    yield Comparison(f"{operation}, {among}", "requests/s", rates, True, target)
    slowest = {name: measured[operation][1] for name, measured in figures.items()}
    yield Comparison(f"{operation}, p99, {among}", "ms", slowest, False, target)


def _request(name: str) -> dict[str, Any]:
    return {
        "TrainingJobName": name,
        "RoleArn": "arn:aws:iam::000000000000:role/trackside",
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "HyperParameters": {"sagemaker_program": "train.py", "lr": "0.1"},
        "OutputDataConfig": {"S3OutputPath": "s3://out/runs"},
        "ResourceConfig": {
            "InstanceType": "ml.m5.large",
            "InstanceCount": 1,
            "VolumeSizeInGB": 1,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    }


def _fill(settings: Settings, count: int) -> None:
    """Folders of jobs that have ended, as a supervisor leaves them."""
    first = settings.layout.job("job-000000")
    first.root.mkdir(parents=True)
    journal = Journal(first.journal)
    journal.open()
    for move in ("DOWNLOADING", "TRAINING", "UPLOADING", "COMPLETED"):
        journal.move(Secondary[move])
    history = first.journal.read_bytes()
    request = spec_bytes(JobSpec.from_request(_request(first.root.name)))
    for number in range(count):
        folder = settings.layout.job(f"job-{number:06d}")
        folder.root.mkdir(exist_ok=True)
        folder.spec.write_bytes(request.replace(b"job-000000", folder.root.name.encode()))
        folder.journal.write_bytes(history)


def main(home: str) -> None:
    settings = Settings.load({"TRACKSIDE_HOME": home})
    jobs = Jobs(settings, environment(), supervisor_command=("/bin/true",))
    jobs.refresh()
    keys = AccessKeys(settings.layout.server.root)
    services = Services(settings, keys, {}, jobs=jobs)  # not entered: no supervisor is restarted
    listener = listen("127.0.0.1", 0)
    print(listener.getsockname()[1], flush=True)
    with jobs.index_kept_open():
        make_server(services.app).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1])
