"""TensorBoard itself, unmodified, in a process that ends when we do."""

import json
import re
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from threading import Event, Thread
from types import TracebackType

from trackside.errors import TensorBoardFailed

START_SECONDS = 60.0
# Its standard input closes when we exit for any reason; otherwise it would keep its port. The first
# line has the arguments: those of a command line can be read by every user of the machine.
_BOOTSTRAP = """\
import json, os, sys, threading
sys.argv[1:] = json.loads(sys.stdin.buffer.readline())
watch = lambda: (sys.stdin.buffer.read(), os._exit(0))
threading.Thread(target=watch, daemon=True).start()
from tensorboard.main import run_main
run_main()
"""
_ADDRESS = re.compile(r"TensorBoard \S+ at (https?://\S+)")


class TensorBoardProcess:
    """Starts on entering the block; leaving it ends it."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = [*arguments]
        self._last_lines: deque[str] = deque(maxlen=10)
        self._responded = Event()
        self._url = ""

    def __enter__(self) -> "TensorBoardProcess":
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOTSTRAP],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(self._arguments) + "\n")
        self._process.stdin.flush()
        self._listener = Thread(target=self._listen, name="trackside-tensorboard", daemon=True)
        self._listener.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()  # it has no state to lose
        self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def url(self) -> str:
        """Where it listens, once it does; `TensorBoardFailed` with its own output if it fails."""
        self._responded.wait(START_SECONDS)
        if not self._url:
            output = "".join(self._last_lines).strip() or f"nothing for {START_SECONDS:.0f} s"
            raise TensorBoardFailed(f"TensorBoard did not start. Its output: {output}")
        return self._url

    def wait(self) -> None:
        """Until it ends, which happens by itself only after an error."""
        code = self._process.wait()
        self._listener.join()
        output = "".join(self._last_lines).strip()
        raise TensorBoardFailed(f"TensorBoard ended with code {code}. Its output: {output}")

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._last_lines.append(line)
            if not self._url and (found := _ADDRESS.search(line)):
                self._url = found[1]
                self._responded.set()
        self._responded.set()
