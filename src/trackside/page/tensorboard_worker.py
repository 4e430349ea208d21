"""TensorBoard for the page, with the curves of jobs, in a process of its own: `python -m` runs it.

It prints one line of JSON, {"url": …} or {"error": …}, and ends when its standard input does. Other
users of this machine get no curves: the path of the address cannot be guessed, and where
TensorBoard gets the curves from, only its own user is answered.
"""

import json
import os
import secrets
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from trackside.curves.provider import FindLocations, Library
from trackside.curves.provider_server import ProviderServer
from trackside.curves.tensorboard_process import TensorBoardProcess
from trackside.errors import TensorBoardFailed
from trackside.jobs.local_reader import LocalReader
from trackside.page.peer import is_of_user
from trackside.settings import Settings, environment
from trackside.storage.locate import Location
from trackside.texts.shown_names import wire_name


def main() -> None:
    reader = LocalReader(Settings.load().embedded, environment())
    with ExitStack() as parts:
        curves = ProviderServer(
            Library(partial(_find, reader)),
            lambda host, port: is_of_user((host, port), ("127.0.0.1", curves.port), os.geteuid()),
        )
        parts.enter_context(curves)
        arguments = [
            f"--grpc_data_provider=127.0.0.1:{curves.port}",
            "--host=127.0.0.1",
            "--port=0",
            f"--path_prefix=/{secrets.token_urlsafe(16)}",
        ]
        process = parts.enter_context(TensorBoardProcess(arguments))
        _say(process)
        sys.stdin.buffer.read()


def _say(process: TensorBoardProcess) -> None:
    try:
        message = {"url": process.url().rstrip("/")}
    except TensorBoardFailed as error:
        message = {"error": str(error)}
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _find(reader: LocalReader, label: str) -> FindLocations:
    """Runs are named as people see the jobs. `JobNotFound` for an unknown one."""
    name = wire_name(label)

    def find() -> Sequence[Location]:
        return reader.curve_places(name)

    find()
    return find


if __name__ == "__main__":
    main()
