"""What watches a training: evaluators that die or hang, rules and files that mean harm
(cases 12, 36, 37)."""

import os
import re
import signal

import psutil

from benchmarks.drill.case import Case, NotShown, Result, check, held
from benchmarks.drill.ground import Ground
from benchmarks.drill.job import DrillJob
from benchmarks.drill.numbered_lines import MARK
from benchmarks.drill.server import Server
from trackside.records import evaluator_process
from trackside.records.finding import read_findings
from trackside.records.rule_status import Evaluation, RuleStatus, read_evaluations
from trackside.system import process_table

_STEPS = 60
_TRAINS = f"""
import os, time
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range({_STEPS}):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(torch.randn(16, 4)), torch.ones(16, 1))
    loss.backward()
    optimizer.step()
    print("{MARK}", step, flush=True)
    while step == 20 and not os.path.exists(os.environ["GO"]): time.sleep(0.02)
    time.sleep(0.02)
"""
_LOOKS_AT = """
def check(step, tensors):
    print("LOOKED AT", step, flush=True)
    return "the last step" if step == LAST else None
"""
_RAISES = """
def check(step, tensors):
    raise RuntimeError("a rule with a defect")
"""
_WATCHED = ("--capture", "gradients", "--every", "1")


def evaluator_dies_and_freezes(ground: Ground) -> Result:
    """No step is left out by the rules, and the training knows nothing of it."""
    job = _submit(ground, Looks=f"LAST = {_STEPS - 1}\n{_LOOKS_AT}", Raises=_RAISES)
    job.wait_for_line(f"{MARK} 20")
    ground.until(lambda: _looked_at(job), "the rule has looked at a step")
    first = job.evaluator_pid()
    os.kill(first, signal.SIGKILL)
    second = _next_evaluator(ground, job, first)
    os.kill(second, signal.SIGSTOP)
    _next_evaluator(ground, job, second)
    ground.go()
    _wait_judged(ground, job)
    check(job.status == "Completed", f"the training is {job.status}")
    lines = job.count_lines(_STEPS)
    check(lines.is_exact, str(lines))
    raising = _evaluation(job, "Raises")
    check(raising.status is RuleStatus.ERROR, f"a rule that raises is {raising.status}")
    skipped = sorted(set(range(_STEPS)) - _looked_at(job))
    check(not skipped, f"the rule has not looked at the steps {skipped}")
    found = [each.step for each in read_findings(job.folder.rules.findings)]
    check(found == [_STEPS - 1], f"findings at the steps {found} instead of the last, once")
    return held(
        f"1 kill, 1 freeze; {_STEPS} steps, 0 skipped, 1 finding, 0 doubled; a rule that raises is "
        f"Error; training: {lines}"
    )


def _looked_at(job: DrillJob) -> set[int]:
    """By what the rule printed, under whichever evaluator."""
    logs = [path.read_text() for path in job.folder.rules.root.glob("custom/0-*/log*")]
    return {int(step) for log in logs for step in re.findall(r"^LOOKED AT (\d+)$", log, re.M)}


def _next_evaluator(ground: Ground, job: DrillJob, old: int) -> int:
    def is_there() -> bool:
        return job.evaluator_pid() != old and evaluator_process.is_alive(job.folder.rules)

    ground.until(is_there, f"another evaluator than {old}", seconds=90)
    return job.evaluator_pid()


def _submit(ground: Ground, at: Server | None = None, **rules: str) -> DrillJob:
    options: list[str] = []
    for name, source in rules.items():
        path = ground.folder / f"{name}.py"
        path.write_text(source)
        options += ["--rule", f"{path}:check"]
    go = ("--environment", f"GO={ground.go_file}")
    return ground.submit(_TRAINS, *_WATCHED, *options, *go, at=at)


def _wait_judged(ground: Ground, job: DrillJob) -> None:
    job.wait_over()
    ground.until(
        lambda: evaluator_process.is_done(job.folder.rules, job.spec), "all is judged", seconds=120
    )


