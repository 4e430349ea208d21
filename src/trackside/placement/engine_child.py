"""A child process that alone imports an engine's library: such a library may end the process that
it is in, as Ray's does when its head node is gone, or write to its standard output.

Requests and answers are lines of JSON. The child ends with its parent, however that ends.
"""

import atexit
import io
import json
import os
import queue
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import IO, Any, NoReturn

_READ_BYTES = 1 << 16
_MOST_WORDS = 500


class EngineAway(Exception):
    """It did not answer, or its library ended the child."""


class ConnectionLost(ConnectionError):
    """Raised in the child: its library cannot connect again in the process that it is in."""


class EngineError(ValueError):
    """The engine, or its library here, refuses it: it would refuse it again."""


class EngineChild:
    """Starts the child when it is first asked, and again when it has ended. For any thread."""

    def __init__(self, module: str, arguments: Sequence[str], environment: Mapping[str, str]):
        self._command = [sys.executable, "-P", "-m", module, *arguments]
        self._environment = dict(environment)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""
        self._errors: IO[bytes] = io.BytesIO()
        """What its library has written."""
        atexit.register(self.close)

    def call(self, name: str, seconds: float, **arguments: Any) -> Any:
        """What the child's function of this name returns. `EngineAway` also when that takes longer
        than `seconds`; then the child is ended."""
        with self._lock:
            process = self._running()
            try:
                assert process.stdin is not None
                process.stdin.write(json.dumps([name, arguments]).encode() + b"\n")
                process.stdin.flush()
                answer = self._answer(process, time.monotonic() + seconds)
                if answer.get("is_lost"):
                    raise EngineAway(str(answer.get("away")))
            except EngineAway:
                self._end()
                raise
            except OSError as error:
                self._end()
                raise EngineAway(self._last_words() or "its library ended") from error
        match answer:
            case {"value": value}:
                return value
            case {"refused": str(text)}:
                raise EngineError(text)
        raise EngineAway(str(answer.get("away")))

    def begin(self) -> None:
        """It is asked soon: its library is loaded meanwhile."""
        with self._lock:
            self._running()

    def close(self) -> None:
        with self._lock:
            self._end()
            self._errors.close()

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            self._errors.close()
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 open as long as the child
            self._said = b""
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for the command
            )
        return self._process

    def _answer(self, process: "subprocess.Popen[bytes]", deadline: float) -> dict[str, Any]:
        assert process.stdout is not None
        while b"\n" not in self._said:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, left))
            if not ready:
                raise EngineAway("it did not answer in time")
            part = os.read(process.stdout.fileno(), _READ_BYTES)
            if not part:
                raise BrokenPipeError
            self._said += part
        line, _, self._said = self._said.partition(b"\n")
        return dict(json.loads(line))

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
            process.wait()

    def _last_words(self) -> str:
        """Of the child that has ended: what its library wrote last."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")[-_MOST_WORDS:]


def serve(
    functions: Mapping[str, Callable[..., Any]],
    away: tuple[type[Exception], ...],
    library: str = "",
) -> None:
    """The child's side: answers until the parent is gone. `away` are the exceptions that say that
    the engine cannot be asked now; a `ValueError` is a refusal, and any other one is unknown. After
    a `ConnectionLost` the next request has another child. The `library` is loaded before the first
    request comes."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what the library prints goes to the log
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests,), daemon=True).start()
    if library:
        with suppress(ImportError):  # the first request says so
            import_module(library)
    while True:
        name, arguments = json.loads(requests.get())
        answers.write(json.dumps(_answered(functions[name], arguments, away)).encode() + b"\n")


def _answered(
    function: Callable[..., Any], arguments: dict[str, Any], away: tuple[type[Exception], ...]
) -> dict[str, Any]:
    try:
        return {"value": function(**arguments)}
    except ConnectionLost as error:
        return {"away": _words(error), "is_lost": True}  # the parent ends this process
    except away as error:
        return {"away": _words(error)}
    except ValueError as error:
        return {"refused": _words(error)}
    except Exception as error:  # noqa: BLE001 a library's; what it means is not known
        return {"away": f"{type(error).__name__}: {_words(error)}"}


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:_MOST_WORDS] or type(error).__name__


def _read_requests(requests: "queue.SimpleQueue[bytes]") -> NoReturn:
    for line in sys.stdin.buffer:
        requests.put(line)
    os._exit(0)
