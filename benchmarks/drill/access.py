"""Who gets in, and who learns what (cases 40, 42)."""

import http.client
import json
import os
import socket
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from benchmarks.drill.case import Broke, Case, Result, check, held, partly
from benchmarks.drill.ground import Ground
from benchmarks.drill.job import DrillJob
from benchmarks.drill.server import Server
from trackside.api.keys import AccessKey, AccessKeys, Rights
from trackside.system import process_table

_BODY = b"{}"
_TARGET = "SageMaker.ListTrainingJobs"
_CODES = {
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}


def _signed(server: Server, **changes: Any) -> AWSRequest:
    """By botocore's own signer; `changes` are who signs, and when."""
    request = AWSRequest(
        "POST",
        f"{server.url}/",
        data=_BODY,
        headers={"Host": urlsplit(server.url).netloc, "X-Amz-Target": _TARGET},
    )
    key, secret = changes.get("key", server.key.id), changes.get("secret", server.secret)
    signer = changes.get("signer", SigV4Auth)(Credentials(key, secret), "sagemaker", "us-east-1")
    if "after" in changes:
        _sign_at(signer, request, datetime.now(UTC) + changes["after"])
    else:
        signer.add_auth(request)
    return request


def _sign_at(signer: Any, request: AWSRequest, moment: datetime) -> None:
    """As `add_auth` does, at another time than now."""
    request.context["timestamp"] = f"{moment:%Y%m%dT%H%M%SZ}"
    signer._modify_request_before_signing(request)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    signer._inject_signature_to_request(request, signer.signature(text, request))


def _send(server: Server, request: AWSRequest, body: bytes = _BODY) -> tuple[int, str]:
    address = urlsplit(request.url)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        path = f"{address.path}?{address.query}" if address.query else address.path
        headers = {name: str(value) for name, value in request.headers.items()}
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    finally:
        connection.close()
    try:
        code = str(json.loads(text).get("__type", "")).rpartition("#")[2]
    except ValueError:
        code = text[:80]
    return answer.status, code


def _altered(server: Server, change: Callable[[AWSRequest], object]) -> AWSRequest:
    request = _signed(server)
    change(request)
    return request


def bad_signatures(ground: Ground) -> Result:
    """A good one is let in; every other is refused by AWS's own code."""
    server = ground.server()
    good = _send(server, _signed(server))
    check(good[0] == 200, f"a good signature got {good}")
    unsigned = AWSRequest("POST", f"{server.url}/", data=_BODY, headers={"X-Amz-Target": _TARGET})
    requests = {
        "wrong secret": (_signed(server, secret="wrong"), _BODY),
        "unknown key": (_signed(server, key="TSUNKNOWN"), _BODY),
        "replayed after 16 min": (_signed(server, after=timedelta(minutes=-16)), _BODY),
        "dated 16 min ahead": (_signed(server, after=timedelta(minutes=16)), _BODY),
        "altered body": (_signed(server), b'{"MaxResults": 1}'),
        "altered header": (_altered(server, _with("X-Amz-Target", "SageMaker.X")), _BODY),
        "unsigned header": (_altered(server, _with("X-Amz-Security-Token", "t")), _BODY),
        "cut signature": (_altered(server, _cut), _BODY),
        "no signature": (unsigned, _BODY),
        "in the query, old": (
            _signed(server, signer=SigV4QueryAuth, after=timedelta(days=-8)),
            _BODY,
        ),
        "in the query, wrong secret": (
            _signed(server, signer=SigV4QueryAuth, secret="wrong"),
            _BODY,
        ),
        "in the query, other body": (_signed(server, signer=SigV4QueryAuth), b'{"MaxResults": 1}'),
    }
    for name, (request, body) in requests.items():
        status, code = _send(server, request, body)
        check(status in (400, 403) and code in _CODES, f"{name}: {status} {code}")
    return Result(
        held("").verdict,
        f"{len(requests)} bad signatures refused with AWS's codes, a good one taken",
        "that texts are compared in constant time cannot be seen from outside",
    )


def _with(name: str, value: str) -> Callable[[AWSRequest], object]:
    def change(request: AWSRequest) -> None:
        del request.headers[name]
        request.headers[name] = value

    return change


def _cut(request: AWSRequest) -> None:
    text = str(request.headers["Authorization"])
    del request.headers["Authorization"]
    request.headers["Authorization"] = text[:-4] + "0000"


_SECRET = "CANARY-51c0ffee"
_WAITS = """
import os, socket
assert os.environ["DB_PASSWORD"]
go = socket.create_connection(("127.0.0.1", int(os.environ["GO"])))
print("READY", flush=True)
go.recv(1)
raise RuntimeError("cannot log in with " + os.environ["DB_PASSWORD"])
"""
_PRIES = f"""
import glob
found = 0
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        found += {_SECRET.encode()!r} in open(path, "rb").read()
    except OSError:
        pass
print("PRIED", found, flush=True)
"""


