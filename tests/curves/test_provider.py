"""TensorBoard gets from our provider what its own readers would give it, sooner."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from tensorboard import context, errors
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.compat.proto import tensor_pb2
from tensorboard.compat.proto.summary_pb2 import SummaryMetadata
from tensorboard.data.grpc_provider import GrpcDataProvider, make_stub
from tensorboard.data.provider import DataProvider, RunTagFilter
from torch.utils.tensorboard import SummaryWriter

from tests.conftest import S3Server
from tests.wait import until
from trackside.curves import series, wire
from trackside.curves.event_writer import SummaryWriter as OurWriter
from trackside.curves.provider import JobCurves, Library
from trackside.curves.provider_server import ProviderServer
from trackside.curves.records import frame
from trackside.curves.series import Tensors
from trackside.errors import JobNotFound, StoreUnreachable
from trackside.storage.locate import Location, locate

Asked = Callable[..., Any]
CTX = context.RequestContext()


def place_of(folder: Path | str) -> Location:
    return locate(folder, home=Path("/nowhere"))


@pytest.fixture
def serve() -> Iterator[Callable[[Library], DataProvider]]:
    """TensorBoard's own client of a library that is served on loopback."""
    opened: list[tuple[ProviderServer, grpc.Channel]] = []

    def start(library: Library) -> DataProvider:
        server = ProviderServer(library)
        server.__enter__()
        channel = grpc.insecure_channel(f"127.0.0.1:{server.port}")
        opened.append((server, channel))
        return GrpcDataProvider("test", make_stub(channel))

    yield start
    for server, channel in opened:
        channel.close()
        server.__exit__(None, None, None)


def library_of(**folders: Path) -> Library:
    def find(name: str) -> Callable[[], list[Location]]:
        if name not in folders:
            raise JobNotFound(name)
        return lambda: [place_of(folders[name])]

    return Library(find, list(folders))


def points(
    provider: DataProvider, run: str, tag: str, limit: int = 1000
) -> list[tuple[int, float]]:
    wanted = RunTagFilter(runs=[run], tags=[tag])
    read = provider.read_scalars(
        CTX, experiment_id="", plugin_name="scalars", downsample=limit, run_tag_filter=wanted
    )
    return [(datum.step, datum.value) for datum in read.get(run, {}).get(tag, [])]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run with something for each of TensorBoard's usual tabs, and a second run."""
    folder = tmp_path_factory.mktemp("everything")
    with SummaryWriter(str(folder / "train")) as writer:
        for step in range(5):
            writer.add_scalar("loss/old", 1 / (1 + step), step)
            writer.add_scalar("loss/new", step * 0.5, step, new_style=True)
            writer.add_scalar(
                "loss/double", step * 0.1, step, double_precision=True, new_style=True
            )
            writer.add_histogram("weights", np.arange(50.0) * step, step)
            writer.add_text("note", f"*step* {step}", step)
            writer.add_image("picture", np.full((3, 8, 8), step / 5), step)
            writer.add_pr_curve("pr", np.array([0, 1, 1]), np.array([0.1, 0.6, 0.9]), step)
        writer.add_audio("sound", torch.zeros(1, 100), 0, sample_rate=8000)
        with warnings.catch_warnings(action="ignore"):  # torch's, about its own tracing
            writer.add_graph(torch.nn.Linear(2, 2), torch.zeros(1, 2))
        writer.add_custom_scalars({"both": {"x": ["Multiline", ["loss/old", "loss/new"]]}})
        writer.add_hparams({"lr": 0.1, "name": "a"}, {"hparam/acc": 0.9}, run_name="trial")
    with SummaryWriter(str(folder / "eval")) as writer:
        writer.add_scalar("loss/old", 3.0, 1)
    return folder


@pytest.fixture
def both(
    everything: Path, serve: Callable[[Library], DataProvider]
) -> tuple[DataProvider, DataProvider]:
    """TensorBoard's own provider on the folder, and ours."""
    multiplexer = EventMultiplexer(tensor_size_guidance={}, max_reload_threads=1)
    multiplexer.AddRunsFromDirectory(str(everything))
    multiplexer.Reload()
    return MultiplexerDataProvider(multiplexer, "x"), serve(library_of(job=everything))


