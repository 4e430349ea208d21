"""Every scalar of a folder out of TensorBoard with its Rust data server, as arrays.

`python -m benchmarks.tensorboard_peer FOLDER LAST_STEP NUM_SERIES grpc|http` ends when it has them:
from the data server itself, or from the pages of a TensorBoard in front of it.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import grpc
import numpy as np
import tensorboard_data_server
from tensorboard.data.proto import data_provider_pb2 as wire
from tensorboard.data.proto.data_provider_pb2_grpc import TensorBoardDataProviderStub

from trackside.curves.tensorboard_process import TensorBoardProcess

ALL = 1 << 30
_UNLIMITED = [("grpc.max_receive_message_length", -1)]


def main() -> None:
    folder, last_step, num_series, way = sys.argv[1:]
    with (
        data_server(Path(folder)) as port,
        grpc.insecure_channel(f"localhost:{port}", options=_UNLIMITED) as channel,
    ):
        stub = TensorBoardDataProviderStub(channel)
        if way == "grpc":
            wait_until_loaded(stub, int(last_step), int(num_series))
            points = from_server(stub)
        else:
            hints = [
                f"--grpc_data_provider=localhost:{port}",
                f"--samples_per_plugin=scalars={ALL}",
            ]
            with TensorBoardProcess([*hints, "--port=0"]) as pages:
                wait_until_loaded(stub, int(last_step), int(num_series))
                points = from_pages(stub, pages.url())
    assert points == (int(last_step) + 1) * int(num_series), points


@contextmanager
def data_server(folder: Path) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as scratch:
        reported = Path(scratch, "port")
        command = [tensorboard_data_server.server_binary(), f"--logdir={folder}", "--port=0"]
        options = [f"--port-file={reported}", "--samples-per-plugin=scalars=all", "--reload=once"]
        with subprocess.Popen([*command, *options, "--die-after-stdin"], stdin=-1) as process:
            while not reported.exists() or not reported.read_text().endswith("\n"):
                time.sleep(0.005)
            yield int(reported.read_text())
            process.kill()


def wait_until_loaded(stub: Any, last_step: int, num_series: int) -> None:
    while True:
        request = wire.ListScalarsRequest(plugin_filter=wire.PluginFilter(plugin_name="scalars"))
        tags = [tag for run in stub.ListScalars(request).runs for tag in run.tags]
        if [tag.metadata.max_step for tag in tags] == [last_step] * num_series:
            return
        time.sleep(0.02)


def from_server(stub: Any) -> int:
    points = 0
    for run in stub.ListRuns(wire.ListRunsRequest()).runs:
        request = wire.ReadScalarsRequest(
            plugin_filter=wire.PluginFilter(plugin_name="scalars"),
            run_tag_filter=wire.RunTagFilter(runs=wire.RunFilter(names=[run.name])),
            downsample=wire.Downsample(num_points=ALL),
        )
        for found in stub.ReadScalars(request).runs:
            for tag in found.tags:
                steps = np.array(tag.data.step)
                points += len(steps)
                np.array(tag.data.wall_time), np.array(tag.data.value)
    return points


def from_pages(stub: Any, url: str) -> int:
    server = urlsplit(url)
    connection = HTTPConnection(server.hostname or "", server.port)
    request = wire.ListScalarsRequest(plugin_filter=wire.PluginFilter(plugin_name="scalars"))
    points = 0
    for run in stub.ListScalars(request).runs:
        for tag in run.tags:
            query = urlencode({"run": run.run_name, "tag": tag.tag_name})
            connection.request("GET", f"{server.path}data/plugin/scalars/scalars?{query}")
            points += len(np.array(json.load(connection.getresponse())))
    return points


if __name__ == "__main__":
    main()
