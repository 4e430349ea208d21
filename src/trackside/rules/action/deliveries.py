"""Delivers an action by mail, webhook or shell command, with one try per call.

`Passing` means that a retry may succeed; any other error is final. Only the thread of
`action_taker.py` waits for these.
"""

import hashlib
import hmac
import http.client
import json
import os
import signal
import smtplib
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from email.message import EmailMessage
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from trackside.files.permissions import user_umask
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.records.spec import JobSpec
from trackside.rules.action.action_errors import Passing, Refused
from trackside.rules.action.actions import Command, Email, Notify
from trackside.rules.action.callback_addresses import Callbacks
from trackside.settings import Settings, environment

TRY_SECONDS = 10.0
COMMAND_SECONDS = 60.0
_TAIL = 500
_PORTS = {"none": 25, "starttls": 587, "tls": 465}


def send_mail(action: Email, job: str, finding: Finding, settings: Settings, delivery: str) -> str:
    subject = f"{job}: {finding.configuration} fired"
    return mail(action.address, subject, mail_text(job, finding), settings, delivery)


def mail(address: str, subject: str, text: str, settings: Settings, delivery: str) -> str:
    if not settings.smtp_host:
        raise Refused("No mail was sent: set TRACKSIDE_SMTP_HOST to a mail server.")
    message = EmailMessage()
    message["From"] = settings.smtp_from
    message["To"] = address
    message["Subject"] = " ".join(subject.split())
    message["Message-ID"] = f"<{delivery}@trackside>"  # the same for each try: copies are dropped
    message.set_content(text)
    try:
        with _smtp(settings) as server:
            if settings.smtp_user:
                server.login(settings.smtp_user, settings.smtp_password)
            server.send_message(message)
    except smtplib.SMTPRecipientsRefused as error:
        raise Refused(f"{settings.smtp_host} does not take mail for it: {error}") from error
    except (smtplib.SMTPAuthenticationError, smtplib.SMTPNotSupportedError) as error:
        raise Refused(f"{settings.smtp_host}: {error}") from error
    except (OSError, smtplib.SMTPException) as error:
        raise Passing(f"{settings.smtp_host}: {error}") from error
    return f"sent through {settings.smtp_host}"


def mail_text(job: str, finding: Finding) -> str:
    """SageMaker's first line, then the details."""
    facts = {
        "Job": job,
        "Rule": finding.rule,
        "Step": finding.step,
        "Mode": finding.mode,
        "Worker": finding.worker,
        "Tensor": finding.tensor,
        "Line": finding.line,
        "Value": finding.value,
        "Threshold": finding.threshold,
    }
    lines = [f"{name}: {value}" for name, value in facts.items() if value not in (None, "")]
    head = f"SMDebugRule:{finding.rule} fired. {finding.message}"
    return "\n\n".join(filter(None, [head, "\n".join(lines), finding.advice])) + "\n"


@dataclass(frozen=True, slots=True)
class Call:
    """The address to post a finding to, and how."""

    url: str
    secret: str = field(default="", repr=False)
    callbacks: Callbacks | None = None
    """Restrictions on the address; None for the operator's own, or on the operator's machine."""


def call(action: Notify, spec: JobSpec, settings: Settings, *, is_remote: bool) -> Call:
    """The operator's secret signs only calls to the operator's address; for any other address a job
    must name a secret of its own, or calls are not signed.
    """
    if not action.url and not settings.webhook_url:
        raise Refused(
            f"There is no webhook for {action.name!r}: set TRACKSIDE_WEBHOOK_URL to its address."
        )
    name = action.secret_variable
    if name and name not in spec.environment:
        raise Refused(f"The secret {name!r} is not a variable of the job's Environment.")
    secret = spec.environment.get(name, "")
    url = action.url or settings.webhook_url
    return call_of(url, settings, is_remote=is_remote, secret=secret)


def call_of(url: str, settings: Settings, *, is_remote: bool, secret: str = "") -> Call:
    """`Refused` for an address that a server may not call for a job."""
    if url == settings.webhook_url:
        return Call(url, settings.webhook_secret)
    callbacks = Callbacks.allowed_by(settings.allow_callbacks) if is_remote else None
    if callbacks is not None and (problem := callbacks.problem(url)):
        raise Refused(problem)
    return Call(url, secret, callbacks)


def post(call: Call, action: Notify, job: str, finding: Finding, delivery: str) -> str:
    record = {
        "action": {"name": action.name, **action.details},
        "job": job,
        "finding": json.loads(finding.to_line()),
        "delivery": delivery,
    }
    return post_json(call, record, delivery)


