"""The first process of a pod: `python -m trackside.placement.kubernetes_host SERVICE HOSTS WORDS…`.

It waits until the pods of all hosts run, starts the supervisor of this one, again if that is
killed, and passes SIGTERM on to it. As the first process it also buries what others leave.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from trackside.files.permissions import make_folder

INDEX = "JOB_COMPLETION_INDEX"
"""Which of the pods this is; set by Kubernetes."""
_ADDRESSES = "TRACKSIDE_GROUP_ADDRESSES"
_TRIES = 20
_PAUSE_SECONDS = 0.5


class Host:
    def __init__(self) -> None:
        self._is_asked = False
        """Whether Kubernetes wants the pod to end."""
        self._supervisor: subprocess.Popen[bytes] | None = None
        signal.signal(signal.SIGTERM, self._ask)

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """The exit code for Kubernetes. A host that was asked to end has ended in order: any other
        code would end the pods of the other hosts, too."""
        code = 0
        for _ in range(_TRIES):
            if self._is_asked:
                return 0
            self._supervisor = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
            if self._is_asked:  # just now: nobody has told it
                self._supervisor.terminate()
            code = self._waited(self._supervisor.pid)
            self._supervisor = None  # another process may get its number
            if code >= 0:
                break
        return 0 if self._is_asked else code if code >= 0 else 128 - code

    def addresses(self, names: Sequence[str]) -> list[str]:
        """Of all pods. A name is known once its pod runs, however long its image takes; empty if
        this pod is to end before that."""
        found: list[str] = []
        while len(found) < len(names) and not self._is_asked:
            try:
                found.append(str(socket.getaddrinfo(names[len(found)], None)[0][4][0]))
            except OSError:
                time.sleep(_PAUSE_SECONDS)
        return found

    def _waited(self, supervisor: int) -> int:
        while True:
            pid, status = os.wait()
            if pid == supervisor:
                return os.waitstatus_to_exitcode(status)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._is_asked = True
        if self._supervisor is not None:
            try:
                os.kill(self._supervisor.pid, signal.SIGTERM)
            except ProcessLookupError:
                return


def main(arguments: Sequence[str]) -> int:
    service, hosts, *words = arguments
    names = hosts.split(",")
    host = Host()
    environment = dict(os.environ)
    if len(names) > 1:
        pods = [f"{service}-{number}.{service}" for number in range(len(names))]
        environment[_ADDRESSES] = ",".join(host.addresses(pods))
    make_folder(Path(environment["TRACKSIDE_HOME"]))
    own = names[int(environment.get(INDEX, "0"))]
    return host.run([sys.executable, *words, "--group", own], environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
