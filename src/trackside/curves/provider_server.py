"""TensorBoard's data provider protocol over gRPC: its ten calls, served from memory.

We downsample: TensorBoard requests a thousand points of a curve and gets the extremes too.
"""

import base64
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from threading import Lock
from types import TracebackType
from typing import Any, TypeVar

import grpc
import numpy as np
from tensorboard.compat.proto import summary_pb2
from tensorboard.data.proto import data_provider_pb2 as wire
from tensorboard.data.proto import data_provider_pb2_grpc as service

from trackside.curves.downsample import thin
from trackside.curves.provider import Library
from trackside.curves.series import Run, Scalars, Tensors
from trackside.errors import JobError, StorageError

logger = logging.getLogger(__name__)

NUM_THREADS = 8
BLOB_BYTES = 1 << 20
"""A blob is streamed in pieces: gRPC refuses messages of more than four megabytes."""
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]

Series = TypeVar("Series", Scalars, Tensors)


class ProviderServer:
    """Listens on loopback, at a port of its own, for as long as its block is open."""

    def __init__(
        self, library: Library, is_allowed: Callable[[str, int], bool] = lambda host, port: True
    ) -> None:
        """`is_allowed` says by a client's address whether it is answered."""
        self._server = grpc.server(ThreadPoolExecutor(NUM_THREADS), options=_UNLIMITED)
        service.add_TensorBoardDataProviderServicer_to_server(
            Provider(library, is_allowed), self._server
        )
        self.port: int = self._server.add_insecure_port("127.0.0.1:0")

    def __enter__(self) -> "ProviderServer":
        self._server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.stop(grace=None).wait()


def _answering(method: Callable[..., Any]) -> Callable[..., Any]:
    """Errors of a request reach TensorBoard as messages."""

    @wraps(method)
    def answer(self: "Provider", request: Any, context: grpc.ServicerContext) -> Any:
        self.check(context)
        try:
            with self.lock:
                return method(self, request)
        except (JobError, KeyError) as error:
            context.abort(grpc.StatusCode.NOT_FOUND, str(error))
        except StorageError as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, str(error))

    return answer


