"""Who gets in, and who learns what (cases 40, 42)."""

import http.client
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from benchmarks.drill.case import Case, Result, check, held, partly
from benchmarks.drill.ground import Ground
from benchmarks.drill.job import DrillJob
from benchmarks.drill.server import Server
from trackside.api.keys import AccessKeys, Rights
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


_KNOWN = "what the server describes"
_SECRET = "CANARY-51c0ffee"
_WAITS = """
import os, time
assert os.environ["DB_PASSWORD"]
print("READY", flush=True)
while not os.path.exists(os.environ["GO"]): time.sleep(0.02)
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
    """What a job is given as a password is seen by the job, and by nobody who is not told it."""
    server = ground.server()
    go = ("--environment", f"GO={ground.go_file}")
    job = ground.submit(_WAITS, *go, "--environment", f"DB_PASSWORD={_SECRET}", at=server)
    job.wait_for_line("READY")
    listed = [
        pid
        for pid in process_table.pids()
        if pid != os.getpid() and _SECRET.encode() in process_table.read(f"/proc/{pid}/cmdline")
    ]
    check(not listed, f"`ps` shows the secret in {len(listed)} processes")
    neighbour = ground.submit(_PRIES, at=server)
    neighbour.wait_over()
    pried = b"PRIED 0" not in neighbour.raw_log()
    ground.go()
    job.wait_over()
    check(job.status == "Failed", f"the job is {job.status}")
    seen = _places_with_secret(ground, server, job)
    told = _KNOWN in seen
    others = [place for place in seen if place != _KNOWN]
    check(not others, f"the secret is in {', '.join(others)}")
    _listens_to_nobody_else(ground)
    figure = (
        "not in ps, logs, journal, reasons, report; default address 127.0.0.1, others need keys"
    )
    missing = []
    if told:
        missing.append("DescribeTrainingJob tells a job's Environment to every key, as AWS's does")
    if pried:
        missing.append("another job's script read it in /proc: without --run-as, jobs share a user")
    return partly(figure, "; ".join(missing)) if missing else held(figure)


def _places_with_secret(ground: Ground, server: Server, job: DrillJob) -> list[str]:
    key, secret = AccessKeys(server.home.server.root).create("reader", Rights.READ)
    server.key, server.secret = key, secret
    described = server.client("sagemaker").describe_training_job(TrainingJobName=job.name)
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
        _KNOWN: json.dumps(described, default=str).encode(),
        "the report": (ground.folder / "report.html").read_bytes(),
        **outputs,
    }
    return [name for name, text in texts.items() if _SECRET.encode() in text]


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