def secrets_stay_secret(ground: Ground) -> Result:
    """What a job is given as a password is seen by the job and its owner, and by nobody else.

    The scripts of two owners run as two users, where the machine allows it.
    """
    server, obstacle = _with_two_users(ground)
    owner = server.key, server.secret
    listener = ground.closing.enter_context(socket.create_server(("127.0.0.1", 0)))
    # As another user the script cannot see the case's folder.
    go = ("--environment", f"GO={listener.getsockname()[1]}")
    job = ground.submit(_WAITS, *go, "--environment", f"DB_PASSWORD={_SECRET}", at=server)
    job.wait_for_line("READY")
    listed = [
        pid
        for pid in process_table.pids()
        if pid != os.getpid() and _SECRET.encode() in process_table.read(f"/proc/{pid}/cmdline")
    ]
    check(not listed, f"`ps` shows the secret in {len(listed)} processes")
    server.key, server.secret = _key(server, "neighbour", Rights.SUBMIT)
    neighbour = ground.submit(_PRIES, at=server)
    neighbour.wait_over()
    pried = b"PRIED 0" not in neighbour.raw_log()
    check(obstacle or not pried, "the script of another user read the secret in /proc")
    server.key, server.secret = owner
    listener.accept()[0].close()
    job.wait_over()
    check(job.status == "Failed", f"the job is {job.status}")
    seen = _places_with_secret(ground, server, job)
    check(not seen, f"the secret is in {', '.join(seen)}")
    _listens_to_nobody_else(ground)
    figure = (
        "not in ps, our own logs, journal, failure reason, report, the request in storage, nor in "
        "what the server tells others than owner and admin; "
        "default address 127.0.0.1, others need keys"
    )
    if obstacle:
        return partly(figure, f"what another job's script sees in /proc: {obstacle}")
    return Result(
        held("").verdict,
        f"{figure}; with --run-as, not in /proc for another owner's script",
        "a script's own log has what it prints, the text of its own errors among it",
    )


def _with_two_users(ground: Ground) -> tuple[Server, str]:
    """And what keeps this machine from it; there are two on every Linux."""
    if os.geteuid() != 0:
        return ground.server(), "--run-as needs root"
    variables = {} if _is_for_all(sys.executable) else {"TRACKSIDE_PYTHON": "/usr/bin/python3"}
    options = ("--run-as", "neighbour=nobody", "--run-as", "daemon")
    try:
        return ground.server(*options, **variables), ""
    except Broke as error:
        return ground.server(), str(error)


def _is_for_all(program: str) -> bool:
    path = Path(program).resolve()
    return all(each.stat().st_mode & 0o005 == 0o005 for each in (path, *path.parents))


def _key(server: Server, label: str, rights: Rights) -> tuple[AccessKey, str]:
    return AccessKeys(server.home.server.root).create(label, rights)


def _places_with_secret(ground: Ground, server: Server, job: DrillJob) -> list[str]:
    """By what its owner is told, it can be found; a reader finds it nowhere."""
    own = server.client("sagemaker").describe_training_job(TrainingJobName=job.name)
    check(own["Environment"]["DB_PASSWORD"] == _SECRET, "the owner is not told what was given")
    server.key, server.secret = _key(server, "reader", Rights.READ)
    described = server.client("sagemaker").describe_training_job(TrainingJobName=job.name)
    found = server.client("sagemaker").search(Resource="TrainingJob")["Results"]
    commands = {
        "`show`": ("show", job.name),
        "`jobs`": ("jobs", "--json"),
        "`report`": ("report", job.name, "-o", "report.html"),
    }
    outputs = {
        name: ground.trackside(*words, at=server, expect=None).stdout
        for name, words in commands.items()
    }
    texts = {
        "the server's log": server.log.read_bytes(),
        "the journal": job.folder.journal.read_bytes(),
        "the supervisor's log": job.host().supervisor_log.read_bytes(),
        "the failure reason": str(described.get("FailureReason")).encode(),
        "DescribeTrainingJob": json.dumps(described, default=str).encode(),
        "Search": json.dumps(found, default=str).encode(),
        **_stored(server, described["OutputDataConfig"]["S3OutputPath"]),
        "the report": (ground.folder / "report.html").read_bytes(),
        **outputs,
    }
    return [name for name, text in texts.items() if _SECRET.encode() in text]


def _stored(server: Server, output: str) -> dict[str, bytes]:
    """All objects that the job left, as any reader gets them, but for what it printed itself."""
    client = server.client("s3")
    place = urlsplit(output)
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=place.netloc, Prefix=place.path.lstrip("/")
    )
    keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
    check(any(key.endswith("/job.json") for key in keys), "the job's request is not in storage")
    return {
        f"{key} in storage": client.get_object(Bucket=place.netloc, Key=key)["Body"].read()
        for key in keys
        if "/trackside/logs/" not in key
    }


def _listens_to_nobody_else(ground: Ground) -> None:
    """An address of no machine: were it not refused for lack of keys, it could not be bound."""
    home = {"TRACKSIDE_HOME": str(ground.folder / "keyless")}
    listen = ("server", "--listen", "203.0.113.1:7007")
    done = ground.trackside(*listen, environment=home, expect=None, seconds=60)
    text = done.stderr.decode(errors="replace")
    check(done.returncode != 0 and "no access key" in text, f"without keys: {text[-300:]}")
    usage = ground.trackside("server", "--help").stdout.decode()
    check("[default: 127.0.0.1:7007]" in " ".join(usage.split()), "the default address is another")


CASES = (
    Case(40, "bad signatures", bad_signatures, seconds=5),
    Case(42, "secrets of jobs", secrets_stay_secret, seconds=15),
)
