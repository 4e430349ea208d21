"""The jobs that `benchmarks/page.py` shows in a browser. Made once, in benchmarks/.data/page.

Jobs are what they leave: a request and a journal, curves, logs and tensors in storage or in the
folder of the job.
"""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.event_data import copy_run, values_of, write_run
from benchmarks.heat_map import COLUMNS, NUM_LAYERS
from benchmarks.job_table import make_jobs
from benchmarks.log_search import written_log
from trackside.capture.writing.segments import StepRecord
from trackside.capture.writing.writer import SegmentWriter
from trackside.files import durable
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import spec_bytes
from trackside.records.layout import TENSORBOARD, Home, JobKeys, curves_of, tensors_of
from trackside.records.spec import JobSpec
from trackside.settings import Settings
from trackside.storage.locate import locate
from trackside.system import processes

DATA = Path("benchmarks/.data/page")
NUM_DISTINCT = 10
"""Curves that differ; the files of other runs are copies."""
NUM_VALUES = 64
"""Elements of a tensor that was saved whole."""
_ENDED = ("Starting", "Downloading", "Training", "Uploading", "Completed")
_RUNNING = _ENDED[:3]


def run_name(number: int) -> str:
    return f"run-{number:03d}"


def curves_home(num_runs: int, num_points: int) -> Home:
    """Runs that have ended, each with one curve in storage."""

    def make(home: Home) -> None:
        paths: list[Path] = []
        for number in range(num_runs):
            spec = _job(home, run_name(number), _ENDED)
            folder = curves_folder(home, spec)
            if number < NUM_DISTINCT:
                paths.append(write_run(folder, values_of(number, num_points)))
            else:
                copy_run(paths[number % NUM_DISTINCT], folder)

    return _made(f"{num_runs}x{num_points}", make)


def make_idle_runs(home: Home, num_runs: int) -> None:
    """Runs that write nothing. This process is their supervisor, as their records say, so that
    nobody starts another."""
    for number in range(num_runs):
        _job(home, run_name(number), _RUNNING)
        host = home.job(run_name(number)).host("algo-1", 1)
        write_run(host.inside(TENSORBOARD), values_of(number % NUM_DISTINCT, 1000))
        durable.write_record(host.supervisor, processes.myself())


def jobs_home(count: int) -> Home:
    return _made(f"{count}-jobs", lambda home: make_jobs(home, count))


def log_home(num_lines: int) -> Home:
    """One job whose log is in its folder, and one whose log is in storage alone."""

    def make(home: Home) -> None:
        for name in ("in-folder", "in-storage"):
            written_log(home, num_lines, name)
        shutil.rmtree(home.job("in-storage").root)

    return _made(f"{num_lines}-lines", make)


def heat_home(num_steps: int) -> Home:
    """One job with saved reductions, and one with whole tensors."""

    def make(home: Home) -> None:
        for name, is_whole in (("reduced", False), ("whole", True)):
            spec = _job(home, name, _ENDED, DebugHookConfig={"S3OutputPath": "s3://out/tensors"})
            where = tensors_of(spec, JobKeys.of(spec))
            assert where is not None
            with SegmentWriter(where, "worker_0", home=home.root) as writer:
                _save_steps(writer, num_steps, is_whole=is_whole)

    return _made(f"heat-{num_steps}", make)


def make_ended_job(home: Home, name: str) -> JobSpec:
    return _job(home, name, _ENDED)


def curves_folder(home: Home, spec: JobSpec) -> Path:
    folder = locate(curves_of(spec), home=home.root).local
    assert folder is not None
    return folder


def _save_steps(writer: SegmentWriter, num_steps: int, *, is_whole: bool) -> None:
    names = tuple(
        f"gradient/layers.{number // 4}.{'qkvo'[number % 4]}.weight" for number in range(NUM_LAYERS)
    )
    collections = {"gradients": {"name": "gradients", "include_regex": ["^gradient/"]}}
    writer.put_collections({"collections": collections})
    rng = np.random.default_rng(0)
    sizes = np.exp(np.linspace(-8, 0, NUM_LAYERS, dtype=np.float32))[:, None]
    for step in range(num_steps):
        if is_whole:
            values = sizes * rng.standard_normal((NUM_LAYERS, NUM_VALUES), np.float32)
            tensors = dict(zip(names, values, strict=True))
            writer.add(StepRecord(step, "TRAIN", step, time.time(), tensors))
        else:
            matrix = sizes * rng.standard_normal((NUM_LAYERS, len(COLUMNS)), np.float32)
            saved = (names, COLUMNS, np.abs(matrix))
            writer.add(StepRecord(step, "TRAIN", step, time.time(), {}, *saved))


def _made(name: str, make: Callable[[Home], None]) -> Home:
    """What is there is complete: it gets its name at last."""
    final = (DATA / name).resolve()
    if not final.exists():
        unfinished = final.with_name(f"{name}.part")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700, parents=True)
        make(Home(unfinished))
        unfinished.rename(final)
        settings = Settings.load({"TRACKSIDE_HOME": str(final), "TRACKSIDE_S3": "embedded"})
        Jobs(settings, {}).reindex()
    return Home(final)


def _job(home: Home, name: str, moves: tuple[str, ...], **members: Any) -> JobSpec:
    spec = _spec(name, **members)
    folder = home.job(name)
    folder.root.mkdir(parents=True)
    folder.spec.write_bytes(spec_bytes(spec))
    lines = [
        {"kind": "status", "secondary": move, "seq": seq, "time": 1.7e9 + seq}
        for seq, move in enumerate(moves, 1)
    ]
    folder.journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return spec


def _spec(name: str, **members: Any) -> JobSpec:
    return JobSpec.from_request(
        {
            "TrainingJobName": name,
            "HyperParameters": {"sagemaker_program": "train.py"},
            "OutputDataConfig": {"S3OutputPath": "s3://out/runs"},
            **members,
        }
    )
