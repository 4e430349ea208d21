"""TensorBoard on demand, for any selection of jobs: one process for all, ended when nobody has used
it for some minutes."""

import http.client
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from threading import Lock, Thread
from urllib.parse import urlsplit

from trackside.errors import MissingExtra, TensorBoardFailed
from trackside.quick_dataclass import dataclass
from trackside.settings import Settings, environment

logger = logging.getLogger(__name__)

IDLE_SECONDS = 600.0
_CHECK_SECONDS = 15.0
_SILENT_SECONDS = 120.0
_COMMAND = (sys.executable, "-P", "-m", "trackside.page.tensorboard_worker")
_PASSED_ON = ("accept", "accept-language", "content-type", "if-none-match", "if-modified-since")
_PASSED_BACK = (
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-security-policy",
    "content-type",
    "etag",
    "expires",
    "last-modified",
)


@dataclass(frozen=True, slots=True)
class Proxied:
    status: int
    headers: Mapping[str, str]
    body: bytes


def is_installed() -> bool:
    return all(find_spec(name) is not None for name in ("tensorboard", "grpc"))


class TensorBoard:
    """Thread-safe; its methods block."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._url = ""
        self._used = 0.0

    def start(self) -> str:
        """Its address, without a slash at the end; waits until it answers, if it has to start.
        `MissingExtra`, or `TensorBoardFailed` with its own output."""
        if not is_installed():
            raise MissingExtra("TensorBoard", "tensorboard", "tensorboard")
        with self._lock:
            self._used = self._clock()
            if self._process is None or self._process.poll() is not None:
                self._url = self._started()
            return self._url

    def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Proxied:
        """A request to it; `path` is behind its own prefix."""
        url = urlsplit(self.start())
        connection = http.client.HTTPConnection(url.netloc, timeout=_SILENT_SECONDS)
        sent = {name: headers[name] for name in _PASSED_ON if name in headers}
        sent["accept-encoding"] = headers.get("accept-encoding", "identity")
        try:
            connection.request(method, f"{url.path}/{path}", body or None, sent)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise TensorBoardFailed(
                f"TensorBoard does not answer: {error or type(error).__name__}. Open it again."
            ) from error
        finally:
            connection.close()
        back = {name: each for name in _PASSED_BACK if (each := response.getheader(name))}
        return Proxied(response.status, back, content)

    def close(self) -> None:
        """Also while it starts."""
        if (process := self._process) is not None:
            process.kill()
        with self._lock:
            self._end()

    def _started(self) -> str:
        """The end of our process closes its standard input, and so ends it."""
        self._end()
        process = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environment(), **self._settings.variables},
        )
        assert process.stdout is not None
        self._process = process
        try:
            found = json.loads(process.stdout.readline() or b"{}")
        except ValueError:
            found = {}
        if "url" not in found:
            self._end()
            raise TensorBoardFailed(found.get("error") or "TensorBoard did not start.")
        logger.info("TensorBoard was started for the page")
        Thread(target=self._watch, args=(process,), name="trackside-idle", daemon=True).start()
        return str(found["url"])

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        """Until it has ended."""
        while process.poll() is None:
            with self._lock:
                if process is self._process and self._clock() - self._used > IDLE_SECONDS:
                    logger.info("TensorBoard was ended: nobody has used it")
                    self._end()
                    return
            time.sleep(min(_CHECK_SECONDS, IDLE_SECONDS / 10))

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