class Provider(service.TensorBoardDataProviderServicer):  # type: ignore[misc]
    """An experiment is a job, several separated by commas, or '' for all requested ones."""

    def __init__(
        self, library: Library, is_allowed: Callable[[str, int], bool] = lambda host, port: True
    ) -> None:
        self._library = library
        self._is_allowed = is_allowed
        self.lock = Lock()
        """One call at a time: a run must not grow while it is read."""

    def check(self, context: grpc.ServicerContext) -> None:
        """Ends the call of a client that is not allowed."""
        host, _, port = context.peer().partition(":")[2].rpartition(":")
        if not self._is_allowed(host.strip("[]"), int(port)):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "Curves are for their own user.")

    @_answering
    def GetExperiment(self, request: Any) -> Any:
        self._library.runs(request.experiment_id)  # locates everything as of now
        jobs = self._library.jobs(request.experiment_id)
        names = ", ".join(job.name for job in jobs)
        where = "; ".join(uri for job in jobs for uri in job.locations)
        problem = " ".join(job.problem for job in jobs if job.problem)
        return wire.GetExperimentResponse(data_location=where, name=names, description=problem)

    @_answering
    def ListPlugins(self, request: Any) -> Any:
        runs = self._library.runs(request.experiment_id).values()
        names = sorted({name for run in runs for name in run.plugins()})
        return wire.ListPluginsResponse(plugins=[wire.Plugin(name=name) for name in names])

    @_answering
    def ListRuns(self, request: Any) -> Any:
        runs = sorted(self._library.runs(request.experiment_id).items())
        listed = [wire.Run(name=name, start_time=run.first_time) for name, run in runs]
        return wire.ListRunsResponse(runs=listed)

    @_answering
    def ListScalars(self, request: Any) -> Any:
        response = wire.ListScalarsResponse()
        for run, tag, series in self._matching_scalars(request):
            column = series.column()
            entry = _tag(response, run, tag)
            entry.metadata.max_step = int(column.steps.max())
            entry.metadata.max_wall_time = float(column.times.max())
            entry.metadata.summary_metadata.CopyFrom(series.metadata)
        return response

    @_answering
    def ReadScalars(self, request: Any) -> Any:
        response = wire.ReadScalarsResponse()
        for run, tag, series in self._matching_scalars(request):
            column = series.column()
            chosen = thin(column.values, request.downsample.num_points)
            data = _tag(response, run, tag).data
            data.step.extend(column.steps[chosen].tolist())
            data.wall_time.extend(column.times[chosen].tolist())
            data.value.extend(column.values[chosen].astype(np.float32).tolist())
        return response

    @_answering
    def ListTensors(self, request: Any) -> Any:
        response = wire.ListTensorsResponse()
        for run, tag, series in self._matching_tensors(request, _TENSOR):
            entry = _tag(response, run, tag)
            _describe(entry.metadata, series)
        return response

    @_answering
    def ReadTensors(self, request: Any) -> Any:
        response = wire.ReadTensorsResponse()
        for run, tag, series in self._matching_tensors(request, _TENSOR):
            data = _tag(response, run, tag).data
            for point in _spread(series.kept(), request.downsample.num_points):
                data.step.append(series.steps[point])
                data.wall_time.append(series.times[point])
                data.value.append(series.values[point])
        return response

    @_answering
    def ListBlobSequences(self, request: Any) -> Any:
        response = wire.ListBlobSequencesResponse()
        for run, tag, series in self._matching_tensors(request, _BLOBS):
            entry = _tag(response, run, tag)
            _describe(entry.metadata, series)
            entry.metadata.max_length = max(
                len(series.blobs(at)) for at in range(len(series.steps))
            )
        return response

    @_answering
    def ReadBlobSequences(self, request: Any) -> Any:
        response = wire.ReadBlobSequencesResponse()
        for run, tag, series in self._matching_tensors(request, _BLOBS):
            data = _tag(response, run, tag).data
            for point in _spread(series.kept(), request.downsample.num_points):
                data.step.append(series.steps[point])
                data.wall_time.append(series.times[point])
                references = data.values.add()
                for index in range(len(series.blobs(point))):
                    key = _blob_key(request.experiment_id, run, tag, series.steps[point], index)
                    references.blob_refs.add(blob_key=key)
        return response

    def ReadBlob(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self.check(context)
        try:
            experiment, run, tag, step, index = _parsed(request.blob_key)
            with self.lock:
                series = self._library.runs(experiment)[run].tensors[tag]
                # The last one of that step counts.
                point = len(series.steps) - 1 - series.steps[::-1].index(step)
                blob = series.blobs(point)[index]
        except (JobError, LookupError, ValueError) as error:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no blob {request.blob_key!r}: {error}")
        for start in range(0, max(1, len(blob)), BLOB_BYTES):
            yield wire.ReadBlobResponse(data=blob[start : start + BLOB_BYTES])

    def _matching_scalars(self, request: Any) -> Iterator[tuple[str, str, Scalars]]:
        for name, run in self._matching_runs(request):
            for tag, series in _matching(run.scalars, request):
                yield name, tag, series

    def _matching_tensors(self, request: Any, kind: int) -> Iterator[tuple[str, str, Tensors]]:
        for name, run in self._matching_runs(request):
            for tag, series in _matching(run.tensors, request):
                if series.metadata.data_class == kind:
                    yield name, tag, series

    def _matching_runs(self, request: Any) -> Iterable[tuple[str, Run]]:
        runs = sorted(self._library.runs(request.experiment_id).items())
        if not request.run_tag_filter.HasField("runs"):
            return runs
        wanted = set(request.run_tag_filter.runs.names)
        return [(name, run) for name, run in runs if name in wanted]


_TENSOR = summary_pb2.DATA_CLASS_TENSOR
_BLOBS = summary_pb2.DATA_CLASS_BLOB_SEQUENCE


def _matching(found: dict[str, Series], request: Any) -> Iterator[tuple[str, Series]]:
    wanted = request.run_tag_filter
    tags = set(wanted.tags.names) if wanted.HasField("tags") else None
    for tag, series in sorted(found.items()):
        plugin = series.metadata.plugin_data.plugin_name
        if plugin == request.plugin_filter.plugin_name and (tags is None or tag in tags):
            yield tag, series


def _tag(response: Any, run: str, tag: str) -> Any:
    """A new entry for this tag; entries of one run are consecutive."""
    if not response.runs or response.runs[-1].run_name != run:
        response.runs.add(run_name=run)
    return response.runs[-1].tags.add(tag_name=tag)


def _describe(metadata: Any, series: Tensors) -> None:
    metadata.max_step = max(series.steps)
    metadata.max_wall_time = max(series.times)
    metadata.summary_metadata.CopyFrom(series.metadata)


def _spread(points: list[int], limit: int) -> list[int]:
    """Evenly, with the last one always among them."""
    if len(points) <= limit:
        return points
    chosen = np.linspace(len(points) - 1, 0, max(limit, 0)).round().astype(int)[::-1]
    return [points[index] for index in chosen]


def _blob_key(*parts: str | int) -> str:
    """For a URL; only `_parsed` reads it."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def _parsed(key: str) -> tuple[str, str, str, int, int]:
    experiment, run, tag, step, index = json.loads(base64.urlsafe_b64decode(key + "=="))
    return str(experiment), str(run), str(tag), int(step), int(index)
