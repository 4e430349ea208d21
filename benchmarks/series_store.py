"""The server's share of charts: the list of a job with many curves, and the look for new points of
many running jobs. `page.py` measures charts, from the navigation to the screen.

Each measurement is a process of its own.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.event_data import append_point
from benchmarks.page_data import curves_folder, make_ended_job, make_idle_runs, run_name
from benchmarks.report import Comparison, Target
from trackside.curves.event_file import EventFile
from trackside.jobs.jobs import Jobs
from trackside.records.layout import TENSORBOARD, Home
from trackside.settings import Settings
from trackside.views.curves.curve_list import curve_id
from trackside.views.curves.series import CurveReader, CurveRef

NUM_METRICS = 2000
BAR = "the bar"
LIST_MS, IDLE_MS = 100.0, 10.0


def run(quick: bool = False) -> list[Comparison]:
    return [_metrics(), _idle(10 if quick else 100)]


def _metrics() -> Comparison:
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as folder:
        home = Home(Path(folder))
        file = EventFile(curves_folder(home, make_ended_job(home, run_name(0))))
        for step in range(50):
            for number in range(NUM_METRICS):
                file.add((f"layer_{number:04d}/value", random.random(), step, 1.7e9 + step))
        file.close()
        _measured("list", home, 1)
        figures = _measured("list", home, 1)
    return Comparison(
        f"The list of a job's {NUM_METRICS:,} metrics",
        "ms",
        {"trackside": figures["again"] * 1e3, BAR: LIST_MS},
        targets=(Target(BAR, 1.0),),
        notes=(f"The first time in a process: {figures['seconds'] * 1e3:.0f} ms.",),
    )


def _idle(num_runs: int) -> Comparison:
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as folder:
        home = Home(Path(folder))
        make_idle_runs(home, num_runs)
        figures = _measured("idle", home, num_runs)
    return Comparison(
        f"A look for new points of {num_runs} running jobs that write nothing",
        "ms of processor",
        {"trackside": figures["cpu"] * 1e3, BAR: IDLE_MS},
        targets=(Target(BAR, 1.0),),
        notes=(f"From a new point in the file to the answer: {figures['delay'] * 1e3:.0f} ms.",),
    )


def _measured(what: str, home: Home, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.series_store", what, str(home.root), str(count)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _reader(home: str) -> CurveReader:
    variables = {"TRACKSIDE_HOME": home, "TRACKSIDE_S3": "embedded"}
    return CurveReader(Jobs(Settings.load(variables), variables))


def _serve_list(home: str, count: int) -> dict[str, Any]:
    reader = _reader(home)
    moments = [time.perf_counter()]
    for _ in range(2):
        json.dumps([info.as_json() for info in reader.curves(run_name(0))])
        moments.append(time.perf_counter())
    return {"seconds": moments[1] - moments[0], "again": moments[2] - moments[1]}


def _serve_idle(home: str, count: int) -> dict[str, Any]:
    """Polled for ten seconds, then with one new point."""
    reader = _reader(home)
    live = reader.live(CurveRef(run_name(n), curve_id(".", "loss")) for n in range(count))
    time.sleep(1.0)
    live.poll()
    began = time.process_time()
    num_polls = 40
    for _ in range(num_polls):
        assert live.poll() == []
        time.sleep(0.25)
    cpu = (time.process_time() - began) / num_polls
    append_point(Home(Path(home)).job(run_name(0)).host("algo-1", 1).inside(TENSORBOARD), 1.0)
    added = time.perf_counter()
    while not live.poll():
        time.sleep(0.01)
    return {"cpu": cpu, "delay": time.perf_counter() - added}


def main() -> None:
    what, home, count = sys.argv[1:]
    serve = {"list": _serve_list, "idle": _serve_idle}[what]
    print(json.dumps(serve(home, int(count))))


if __name__ == "__main__":
    main()
