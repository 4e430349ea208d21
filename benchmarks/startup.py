"""From `train` to the user's first line: ours, the sagemaker-training package, and bare Python; and
what commands cost that only read records."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.download import peer_folder
from benchmarks.report import Comparison, Target

PEERS = Path(__file__).parent / ".peers"
PACKAGE = "sagemaker-training"
VERSION = "5.1.4"

_FIRST_LINE = """\
import time
now = time.time_ns()
import os
open(os.environ["STAMP"], "w").write(str(now))
"""


NUM_JOBS = 20
READING = (
    ("--version",),
    ("--help",),
    ("jobs",),
    ("jobs", "--json"),
    ("show", "job-3"),
    ("logs", "job-3"),
    ("findings", "job-3"),
    ("artifacts", "job-3"),
    ("queue",),
)
"""Commands that read records and nothing else."""
DRAWING = (("metrics", "job-3"), ("compare", "job-3", "job-4"), ("rules",))
"""These read curves, or load every rule; both need numpy."""
MOST_MS = 100.0
LIMIT = "the most it may take"
PYTHON = "python -c pass"
AWS = "aws --version"


def run(quick: bool = False) -> Iterator[Comparison]:
    num_runs = 5 if quick else 21
    yield first_line(num_runs)
    yield whole_job(num_runs)
    yield from commands(num_runs)


def first_line(num_runs: int) -> Comparison:
    """Medians of interleaved runs, so that a busy moment of the machine hits all of them."""
    peer = _peer()
    with tempfile.TemporaryDirectory() as folder:
        base = _base(Path(folder))
        ours = {"PYTHONPATH": str(Path(__file__).parent.parent / "src")}
        programs: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {
            "trackside": ([sys.executable, "-m", "trackside.toolkit"], ours),
            PACKAGE: ([str(peer / "bin" / "train")], {}),
            "python alone": ([sys.executable, str(base / "code" / "train.py")], {}),
        }
        times: dict[str, list[float]] = {name: [] for name in programs}
        for turn in range(num_runs + 1):
            for name, (command, variables) in programs.items():
                took = _measure(command, base, variables)
                if turn:  # the first one fills the caches
                    times[name].append(took)
    return Comparison(
        title="From the start of `train` to the script's first line",
        unit="ms",
        figures={name: statistics.median(taken) for name, taken in times.items()},
        targets=(Target(PACKAGE, 3.0),),
        notes=(
            f"Medians of {num_runs} runs each, taken in turn. One host, one hyperparameter, "
            f"no requirements. {PACKAGE} {VERSION} from its own environment.",
        ),
    )


def whole_job(num_runs: int) -> Comparison:
    """`trackside run` does far more before that line: it claims, packs, detaches, isolates."""
    peer = _peer()
    times: dict[str, list[float]] = {"trackside": [], PACKAGE: []}
    with tempfile.TemporaryDirectory() as folder:
        base = _base(Path(folder, "base"))
        home = {"TRACKSIDE_HOME": str(Path(folder, "home"))}
        script = str(base / "code" / "train.py")
        for turn in range(num_runs + 1):
            command = [sys.executable, "-m", "trackside.cli", "run", script, "--wait"]
            job = _measure(command, base, home, program=None)
            package = _measure([str(peer / "bin" / "train")], base, {})
            if turn:
                times["trackside"].append(job)
                times[PACKAGE].append(package)
    return Comparison(
        title="From `trackside run noop.py` typed to the script's first line",
        unit="ms",
        figures={name: statistics.median(taken) for name, taken in times.items()},
        targets=(Target(PACKAGE, 1.3),),
        notes=(
            f"Medians of {num_runs} runs each, taken in turn. The peer is only the package's "
            "`train`; ours is a whole job: checked, packed, claimed, detached and isolated.",
        ),
    )


def commands(num_runs: int) -> Iterator[Comparison]:
    """Of a home with jobs that have ended; by processor time, which a busy machine moves less."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {"TRACKSIDE_HOME": str(Path(folder, "home"))}
        _fill(Path(folder), variables)
        ours = [sys.executable, "-m", "trackside.cli"]
        programs = {
            **{" ".join(words): [*ours, *words] for words in (*READING, *DRAWING)},
            PYTHON: [sys.executable, "-c", "pass"],
            AWS: [f"{peer_folder('awscli', 'awscli')}/aws", "--version"],
        }
        times: dict[str, list[float]] = {name: [] for name in programs}
        for turn in range(num_runs + 1):
            for name, command in programs.items():
                took = _processor_ms(command, variables)
                if turn:
                    times[name].append(took)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    for words in (*READING, *DRAWING):
        name = " ".join(words)
        peers = {peer: medians[peer] for peer in (PYTHON, AWS)}
        limit = {} if words in DRAWING else {LIMIT: MOST_MS}
        yield Comparison(
            title=f"Processor time of `trackside {name}`",
            unit="ms",
            figures={"trackside": medians[name], **peers, **limit},
            targets=tuple(Target(each, 1.0) for each in limit),
            notes=(
                f"Medians of {num_runs} runs each, taken in turn; user and system time, on a home "
                f"with {NUM_JOBS} jobs that have ended.",
            ),
        )


def _fill(folder: Path, variables: Mapping[str, str]) -> None:
    script = folder / "train.py"
    script.write_text("for step in range(20):\n    print(f'loss={1 / (step + 1):.3f}')\n")
    for number in range(NUM_JOBS):
        command = [sys.executable, "-m", "trackside.cli", "run", str(script), "--wait"]
        _processor_ms([*command, "--name", f"job-{number}"], variables)


def _processor_ms(command: Sequence[str], variables: Mapping[str, str]) -> float:
    process = subprocess.Popen(
        command,
        env={"PATH": os.environ["PATH"], **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return (used.ru_utime + used.ru_stime) * 1000


def _measure(
    command: Sequence[str],
    base: Path,
    variables: Mapping[str, str],
    program: str | None = "train.py",
) -> float:
    stamp = base / "stamp"
    environment = {"PATH": os.environ["PATH"], "STAMP": str(stamp), **variables}
    if program is not None:
        environment |= {
            "SAGEMAKER_BASE_DIR": str(base),
            "SAGEMAKER_PROGRAM": program,
            "SM_STUDIO_LOCAL_MODE": "true",  # the package would wait for algo-1 to resolve
        }
    with (base / "log").open("ab") as log:
        started = time.time_ns()
        done = subprocess.run(command, env=environment, stdout=log, stderr=log)
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}: {(base / 'log').read_text()}")
    return (int(stamp.read_text()) - started) / 1e6


def _base(folder: Path) -> Path:
    config = folder / "input" / "config"
    for path in (config, folder / "code", folder / "model", folder / "output" / "data"):
        path.mkdir(parents=True)
    (folder / "code" / "train.py").write_text(_FIRST_LINE)
    (config / "hyperparameters.json").write_text(json.dumps({"lr": "0.1"}))
    (config / "inputdataconfig.json").write_text("{}")
    resources = {"current_host": "algo-1", "hosts": ["algo-1"], "network_interface_name": "eth0"}
    (config / "resourceconfig.json").write_text(json.dumps(resources))
    return folder


def _peer() -> Path:
    """The package in an environment of its own; made once. It needs a C compiler."""
    folder = PEERS / f"{PACKAGE}-{VERSION}"
    if not (folder / "bin" / "train").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, f"{PACKAGE}=={VERSION}"], check=True)
    return folder