def test_runs_and_plugins_are_tensorboard_s_own(both: tuple[DataProvider, DataProvider]):
    theirs, ours = both
    runs = {f"job/{run.run_name}" for run in theirs.list_runs(CTX, experiment_id="")}
    assert {run.run_name for run in ours.list_runs(CTX, experiment_id="")} == runs
    plugins = set(theirs.list_plugins(CTX, experiment_id=""))
    assert set(ours.list_plugins(CTX, experiment_id="")) == plugins
    assert {"scalars", "images", "histograms", "text", "hparams", "graphs", "audio"} <= plugins


PLUGINS = [
    ("scalars", "scalars"),
    ("tensors", "histograms"),
    ("tensors", "text"),
    ("tensors", "hparams"),
    ("tensors", "pr_curves"),
    ("tensors", "custom_scalars"),
    ("blob_sequences", "images"),
    ("blob_sequences", "audio"),
    ("blob_sequences", "graphs"),
]


@pytest.mark.parametrize(("kind", "plugin"), PLUGINS)
def test_what_a_plugin_lists_is_the_same(
    both: tuple[DataProvider, DataProvider], kind: str, plugin: str
):
    theirs, ours = (
        getattr(provider, f"list_{kind}")(CTX, experiment_id="", plugin_name=plugin)
        for provider in both
    )
    assert theirs
    assert {run: shown(tags) for run, tags in ours.items()} == {
        f"job/{run}": shown(tags) for run, tags in theirs.items()
    }


