"""What we add to a container, against `docker run`: the sandbox alone, and a whole job. And what
capture and rules take from a training in it, against the process sandbox."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy

from benchmarks.report import Comparison, Target
from trackside.containers.engine_client import find_engine
from trackside.jobs.jobs import Jobs
from trackside.records.spec import JobSpec
from trackside.settings import Settings
from trackside.supervisor.container_request import ContainerPlan
from trackside.supervisor.container_sandbox import ContainerSandbox
from trackside.supervisor.sandbox import Running, SandboxPlan

BASE = "trackside-test/python"
IMAGE = "trackside-test/compiled"
"""The same with Python's library compiled, as most images have it."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
SOCKET = CACHE / "trackside-tests" / "docker" / "docker.sock"
"""Of the engine that .ci/docker starts, which has the image."""
PLAIN = "docker run"
LIMIT = "the most it may add"
MOST_MS = 500.0
PROGRAM = "import time; now = time.time_ns(); open('/opt/ml/stamp', 'w').write(str(now))"
JOB = "trackside run --image"
STAMP = 'import time; print("STAMP", time.time_ns(), flush=True)'
PACKAGES = Path(numpy.__file__).parents[1]
"""torch among them; a channel of the container, whose Python is of the same version."""
SOURCE = Path(__file__).parents[1] / "src"
"""For Debian's Python in a process; a container has it by a mount of its own."""
DEBIANS_PYTHON = "/usr/bin/python3"
"""The same as in the image, where this machine is a Debian of the same release."""
STEPS = 60
TRAINING = f"""
import time, torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
first, second, last = nn.Linear(256, 512), nn.Linear(512, 512), nn.Linear(512, 10)
net = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
loss_of = nn.CrossEntropyLoss()
data, goal = torch.randn(128, 256), torch.randint(0, 10, (128,))
for step in range({STEPS} + 10):
    if step == 10:
        began = time.process_time()
    optimizer.zero_grad()
    loss = loss_of(net(data), goal)
    loss.backward()
    optimizer.step()
print("TOOK", 1000 * (time.process_time() - began) / {STEPS}, flush=True)
"""
CLIENTS = Path(__file__).parents[1] / ".venv-clients" / "bin" / "python"
"""SageMaker's own SDK, version 2; .ci/clients makes the environment."""
LOCAL_MODE = "SageMaker's Local Mode"
TRAIN_IMAGE = "trackside-test/train"
TRAIN_LINES = f"""FROM {IMAGE}
RUN printf '#!/usr/bin/python3\\n{STAMP}\\n' >/usr/bin/train && chmod +x /usr/bin/train
"""
"""The image that has its own program `train`: neither side adds a toolkit of its own."""
_FIT = """
import time
print("BEFORE", time.time_ns(), flush=True)
Estimator(
    image_uri="{image}", role="arn:aws:iam::000000000000:role/none", instance_count=1,
    instance_type="local", output_path="file://{folder}/out",{session}
).fit()
print("AFTER", time.time_ns(), flush=True)
"""
_IMPORTS = {
    "trackside": "from trackside import Estimator",
    LOCAL_MODE: "from sagemaker.estimator import Estimator\n"
    "from sagemaker.local import LocalSession",
}
_NO_TELEMETRY = "SageMaker: {PythonSDK: {Modules: {TelemetryOptOut: true}}}\nSchemaVersion: '1.0'\n"
RULES = ("VanishingGradient", "ExplodingTensor", "LossNotDecreasing")
PROCESS = "process sandbox"
SHARE = 0.98


def run(quick: bool = False) -> Iterator[Comparison]:
    num_runs = 3 if quick else 10
    lines = f"FROM {BASE}\nRUN python3 -m compileall -q /usr/lib/python3.11 || true\n"
    build = ["docker", "--host", _engine(), "build", "--network=none", "--quiet", "-t", IMAGE, "-"]
    subprocess.run(build, input=lines.encode(), check=True, capture_output=True)
    yield from sandbox_alone(num_runs)
    yield whole_job(num_runs)
    if CLIENTS.exists() and shutil.which("docker-compose"):
        yield from local_mode(num_runs)
    yield capture_and_rules(num_runs)


def sandbox_alone(num_runs: int) -> Iterator[Comparison]:
    engine = _engine()
    ways: dict[str, Callable[[Path], None]] = {
        "trackside": lambda folder: _run_ours(engine, folder),
        PLAIN: lambda folder: _run_plain(engine, folder),
    }
    first: dict[str, list[float]] = {name: [] for name in ways}
    whole: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(num_runs + 1):
        for name, way in ways.items():
            line, end = _measure(way)
            if turn:  # the first one fills the caches
                first[name].append(line)
                whole[name].append(end)
    yield _comparison("to the script's first line", first, num_runs)
    yield _comparison("until it is removed", whole, num_runs)