def _evaluation(job: DrillJob, name: str) -> Evaluation:
    """By the file that the rule is in."""
    [found] = [
        each
        for each, rule in zip(
            read_evaluations(job.folder.rules.statuses), job.spec.debug_rules, strict=True
        )
        if f"{name}.py" in str(rule)
    ]
    return found


_SNOOPS = """
import os, socket
def check(step, tensors):
    found = [key for key, value in os.environ.items() if "CANARY" in value]
    for path in PATHS:
        try:
            open(path, "rb").read()
            found.append(os.path.basename(path))
        except OSError:
            pass
    try:
        socket.create_connection(("127.0.0.1", PORT), timeout=2).close()
        found.append("connected")
    except OSError:
        pass
    return "LEAK " + " ".join(found) if found else None
"""
_FORKS = """
import os, time
def check(step, tensors):
    while True:
        try:
            if os.fork() == 0:
                time.sleep(600)
        except OSError:
            time.sleep(0.01)
"""
_EATS = """
def check(step, tensors):
    kept = []
    while True:
        kept.append(bytearray(64 << 20))
        kept[-1][::4096] = b"x" * len(kept[-1][::4096])
"""
_LOOPS = """
def check(step, tensors):
    while True:
        pass
"""
_CANARY = "CANARY-7f3e"


def hostile_rules(ground: Ground) -> Result:
    """A server's rules that read secrets, fork, allocate and loop: confined, and ended in Error."""
    limits = {
        "TRACKSIDE_RULE_STEP_SECONDS": "8",
        "TRACKSIDE_RULE_MEMORY_GB": "0.5",
        "TRACKSIDE_RULE_PROCESSES": "32",
        "DRILL_SECRET_TOKEN": _CANARY,
        "DRILL_NOTE": _CANARY,
    }
    ground.environment.update(limits)
    server = ground.server()
    secrets = [path for path in server.home.server.root.rglob("*") if path.is_file()]
    check(secrets, "there is no secret to read")
    snoops = f"PATHS = {[str(path) for path in secrets]!r}\nPORT = {server.port}\n{_SNOOPS}"
    job = _submit(ground, server, Snoops=snoops, Forks=_FORKS, Eats=_EATS, Loops=_LOOPS)
    ground.go()
    most, memory = _watch(ground, job)
    _wait_judged(ground, job)
    check(job.status == "Completed", f"the training is {job.status}")
    lines = job.count_lines(_STEPS)
    check(lines.is_exact, str(lines))
    for name in ("Forks", "Eats", "Loops"):
        found = _evaluation(job, name)
        check(found.status is RuleStatus.ERROR, f"{name} is {found.status}: {found.details}")
    check(most <= 64, f"{most} processes at once")
    check(memory < 1 << 30, f"{memory >> 20} MB at once")
    snooping = _evaluation(job, "Snoops")
    if "was not started" in snooping.details:
        raise NotShown(f"here custom rules are refused: {snooping.details}")
    check(snooping.status.is_final, f"the rule that reads is {snooping.status}")
    check(snooping.status is not RuleStatus.ERROR, f"it was not evaluated: {snooping.details}")
    figure = (
        f"at most {most} processes and {memory >> 20} MB, 3 of 3 rules in Error; training: {lines}"
    )
    leaks = [each.message for each in read_findings(job.folder.rules.findings)]
    check(not leaks, f"a rule reached {leaks} although it {_walls(job)}")
    return held(f"0 of {len(secrets)} secrets, variables and ports reached, {figure}")


def _walls(job: DrillJob) -> str:
    """What the first line of a rule's log says about how it is shut in, without the reasons."""
    [path] = job.folder.rules.root.glob("custom/0-*/log")
    line = path.read_text().partition("\n")[0].removeprefix("trackside: this rule ")
    return line.partition(" (root:")[0]


