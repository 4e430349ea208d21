"""Searches lines for metric definitions, in a child process that is stopped if a pattern hangs."""

import json
import logging
import os
import select
import subprocess
import sys
from collections.abc import Sequence

from trackside.records.spec import MetricDefinition

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 300.0
"""The child limits its patterns itself; a child without a response for so long is stopped."""
_NUM_TRIES = 2


class PatternSearch:
    """Starts its child when there is something to search; `close` ends it. Not thread-safe."""

    def __init__(self, definitions: Sequence[MetricDefinition]) -> None:
        self.definitions = definitions
        self.switched_off: dict[str, str] = {}
        """By pattern, why it is switched off. May be filled before the first search."""
        self._child: subprocess.Popen[bytes] | None = None

    def search(self, lines: list[str]) -> list[tuple[int, str, float]]:
        """Line, name and value of every match that is a number, in the lines' order."""
        if not lines or not self._patterns():
            return []
        request = json.dumps(lines).encode() + b"\n"
        for left in reversed(range(_NUM_TRIES)):
            try:
                response = json.loads(self._exchange(request))
                break
            except (EOFError, BrokenPipeError):  # killed: its work is repeated
                self.close()
                if not left:
                    raise
        for number, why in response["off"]:
            self._switch_off(self.definitions[number], why)
        return [
            (at, self.definitions[number].name, value) for at, number, value in response["found"]
        ]

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def _patterns(self) -> list[tuple[int, str]]:
        return [
            (number, definition.regex)
            for number, definition in enumerate(self.definitions)
            if definition.regex not in self.switched_off
        ]

    def _exchange(self, request: bytes) -> bytes:
        child = self._started()
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(request)
        child.stdin.flush()
        pipe = child.stdout.fileno()
        waiting = select.poll()
        waiting.register(pipe, select.POLLIN)
        response = bytearray()
        while not response.endswith(b"\n"):
            if not waiting.poll(ANSWER_SECONDS * 1000):
                self.close()
                raise TimeoutError(
                    f"the search for metrics did not respond within {ANSWER_SECONDS} s"
                )
            piece = os.read(pipe, 1 << 16)
            if not piece:
                raise EOFError("the process that searches for metrics has ended")
            response += piece
        return bytes(response)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", "trackside.curves.pattern_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert self._child.stdin is not None
            self._child.stdin.write(json.dumps(self._patterns()).encode() + b"\n")
        return self._child

    def _switch_off(self, definition: MetricDefinition, why: str) -> None:
        self.switched_off[definition.regex] = why
        logger.warning(
            "metric %r is not collected any more: its pattern %r %s",
            definition.name,
            definition.regex,
            why,
        )