def whole_job(num_runs: int) -> Comparison:
    """A command typed, to the script's first line: claimed, packed, detached, in a container."""
    times: dict[str, list[float]] = {JOB: [], PLAIN: []}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "noop.py").write_text(STAMP)
        (Path(folder) / "ml").mkdir()
        home = {"TRACKSIDE_HOME": str(Path(folder, "home")), "DOCKER_HOST": _engine()}
        command = [sys.executable, "-m", "trackside.cli", "run", "noop.py", "--image", IMAGE]
        plain = ["docker", "run", "--rm", "--volume", f"{folder}:/opt/ml", IMAGE]
        for turn in range(num_runs + 1):
            ways = {JOB: [*command, "--wait"], PLAIN: [*plain, "python3", "/opt/ml/noop.py"]}
            for name, words in ways.items():
                began = time.time_ns()
                output = subprocess.run(
                    words,
                    cwd=folder,
                    env={**os.environ, **home},
                    stdout=subprocess.PIPE,
                    check=True,
                ).stdout.decode()
                first = int(output.partition("STAMP ")[2].split()[0])
                if turn:
                    times[name].append((first - began) / 1e6)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    return Comparison(
        title="`trackside run noop.py --image` to the script's first line: added to `docker run`",
        unit="ms",
        figures={"trackside": medians[JOB] - medians[PLAIN], LIMIT: MOST_MS},
        targets=(Target(LIMIT, 1.0),),
        notes=(
            f"Medians of {num_runs} runs each, taken in turn, with one image: "
            f"{medians[JOB]:.0f} ms, and {medians[PLAIN]:.0f} ms by `docker run --rm`. "
            "Ours is a whole job.",
        ),
    )


def local_mode(num_runs: int) -> Iterator[Comparison]:
    """The same lines of code with our SDK and with SageMaker's, which runs Docker Compose."""
    build = ["docker", "--host", _engine(), "build", "--network=none", "--quiet"]
    subprocess.run(
        [*build, "-t", TRAIN_IMAGE, "-"],
        input=TRAIN_LINES.encode(),
        check=True,
        capture_output=True,
    )
    first: dict[str, list[float]] = {name: [] for name in _IMPORTS}
    whole: dict[str, list[float]] = {name: [] for name in _IMPORTS}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sdk.yaml").write_text(_NO_TELEMETRY)
        for turn in range(num_runs + 1):
            for name in _IMPORTS:
                line, end = _fit_ms(name, folder)
                if turn:
                    first[name].append(line)
                    whole[name].append(end)
    for what, times in (("to the container's first line", first), ("until it returns", whole)):
        yield Comparison(
            title=f"`Estimator(image_uri=…, instance_type='local').fit()` {what}",
            unit="ms",
            figures={name: statistics.median(taken) for name, taken in times.items()},
            targets=(Target(LOCAL_MODE, 1.0),),
            notes=(
                f"Medians of {num_runs} runs each, taken in turn, with one image that has its own "
                "`train`. From the call of fit(): imports are not counted. SageMaker's SDK runs "
                "docker-compose and sends no telemetry.",
            ),
        )


def _fit_ms(name: str, folder: str) -> tuple[float, float]:
    """Milliseconds from the call of `fit` to the first line, and to its return."""
    session = " sagemaker_session=LocalSession()," if name == LOCAL_MODE else ""
    program = _IMPORTS[name] + _FIT.format(image=TRAIN_IMAGE, folder=folder, session=session)
    environ = {
        **os.environ,
        "TRACKSIDE_HOME": f"{folder}/home",
        "DOCKER_HOST": _engine(),
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "us-east-1",
        "SAGEMAKER_USER_CONFIG_OVERRIDE": f"{folder}/sdk.yaml",
    }
    python = str(CLIENTS) if name == LOCAL_MODE else sys.executable
    result = subprocess.run(
        [python, "-c", program],
        env=environ,
        cwd=folder,
        stdout=subprocess.PIPE,
        check=True,
    )
    output = result.stdout.decode()
    before, line, after = (
        int(output.partition(f"{word} ")[2].split()[0]) for word in ("BEFORE", "STAMP", "AFTER")
    )
    return (line - before) / 1e6, (after - before) / 1e6