def shown(tags: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Without the name to display: a scalar's is its tag, given or not."""
    return {
        tag: (entry.max_step, entry.max_wall_time, entry.plugin_content, entry.description)
        + ((entry.max_length,) if hasattr(entry, "max_length") else ())
        for tag, entry in tags.items()
    }


@pytest.mark.parametrize(("kind", "plugin"), PLUGINS)
def test_what_a_plugin_reads_is_the_same(
    both: tuple[DataProvider, DataProvider], kind: str, plugin: str
):
    theirs, ours = (
        getattr(provider, f"read_{kind}")(
            CTX, experiment_id="", plugin_name=plugin, downsample=1000
        )
        for provider in both
    )
    assert ours.keys() == {f"job/{run}" for run in theirs}
    for run, tags in theirs.items():
        for tag, data in tags.items():
            mine = ours[f"job/{run}"][tag]
            assert [content(both[1], datum) for datum in mine] == [
                content(both[0], datum) for datum in data
            ]


def content(provider: DataProvider, datum: Any) -> tuple[Any, ...]:
    if hasattr(datum, "value"):
        return datum.step, datum.wall_time, np.float32(datum.value)
    if hasattr(datum, "numpy"):
        return datum.step, datum.wall_time, datum.numpy.tolist()
    blobs = [provider.read_blob(CTX, blob_key=ref.blob_key) for ref in datum.values]
    return datum.step, datum.wall_time, blobs


def test_points_are_there_as_soon_as_they_are_flushed(
    tmp_path: Path, serve: Callable[[Library], DataProvider]
):
    provider = serve(library_of(job=tmp_path))
    assert provider.list_runs(CTX, experiment_id="") == []
    with OurWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", step, step)
            writer.flush()
            until_there(provider, "job", step + 1)


def until_there(provider: DataProvider, run: str, num_points: int) -> None:
    until(lambda: len(points(provider, run, "loss")) == num_points)


def test_a_spike_in_a_long_curve_is_not_lost(
    tmp_path: Path, serve: Callable[[Library], DataProvider]
):
    with OurWriter(tmp_path) as writer:
        for step in range(20_000):
            writer.add_scalar("loss", 1000.0 if step == 12_345 else 0.5, step)
    provider = serve(library_of(job=tmp_path))
    shown_points = points(provider, "job", "loss", limit=100)
    assert len(shown_points) <= 100
    assert (12_345, 1000.0) in shown_points
    assert (
        provider.read_last_scalars(CTX, experiment_id="", plugin_name="scalars")["job"]["loss"].step
        == 19_999
    )


def test_jobs_are_side_by_side_and_each_alone(
    tmp_path: Path, serve: Callable[[Library], DataProvider]
):
    for name in ("a", "b", "c"):
        with OurWriter(tmp_path / name / "train") as writer:
            writer.add_scalar("loss", 1.0, 1)
    provider = serve(library_of(a=tmp_path / "a", b=tmp_path / "b", c=tmp_path / "c"))

    def names(experiment: str) -> list[str]:
        return [run.run_name for run in provider.list_runs(CTX, experiment_id=experiment)]

    assert names("") == names("defaultExperimentId") == ["a/train", "b/train", "c/train"]
    assert names("b") == ["b/train"]
    assert names("c,a") == ["a/train", "c/train"]
    with pytest.raises(errors.NotFoundError, match="No job is called 'nope'"):
        names("nope")


def test_a_job_that_moves_to_storage_is_read_there(tmp_path: Path):
    where = [tmp_path / "disk"]
    for folder, value in ((tmp_path / "disk", 1.0), (tmp_path / "store", 2.0)):
        with OurWriter(folder) as writer:
            writer.add_scalar("loss", value, 1)
    job = JobCurves("job", lambda: [place_of(folder) for folder in where])
    assert job.runs()["job"].scalars["loss"].column().values.tolist() == [1.0]
    where[:] = [tmp_path / "store"]
    job.refresh()
    assert job.runs()["job"].scalars["loss"].column().values.tolist() == [2.0]


def test_a_store_that_goes_away_leaves_what_was_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("trackside.curves.provider.STALE_SECONDS", 0.0)
    with OurWriter(tmp_path) as writer:
        writer.add_scalar("loss", 1.0, 1)
    is_away = False

    def find() -> list[Location]:
        if is_away:
            raise StoreUnreachable("the store does not answer")
        return [place_of(tmp_path)]

    job = JobCurves("job", find)
    assert list(job.runs()) == ["job"]
    is_away = True
    assert list(job.runs()) == list(job.runs()) == ["job"]
    assert job.problem == "the store does not answer"
    assert caplog.text.count("the curves of job are not updated") == 1
    is_away = False
    job.runs()
    assert job.problem == ""


def test_event_files_in_s3_are_followed(
    tmp_path: Path,
    s3_server: S3Server,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    serve: Callable[[Library], DataProvider],
):
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    place = locate(f"s3://{bucket}/tb", home=tmp_path)
    provider = serve(Library(lambda name: lambda: [place], ["job"]))
    with OurWriter(tmp_path) as writer:
        for step in range(2):
            writer.add_scalar("loss", step, step)
            writer.flush()
            [file] = tmp_path.glob("*tfevents*")
            place.store.put("tb/train/" + file.name, file.read_bytes())
            until_there(provider, "job/train", step + 1)


def test_of_many_large_tensors_some_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(series, "MOST_TAG_BYTES", 10_000)
    tensors = Tensors(SummaryMetadata())
    for step in range(100):
        tensors.add(step, 0.0, tensor_pb2.TensorProto(tensor_content=bytes(1000)))
    assert 4 <= len(tensors.steps) <= 10
    assert tensors.steps[0] == 0
    assert tensors.steps[-1] == 99
    assert len(tensors.steps) == len(tensors.values) == len(tensors.times)


def test_a_shape_of_billions_takes_no_memory(
    tmp_path: Path, serve: Callable[[Library], DataProvider]
):
    huge = wire.message(2, wire.message(2, wire.integer(1, 10**11)))
    blob = wire.integer(1, wire.DT_STRING) + huge + wire.message(8, b"\x89PNG")
    number = wire.integer(1, wire.DT_FLOAT) + huge + wire.message(5, bytes(4))
    contents = [
        wire.event(1.5, 1, wire.summary(wire.text(1, tag) + wire.message(8, tensor) + about))
        for tag, tensor, about in (
            ("picture", blob, wire.metadata("images")),
            ("loss", number, wire.metadata("scalars")),
        )
    ]
    plain = wire.event(1.5, 2, wire.summary(wire.simple_value("accuracy", 0.5)))
    (tmp_path / "events.out.tfevents.1").write_bytes(b"".join(map(frame, [*contents, plain])))
    provider = serve(library_of(job=tmp_path))
    assert points(provider, "job", "accuracy") == [(2, 0.5)]
    assert points(provider, "job", "loss") == []
    listed = provider.list_blob_sequences(CTX, experiment_id="", plugin_name="images")
    assert listed["job"]["picture"].max_length == 1
    read = provider.read_blob_sequences(CTX, experiment_id="", plugin_name="images", downsample=9)
    (datum,) = read["job"]["picture"]
    assert provider.read_blob(CTX, blob_key=datum.values[0].blob_key) == b"\x89PNG"
