"""`trackside.SummaryWriter`, judged by torch's bytes and TensorBoard's readers."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch.utils.tensorboard import SummaryWriter as TorchWriter

import trackside
from trackside.curves import records


def event_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if "tfevents" in path.name)


def contents(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return [data[start:end] for start, end in records.contents(data)]


def accumulated(folder: Path) -> EventAccumulator:
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    return events


def write_one_of_each(writer) -> None:
    at = {"walltime": 1.7e9 + 0.25}
    for step in (0, 1, 127, 128, 70_000, 2**40, -3):
        writer.add_scalar("loss", step / 7, step, **at)
    for value in (0.0, -0.0, float("nan"), float("inf"), 1e-45, numpy.float32(0.1), 7, True):
        writer.add_scalar("values", value, 1, **at)
    writer.add_scalar("no step", torch.tensor(2.5), **at)
    writer.add_scalar("tensor step", 1.0, torch.tensor(5), **at)
    writer.add_scalar("é" * 100, 1.0, 1, **at)
    writer.add_scalar("new", 2.5, 9, new_style=True, **at)
    writer.add_scalar("double", 0.1, 9, new_style=True, double_precision=True, **at)
    writer.add_text("note", "# héading\n\ntext", 3, **at)
    rng = numpy.random.default_rng(0)
    writer.add_histogram("weights", rng.normal(size=1000), 4, **at)
    writer.add_histogram("few", numpy.array([0.0, 0.0, 5.0]), 4, **at)
    writer.add_histogram("bins", rng.normal(size=100), 4, bins="auto", **at)
    writer.add_histogram("torch", torch.ones(3, 3), 4, **at)


def test_every_record_has_the_bytes_that_torch_writes(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for writer in (trackside.SummaryWriter(ours), TorchWriter(str(theirs))):
        with writer:
            write_one_of_each(writer)
    (our_file,), (their_file,) = event_files(ours), event_files(theirs)
    # The first says when the file was made, and torch's also by which library.
    assert contents(our_file)[1:] == contents(their_file)[1:]
    assert contents(their_file)[0][9:].startswith(contents(our_file)[0][9:])


def test_scalars_that_belong_together_are_runs_of_their_own_as_with_torch(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for writer in (trackside.SummaryWriter(ours), TorchWriter(str(theirs))):
        with writer:
            writer.add_scalars("a/b", {"train": 1.0, "test": 2.0}, 3, walltime=5.0)
    folders = [
        {str(path.parent.relative_to(root)): contents(path)[1:] for path in event_files(root)}
        for root in (ours, theirs)
    ]
    assert folders[0] == folders[1]
    assert set(folders[0]) == {".", "a_b_train", "a_b_test"}


def test_hyperparameters_are_those_that_torch_writes(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for writer in (trackside.SummaryWriter(ours), TorchWriter(str(theirs))):
        with writer:
            writer.add_hparams(
                {"lr": 0.1, "layers": 3, "name": "adam"},
                {"accuracy": 0.9},
                hparam_domain_discrete={"layers": [1, 2, 3]},
                run_name="tried",
                global_step=7,
            )
    events = [hparams_events(event_files(root / "tried")[0]) for root in (ours, theirs)]
    assert events[0] == events[1]
    assert [step for step, _, _ in events[0]] == [7, 7, 7, 7]


def hparams_events(path: Path) -> list[tuple[int, str, object]]:
    """Parsed, because a map's entries have no order."""
    events = map(Event.FromString, contents(path)[1:])
    return [
        (
            event.step,
            event.summary.value[0].tag,
            HParamsPluginData.FromString(event.summary.value[0].metadata.plugin_data.content),
        )
        for event in events
    ]


def test_tensorboard_sees_a_purge_step(tmp_path):
    with trackside.SummaryWriter(tmp_path) as writer:
        for step in range(10):
            writer.add_scalar("loss", 1.0, step)
    time.sleep(1.1)  # a later file's name: they are ordered by whole seconds
    with trackside.SummaryWriter(tmp_path, purge_step=5) as writer:
        writer.add_scalar("loss", 2.0, 5)
    points = accumulated(tmp_path).Scalars("loss")
    assert [(point.step, point.value) for point in points][-2:] == [(4, 1.0), (5, 2.0)]


def test_a_flush_leaves_everything_in_the_file(tmp_path):
    writer = trackside.SummaryWriter(tmp_path)
    for step in range(1000):
        writer.add_scalar("loss", step, step)
    writer.flush()
    assert len(accumulated(tmp_path).Scalars("loss")) == 1000
    writer.close()


def test_adding_after_close_opens_the_writer_again(tmp_path):
    writer = trackside.SummaryWriter(tmp_path)
    writer.add_scalar("loss", 1.0, 1)
    writer.close()
    writer.add_scalar("loss", 2.0, 2)
    writer.close()
    assert [point.step for point in accumulated(tmp_path).Scalars("loss")] == [1, 2]


SCRIPT = """
import sys, trackside
writer = trackside.SummaryWriter(sys.argv[1])
for step in range(500):
    writer.add_scalar("loss", 0.5, step)
assert not {"torch", "tensorflow", "tensorboard", "numpy"} & set(sys.modules)
"""


def test_a_script_that_never_closes_loses_nothing_and_loads_no_framework(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(trackside.__file__).parent.parent)}
    subprocess.run([sys.executable, "-c", SCRIPT, tmp_path], check=True, env=environment)
    assert len(accumulated(tmp_path).Scalars("loss")) == 500


def test_values_are_those_of_the_time_of_the_call(tmp_path):
    value, array = torch.tensor(1.0), numpy.ones(4)
    with trackside.SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", value, 1)
        writer.add_histogram("weights", array, 1)
        value += 1
        array += 1
    events = accumulated(tmp_path)
    assert events.Scalars("loss")[0].value == 1.0
    assert events.Histograms("weights")[0].histogram_value.sum == 4.0


def test_the_error_for_what_it_cannot_write_names_the_writer_that_can(tmp_path):
    with trackside.SummaryWriter(tmp_path) as writer:
        with pytest.raises(AttributeError, match=r"torch\.utils\.tensorboard.*add_image"):
            writer.add_image("picture", None)
        with pytest.raises(TypeError, match="is not a scalar"):
            writer.add_scalar("loss", [1, 2], 1)


def test_a_full_disk_tears_no_record(tmp_path):
    code = (
        "import resource, signal, sys, trackside\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "writer = trackside.SummaryWriter(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))\n"
        "for step in range(100): writer.add_scalar('loss', step, step)\n"
        "try: writer.flush()\n"
        "except OSError: print('full')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        "writer.close()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(trackside.__file__).parent.parent)}
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path], env=environment, capture_output=True, text=True
    )
    assert (ended.stdout, ended.returncode) == ("full\n", 0), ended.stderr
    assert len(accumulated(tmp_path).Scalars("loss")) == 100