def capture_and_rules(num_runs: int) -> Comparison:
    """Processor time of a step with tensors captured and rules at work, which a busy machine moves
    less than the time that passes."""
    took: dict[str, list[float]] = {"trackside": [], PROCESS: []}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        source.mkdir()
        (source / "train.py").write_text(TRAINING)
        environ = {**os.environ, "TRACKSIDE_HOME": f"{folder}/home", "DOCKER_HOST": _engine()}
        jobs = Jobs(Settings.load(environ), environ)
        for turn in range(num_runs + 1):
            for name in took:
                request = _request(f"{name.split()[0]}-{turn}", str(source), name == "trackside")
                step = _step_ms(jobs, request)
                if turn:
                    took[name].append(step)
    return Comparison(
        title="A training step with capture and rules, in a container and in a process",
        unit="ms of processor time",
        figures={name: statistics.median(taken) for name, taken in took.items()},
        targets=(Target(PROCESS, SHARE),),
        notes=(
            f"Medians of {num_runs} runs each, taken in turn: {STEPS} steps of a network with "
            f"400,000 parameters, every fifth one captured, with {len(RULES)} rules. Both with "
            "Debian's Python and the same torch. Ours is the container.",
        ),
    )


def _request(name: str, source: str, is_container: bool) -> dict[str, Any]:
    channel = {
        "ChannelName": "packages",
        "DataSource": {"S3DataSource": {"S3Uri": str(PACKAGES)}},
    }
    collections = [{"CollectionName": each} for each in ("gradients", "weights", "losses")]
    rules = [
        {"RuleConfigurationName": each, "RuleParameters": {"rule_to_invoke": each}}
        for each in RULES
    ]
    request: dict[str, Any] = {
        "TrainingJobName": name,
        "HyperParameters": {
            "sagemaker_program": "train.py",
            "sagemaker_submit_directory": source,
        },
        "OutputDataConfig": {"S3OutputPath": "s3://benchmark/out"},
        "InputDataConfig": [channel],
        "Environment": {"PYTHONPATH": f"/opt/ml/input/data/packages:{SOURCE}"},
        "DebugHookConfig": {
            "S3OutputPath": "s3://benchmark/debug",
            "HookParameters": {"save_interval": "5"},
            "CollectionConfigurations": collections,
        },
        "DebugRuleConfigurations": rules,
        "Trackside": {"Python": DEBIANS_PYTHON},
    }
    if is_container:
        request["AlgorithmSpecification"] = {"TrainingImage": IMAGE}
        request["Trackside"]["Sandbox"] = "docker"
    return request


def _step_ms(jobs: Jobs, request: dict[str, Any]) -> float:
    name = request["TrainingJobName"]
    jobs.submit(JobSpec.from_request(request))
    while jobs.describe(name)["TrainingJobStatus"] == "InProgress":
        time.sleep(0.2)
    lines = b"".join(line.data for line in jobs.logs(name)).decode().splitlines()
    [line] = [line for line in lines if line.startswith("TOOK ")]
    return float(line.removeprefix("TOOK "))


def _engine() -> str:
    return f"unix://{SOCKET}" if SOCKET.exists() else find_engine(os.environ)


def _comparison(what: str, times: dict[str, list[float]], num_runs: int) -> Comparison:
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    return Comparison(
        title=f"Container from its start {what}: added to `docker run`",
        unit="ms",
        figures={"trackside": medians["trackside"] - medians[PLAIN], LIMIT: MOST_MS},
        targets=(Target(LIMIT, 1.0),),
        notes=(
            f"Medians of {num_runs} runs each, taken in turn, with one image: "
            f"{medians['trackside']:.0f} ms, and {medians[PLAIN]:.0f} ms by `docker run --rm`. "
            "Ours has our own pipe for the log, init, labels, limits and records; both remove the "
            "container.",
        ),
    )


def _measure(way: Callable[[Path], None]) -> tuple[float, float]:
    """Milliseconds to the first line, and to the end."""
    with tempfile.TemporaryDirectory() as folder:
        ml = Path(folder, "ml")
        ml.mkdir()
        began = time.time_ns()
        way(Path(folder))
        ended = time.time_ns()
        first = int((ml / "stamp").read_text())
        return (first - began) / 1e6, (ended - began) / 1e6


def _run_ours(engine: str, folder: Path) -> None:
    sandbox = ContainerSandbox(ContainerPlan(image=IMAGE, engine=engine, network="none"))
    plan = SandboxPlan(
        folder=folder / "sandbox",
        ml=folder / "ml",
        command=["python3", "-c", PROGRAM],
        log=folder / "log",
        nonce=f"benchmark-{time.monotonic_ns()}",
    )
    sandbox.start(plan)
    while sandbox.poll(plan) == Running():
        time.sleep(0.002)
    _wait_for_removal(folder / "sandbox" / "output")


def _wait_for_removal(pipe: Path) -> None:
    while pipe.exists():
        time.sleep(0.002)


def _run_plain(engine: str, folder: Path) -> None:
    command = ["docker", "--host", engine, "run", "--rm", "--network", "none"]
    command += ["--volume", f"{folder / 'ml'}:/opt/ml", IMAGE, "python3", "-c", PROGRAM]
    subprocess.run(command, check=True)