def post_json(call: Call, record: Mapping[str, Any], delivery: str) -> str:
    url, body = call.url, json.dumps(record).encode()
    request = urllib.request.Request(url, body, method="POST")
    for name, value in headers(body, call.secret, delivery).items():
        request.add_header(name, value)
    try:
        with _opener(call.callbacks).open(request, timeout=TRY_SECONDS) as answer:
            return f"answered {answer.status}"
    except urllib.error.HTTPError as error:
        answered = f"{_host(url)} answered {error.code} {error.reason}"
        error.close()
        if error.code >= 500 or error.code in (408, 429):
            raise Passing(answered) from None
        raise Refused(answered) from None
    except (OSError, ValueError) as error:
        raise Passing(f"{_host(url)}: {error}") from error


def headers(body: bytes, secret: str, delivery: str, now: float | None = None) -> dict[str, str]:
    """The signature covers the time, to prevent replays."""
    moment = str(int(time.time() if now is None else now))
    made = {
        "Content-Type": "application/json",
        "User-Agent": "trackside",
        "X-Trackside-Delivery": delivery,
        "X-Trackside-Timestamp": moment,
    }
    if secret:
        signed = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256)
        made["X-Trackside-Signature"] = f"sha256={signed.hexdigest()}"
    return made


def run_command(action: Command, job: str, finding: Finding) -> str:
    """Run by /bin/sh, with the finding in its environment and, as JSON, on standard input. Its
    output is stored shortened.
    """
    umask = user_umask()
    process = subprocess.Popen(
        ["/bin/sh", "-c", action.command],
        env={**environment(), **variables(job, finding)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        umask=-1 if umask is None else umask,  # files it creates belong to the user
    )
    try:
        output, _ = process.communicate(finding.to_line(), timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Refused(f"ended after {COMMAND_SECONDS:g} s, which is all the time it has") from None
    tail = output.decode(errors="replace").strip()[-_TAIL:]
    result = f"exit code {process.returncode}" + (f": {tail}" if tail else "")
    if process.returncode != 0:
        raise Refused(result)
    return result


def variables(job: str, finding: Finding) -> Mapping[str, str]:
    variables = {
        "TRACKSIDE_JOB": job,
        "TRACKSIDE_RULE": finding.configuration,
        "TRACKSIDE_STEP": finding.step,
        "TRACKSIDE_TENSOR": finding.tensor,
        "TRACKSIDE_LINE": finding.line,
        "TRACKSIDE_VALUE": finding.value,
        "TRACKSIDE_THRESHOLD": finding.threshold,
        "TRACKSIDE_MESSAGE": finding.message,
        "TRACKSIDE_FINDING": finding.to_line().decode().strip(),
    }
    return {name: "" if value is None else str(value) for name, value in variables.items()}


def _smtp(settings: Settings) -> smtplib.SMTP:
    host, _, port = settings.smtp_host.partition(":")
    number = int(port) if port.isdigit() else _PORTS[settings.smtp_security]
    if settings.smtp_security == "tls":
        context = ssl.create_default_context()
        return smtplib.SMTP_SSL(host, number, timeout=TRY_SECONDS, context=context)
    server = smtplib.SMTP(host, number, timeout=TRY_SECONDS)
    if settings.smtp_security == "starttls":
        server.starttls(context=ssl.create_default_context())
    return server


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A signed call goes only to the configured address."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Checked(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    """Connects only to addresses that `callback_addresses` allows."""

    def __init__(self, callbacks: Callbacks) -> None:
        super().__init__()
        self._callbacks = callbacks

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(self._connection, http.client.HTTPConnection, req), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(self._connection, http.client.HTTPSConnection, req), req)

    def _connection(
        self,
        kind: type[http.client.HTTPConnection],
        request: urllib.request.Request,
        host: str,
        **options: Any,
    ) -> http.client.HTTPConnection:
        connection = kind(host, **options)
        target = getattr(request, "_tunnel_host", None)
        if target is None and not request.has_proxy():
            # The attribute is private; there is no public way to replace the connect function.
            connection._create_connection = self._callbacks.connect  # type: ignore[attr-defined]
            return connection
        # Behind a proxy, the proxy resolves names, possibly others than we can.
        with suppress(OSError):
            self._callbacks.check(urlsplit(request.full_url).hostname or "")
        return connection


def _opener(callbacks: Callbacks | None) -> urllib.request.OpenerDirector:
    checked = [] if callbacks is None else [_Checked(callbacks)]
    return urllib.request.build_opener(_NoRedirect(), *checked)


def _host(url: str) -> str:
    """Without parts that may be secret."""
    return urlsplit(url).hostname or "TRACKSIDE_WEBHOOK_URL"