def _watch(ground: Ground, job: DrillJob) -> tuple[int, int]:
    """The most processes and the most bytes that one rule had, until all are over."""
    most, memory = 0, 0

    def is_over() -> bool:
        nonlocal most, memory
        try:
            family = psutil.Process(job.evaluator_pid()).children(recursive=True)
        except (psutil.Error, OSError):
            family = []
        most = max(most, len(family))
        for process in family:
            status = process_table.read(f"/proc/{process.pid}/status").decode()
            if "VmRSS:" in status:
                memory = max(memory, int(status.partition("VmRSS:")[2].split()[0]) << 10)
        return evaluator_process.is_done(job.folder.rules, job.spec) and job.is_over()

    ground.until(is_over, "the rules are over", seconds=180)
    return most, memory


_PICKLES = """
import base64, glob, os, pickle, struct, sys
class Evil:
    def __reduce__(self):
        return (open, (os.environ["CANARY"], "w"))
data = pickle.dumps(Evil())
pickle.loads(data)
print("CONTROL", os.path.exists(os.environ["CANARY"]), flush=True)
os.remove(os.environ["CANARY"])
event = struct.pack("<Q", len(data)) + b"\\0" * 4 + data + b"\\0" * 4
for folder in ("model", "checkpoints", "output/data", "output/tensors", "output/tensorboard"):
    root = os.path.join("/opt/ml", folder)
    os.makedirs(os.path.join(root, "collections", "000000000"), exist_ok=True)
    os.makedirs(os.path.join(root, "segments", "worker_0"), exist_ok=True)
    names = ("a.pkl", "a.pt", "a.npy", "a.npz", "a.safetensors", "a.joblib", "a.tfevents",
             "events.out.tfevents.1.evil", "index.json", "collections/worker_0.json",
             "collections/000000000/worker_0_collections.json", "segments/worker_0/0.safetensors")
    for name in names:
        with open(os.path.join(root, name), "wb") as file:
            file.write(event if "tfevents" in name else data)
    torch_like = os.path.join(root, "zip.pt")
    import zipfile
    with zipfile.ZipFile(torch_like, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/version", "3")
print("READY", flush=True)
"""
_LOOKS = (
    ("show", "JOB"),
    ("show", "JOB", "--json"),
    ("artifacts", "JOB"),
    ("findings", "JOB"),
    ("metrics", "JOB"),
    ("tensors", "JOB"),
    ("compare", "JOB"),
    ("report", "JOB", "--output", "report.html"),
    ("rules", "check", "JOB", "--rule", "all"),
    ("reindex",),
)


def hostile_pickles(ground: Ground) -> Result:
    """A pickle that writes a file when it is loaded, wherever we might load one."""
    canary = ground.folder / "canary"
    server = ground.server()
    evil = f"cbuiltins\nopen\n(V{canary}\nVw\ntR."
    job = ground.submit(
        _PICKLES,
        *("--environment", f"CANARY={canary}", "-p", f"evil={evil}"),
        *("--rule", "all", *_WATCHED, "--checkpoint-uri", "s3://drill/checkpoints"),
        at=server,
    )
    job.wait_for_line("READY")
    _wait_judged(ground, job)
    check(b"CONTROL True" in job.raw_log(), "the pickle would not have done anything")
    check(job.status == "Completed", f"the job is {job.status}")
    looks = 0
    for at in (None, server):
        for words in _LOOKS:
            if at and words[0] == "reindex":
                continue
            arguments = [job.name if word == "JOB" else word for word in words]
            done = ground.trackside(*arguments, at=at, expect=None)
            trace = b"Traceback" in done.stderr
            check(not trace, f"{arguments}: {done.stderr.decode(errors='replace')[-400:]}")
            looks += 1
            check(not canary.exists(), f"`trackside {' '.join(arguments)}` has loaded a pickle")
    server.client("sagemaker").describe_training_job(TrainingJobName=job.name)
    check(not canary.exists(), "the server or the rules have loaded a pickle")
    return held(f"65 pickles in 5 folders and a hyperparameter, {looks} looks, 0 loaded")


CASES = (
    Case(12, "evaluator killed and frozen", evaluator_dies_and_freezes, seconds=60),
    Case(36, "hostile pickles", hostile_pickles, seconds=40),
    Case(37, "hostile rules", hostile_rules, seconds=50),
)
