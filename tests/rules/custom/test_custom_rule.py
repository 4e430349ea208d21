"""Rules that mean harm, each in the confinement that this machine gives, and in lesser ones."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import S3Server
from tests.rules.custom.judging import (
    IS_ROOT,
    NUM_STEPS,
    Judged,
    judge,
    judge_elsewhere,
    make_job,
    outcome,
    record,
    start,
)
from tests.wait import until
from trackside.records.spec import RuleConfiguration
from trackside.rules.custom.custom_rule import CustomRule

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="namespaces and /proc are Linux's")
SECRET = "a-secret-that-no-rule-may-see"
Judge = Callable[..., Judged]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Which every user finds, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def judged_in(kind: str, tmp_path: Path, open_folder: Path) -> Judge:
    """By a rule that is shut in so; skipped where this machine cannot."""

    def judged(source: str, **settings: str) -> Judged:
        if kind == "user" and IS_ROOT:
            result = judge_elsewhere(open_folder, source, settings)
        else:
            isolation = {"TRACKSIDE_ISOLATION": kind}
            result = judge(tmp_path / "home", source, {**isolation, **settings})
        if "was not started" in result.failure:
            pytest.skip(f"{kind}: {result.failure}")
        if f"confined ({kind})" not in result.log:
            pytest.skip(f"{kind}: {result.log[:300]}")
        return result

    if kind == "root" and not IS_ROOT:
        pytest.skip("only root has this kind")
    return judged


@pytest.fixture(params=["root", "user"])
def boxed(request: pytest.FixtureRequest, tmp_path: Path, open_folder: Path) -> Judge:
    return judged_in(request.param, tmp_path, open_folder)


@pytest.fixture(params=["root", "user", "none"])
def any_kind(request: pytest.FixtureRequest, tmp_path: Path, open_folder: Path) -> Judge:
    return judged_in(request.param, tmp_path, open_folder)


def said(result: Judged) -> dict[str, object]:
    """What the rule's one finding says, as JSON."""
    assert not result.failure, (result.failure, result.log)
    [message] = result.messages
    found: dict[str, object] = json.loads(message)
    return found


# What it sees

# Only entries with the secret: a message is cut, and the environments of a whole machine are long.
ENVIRONMENT = f"""
import glob, json, os

def check(step, tensors):
    own = "".join(f"{{name}}={{value}} " for name, value in os.environ.items())
    others = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            entries = open(path, "rb").read().decode(errors="replace").split("\\0")
            others += [entry for entry in entries if "{SECRET}" in entry]
        except OSError:
            pass
    return json.dumps({{"own": own, "others": others, "home": os.path.expanduser("~")}})
"""


def test_a_rule_has_no_variable_that_may_be_secret(any_kind: Judge, monkeypatch):
    for name in ("AWS_SECRET_ACCESS_KEY", "TRACKSIDE_WEBHOOK_SECRET", "MY_TOKEN"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("LC_TIME", "C")
    found = said(any_kind(ENVIRONMENT))
    assert SECRET not in str(found["own"])
    assert "LC_TIME=C" in str(found["own"])
    assert "PATH=" in str(found["own"])
    assert "TRACKSIDE_HOME" not in str(found["own"])
    assert found["home"] != os.path.expanduser("~")


@LINUX
def test_a_rule_does_not_find_secrets_in_other_processes(boxed: Judge, monkeypatch):
    monkeypatch.setenv("TRACKSIDE_WEBHOOK_SECRET", SECRET)
    assert SECRET not in str(said(boxed(ENVIRONMENT))["others"])


FILES = """
import json, os, sys

def check(step, tensors):
    read, written = [], []
    for path in {secrets}:
        try:
            read.append(open(path, "rb").read().decode(errors="replace")[:40])
        except OSError:
            pass
    tops = ["/", *(entry.path for entry in os.scandir("/") if entry.is_dir())]
    inner = [entry.path for top in tops for entry in os.scandir(top) if entry.is_dir()]
    for folder in {{*tops, *inner, {folder!r}, sys.prefix, os.path.dirname(os.__file__)}}:
        if folder.startswith(("/proc", "/dev/shm", "/tmp")) and folder != {folder!r}:
            continue
        try:
            open(folder + "/made-by-a-rule", "w").close()
            written.append(folder)
        except OSError:
            pass
    own = "/tmp/own"
    open(own, "w").write("x" * 1000)
    return json.dumps({{"read": read, "written": written, "own": os.path.getsize(own)}})
"""


@LINUX
def test_a_rule_reads_no_key_of_the_server_and_writes_nowhere_else(
    boxed: Judge, tmp_path: Path, open_folder: Path
):
    keys = []
    for home in (tmp_path / "home", open_folder / "home"):
        server = home / "server"
        server.mkdir(parents=True)
        key = server / "master.key"
        key.write_text("the master key")
        for each in (home, server, key):
            each.chmod(0o777)
        keys.append(str(key))
    secrets = [*keys, "/etc/shadow", f"/proc/{os.getpid()}/environ"]
    found = said(boxed(FILES.format(secrets=secrets, folder=str(open_folder))))
    assert found == {"read": [], "written": [], "own": 1000}
    assert not (open_folder / "made-by-a-rule").exists()


NAMESPACE = """
import ctypes

def check(step, tensors):
    return str(ctypes.CDLL(None).unshare(0x10000000))
"""


@LINUX
def test_a_rule_in_a_user_namespace_makes_no_further_one(tmp_path: Path, open_folder: Path):
    assert judged_in("user", tmp_path, open_folder)(NAMESPACE).messages == ("-1",)


@LINUX
def test_packages_in_the_server_s_own_home_are_seen_and_nothing_else_of_it(
    tmp_path: Path, open_folder: Path
):
    packages = open_folder / "home" / "packages"
    packages.mkdir(parents=True)
    (packages / "reference.txt").write_text("0.25")
    (packages.parent / "master.key").write_text("a key")
    folders = f"{open_folder}:{packages}"
    source = f"""
import os

def check(step, tensors):
    home = {str(packages.parent)!r}
    return str([os.listdir(home), open(home + "/packages/reference.txt").read()])
"""
    judged = judge(open_folder / "home", source, {"TRACKSIDE_RULE_FOLDERS": folders})
    if "confined (none)" in judged.log:
        pytest.skip(judged.log)
    assert judged.messages == ("[['packages'], '0.25']",), judged


def test_a_folder_that_rules_may_read_is_there(boxed: Judge, open_folder: Path):
    (open_folder / "reference.txt").write_text("0.25")
    source = f"def check(step, tensors): return open('{open_folder}/reference.txt').read()"
    result = boxed(source, TRACKSIDE_RULE_FOLDERS=str(open_folder))
    assert result.messages == ("0.25",)


@pytest.fixture
def private_umask() -> Iterator[None]:
    """As the evaluator of a running job has it."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def judged_by_root(home: Path, source: str, **settings: str) -> Judged:
    """In root's own namespaces; skipped only where the kernel gives none."""
    result = judge(home, source, {"TRACKSIDE_ISOLATION": "root", **settings})
    if "unshare: Operation not permitted" in result.failure:
        pytest.skip(result.failure)
    return result


@LINUX
@pytest.mark.skipif(not IS_ROOT, reason="only root's rule is another user in a box")
@pytest.mark.usefixtures("private_umask")
def test_the_way_to_what_a_rule_reads_is_open_whatever_the_umask(open_folder: Path):
    deep = open_folder / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "reference.txt").write_text("0.25")
    for each in (deep.parent, deep, deep / "reference.txt"):
        each.chmod(0o755)
    source = f"def check(step, tensors): return open('{deep}/reference.txt').read()"
    result = judged_by_root(open_folder / "home", source, TRACKSIDE_RULE_FOLDERS=str(deep))
    assert result.messages == ("0.25",), result


CLOSED = """
import json, os
from closed_package import VALUE

def check(step, tensors):
    private, changed = {private!r}, []
    try:
        os.chmod(private + "/site-packages/closed_package.py", 0o777)
        changed.append("chmod")
    except OSError:
        pass
    try:
        open(private + "/site-packages/closed_package.py", "a").close()
        changed.append("open")
    except OSError:
        pass
    return json.dumps({{"value": VALUE, "seen": os.listdir(private), "changed": changed}})
"""


@LINUX
@pytest.mark.skipif(not IS_ROOT, reason="only root's rule is another user in a box")
@pytest.mark.usefixtures("private_umask")
def test_packages_in_a_closed_folder_are_imported_and_nothing_else_of_it_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Python in root's own folder: nobody else can pass it, and its files are root's alone."""
    private = tmp_path / "private"
    packages = private / "site-packages"
    packages.mkdir(parents=True)
    (packages / "closed_package.py").write_text("VALUE = 0.25")
    (private / "id_rsa").write_text("a key")
    assert (packages / "closed_package.py").stat().st_mode & 0o077 == 0
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.setenv("PYTHONPATH", str(packages))
    source = CLOSED.format(private=str(private))
    result = judged_by_root(tmp_path / "home", source)
    assert said(result) == {"value": 0.25, "seen": ["site-packages"], "changed": []}


@LINUX
@pytest.mark.skipif(not IS_ROOT, reason="only root can take namespaces away")
def test_without_confinement_only_the_rules_of_this_user_run(open_folder: Path):
    source = "def check(step, tensors): return 'ran'"
    of_server = {"key": "TSA", "owner": "alice"}
    for who, isolation, runs in (
        ({}, "auto", True),
        (of_server, "auto", False),
        (of_server, "none", True),
    ):
        folder = open_folder / f"{len(who)}-{isolation}"
        folder.mkdir()
        folder.chmod(0o777)
        settings = {"TRACKSIDE_ISOLATION": isolation}
        result = judge_elsewhere(folder, source, settings, has_namespaces=False, who=who)
        if runs:
            assert result.messages == ("ran",), result
            assert "this rule runs unconfined (none)" in result.log
        else:
            assert result.messages == ()
            assert "set TRACKSIDE_ISOLATION=none" in result.failure, result
            assert "unshare: Operation not permitted" in result.failure


NETWORK = """
import json, socket

def check(step, tensors):
    reached = []
    for address in {addresses}:
        try:
            socket.create_connection(tuple(address), timeout=2).close()
            reached.append(address)
        except OSError:
            pass
    return json.dumps(reached)
"""


@LINUX
def test_a_rule_reaches_no_one(boxed: Judge):
    with socket.create_server(("127.0.0.1", 0)) as server:
        addresses = [server.getsockname()]
        result = boxed(NETWORK.format(addresses=addresses))
        assert said(result) == []  # type: ignore[comparison-overlap]
    assert "without network" in result.log


# How much it uses

CHILDREN = """
import os, resource, time

def check(step, tensors):
    for limit in (resource.RLIMIT_DATA, resource.RLIMIT_FSIZE):
        try:
            resource.setrlimit(limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            return "the limit was raised"
        except ValueError:
            pass
    for _ in range(8):
        if os.fork() == 0:
            kept = bytearray(64 << 20)
            kept[::4096] = b"x" * len(kept[::4096])
            time.sleep(1000)
    time.sleep(1000)
"""

SMALL = {"TRACKSIDE_RULE_MEMORY_GB": "0.25", "TRACKSIDE_RULE_STEP_SECONDS": "60"}
TOO_MUCH = "used more than 0.25 GB of memory"


def test_a_rule_does_not_pass_its_limit_by_way_of_children(any_kind: Judge):
    result = any_kind(CHILDREN, **SMALL)
    assert TOO_MUCH in result.failure, result
    assert "TRACKSIDE_RULE_MEMORY_GB" in result.failure


SHARED = """
import mmap, os

def check(step, tensors):
    kept = []
    while True:
        shared = mmap.mmap(-1, 16 << 20)
        for start in range(0, len(shared), 4096):
            shared[start] = 1
        kept.append(shared)
"""

IN_FILES = """
import os, time

def check(step, tensors):
    number = 0
    while True:
        number += 1
        try:
            with open(f"/dev/shm/rule-{number}", "wb") as file:
                file.write(bytes(16 << 20))
        except OSError as error:
            return f"refused after {number} files: {error.strerror}"
"""


def test_shared_memory_counts(tmp_path: Path):
    result = judge(tmp_path / "home", SHARED, SMALL)
    assert TOO_MUCH in result.failure, result


@LINUX
def test_files_in_shared_memory_count_and_go_with_the_rule(boxed: Judge):
    result = boxed(IN_FILES, **SMALL)
    assert TOO_MUCH in result.failure or "No space left on device" in str(result.messages)
    assert not list(Path("/dev/shm").glob("rule-*"))


HUGE = "def check(step, tensors): return bytearray(100 << 30)"


def test_a_rule_that_allocates_all_memory_is_refused_it(tmp_path: Path):
    result = judge(tmp_path / "home", HUGE, SMALL)
    assert TOO_MUCH in result.failure, result
    assert "MemoryError" in result.failure


@LINUX
@pytest.mark.skipif(not IS_ROOT, reason="only root can hide the control groups")
@pytest.mark.parametrize(("source", "isolation"), [(CHILDREN, "root"), (SHARED, "none")])
def test_without_control_groups_the_guard_counts(open_folder: Path, source: str, isolation: str):
    settings = {**SMALL, "TRACKSIDE_ISOLATION": isolation}
    result = judge_elsewhere(open_folder, source, settings, user=0, covered=("/sys/fs/cgroup",))
    assert TOO_MUCH in result.failure, result
    assert "memory limited by a check four times a second" in result.log


OTHER_USER = """
import json, os

def check(step, tensors):
    open("/dev/shm/rule-of-another-user", "w").close()
    read = []
    for path in {paths}:
        try:
            read.append(open(path).read())
        except OSError:
            pass
    return json.dumps({{"read": read, "user": os.getuid()}})
"""


@LINUX
@pytest.mark.skipif(not IS_ROOT, reason="only root can make it another user")
def test_root_s_rule_is_another_user_where_there_are_no_namespaces(open_folder: Path):
    secret = open_folder / "home" / "server" / "master.key"
    secret.parent.mkdir(parents=True)
    secret.write_text("the master key")
    secret.chmod(0o600)
    source = OTHER_USER.format(paths=[str(secret)])
    result = judge_elsewhere(open_folder, source, {"TRACKSIDE_ISOLATION": "none"}, user=0)
    found = said(result)
    assert found["read"] == []
    assert found["user"] != 0
    assert "confined (uid)" in result.log
    assert not Path("/dev/shm/rule-of-another-user").exists()


# How many it is

BOMB = """
import os

def check(step, tensors):
    while True:
        try:
            os.fork()
        except OSError:
            pass
"""
STRAINED = """
import os

def check(step, tensors):
    while True:
        os.fork()
"""
THREADS = """
import threading, time

def check(step, tensors):
    while True:
        threading.Thread(target=time.sleep, args=[1000], daemon=True).start()
"""
FEW = {"TRACKSIDE_RULE_PROCESSES": "20", "TRACKSIDE_RULE_STEP_SECONDS": "60"}


def test_a_rule_that_starts_processes_without_end_is_ended(any_kind: Judge):
    result = any_kind(BOMB, **FEW)
    assert "had more than 20 processes and threads" in result.failure, result


@pytest.mark.parametrize("source", [STRAINED, THREADS])
def test_one_that_is_refused_another_process_is_reported_why(tmp_path: Path, source: str):
    result = judge(tmp_path / "home", source, FEW)
    assert "had more than 20 processes and threads" in result.failure, result
    assert "TRACKSIDE_RULE_PROCESSES" in result.failure


DAEMON = """
import os, time

def check(step, tensors, mark):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sleep", [mark, "1234"], {{}})
        os._exit(0)
    time.sleep(0.3)
    {then}
"""


def named(mark: str) -> list[psutil.Process]:
    processes = psutil.process_iter(["cmdline"])
    return [each for each in processes if (each.info["cmdline"] or [""])[0] == mark]


@pytest.mark.parametrize(
    ("isolation", "then"),
    [
        ("auto", "return 'done'"),
        pytest.param("none", "return 'done'", marks=pytest.mark.nightly),
        ("none", "time.sleep(1000)"),
        pytest.param("auto", "os.abort()", marks=pytest.mark.nightly),
    ],
)
def test_nothing_that_a_rule_has_started_outlives_it(tmp_path: Path, isolation: str, then: str):
    mark = f"sleeper-{tmp_path.name}"
    settings = {"TRACKSIDE_ISOLATION": isolation, "TRACKSIDE_RULE_STEP_SECONDS": "5"}
    result = judge(tmp_path / "home", DAEMON.format(then=then), settings, mark=mark)
    if then == "return 'done'":
        assert (result.messages, result.failure) == (("done",), "")
    else:
        assert "longer than 5 s at step 0" in result.failure or "SIGABRT" in result.failure
    until(lambda: named(mark) == [])


def rule_folders() -> set[Path]:
    return set(Path("/tmp").glob("trackside-rule-*"))


@pytest.mark.parametrize("isolation", ["auto", "none"])
def test_a_rule_goes_with_its_evaluator(tmp_path: Path, isolation: str):
    before = rule_folders()
    mark = f"sleeper-{tmp_path.name}"
    code = (
        "import sys, time; from pathlib import Path\n"
        "from tests.rules.custom.judging import make_job, start\n"
        "job = make_job(Path(sys.argv[1]), {'TRACKSIDE_ISOLATION': sys.argv[2]})\n"
        "rule = start(job, sys.argv[3], mark=sys.argv[4]); time.sleep(1000)\n"
    )
    source = DAEMON.format(then="time.sleep(1000)")
    evaluator = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "home"), isolation, source, mark],
        cwd=Path(__file__).parents[3],
    )
    try:
        until(lambda: named(mark))
    finally:
        evaluator.kill()
        evaluator.wait()
    until(lambda: not named(mark))
    until(lambda: rule_folders() <= before)


@LINUX
def test_a_rule_goes_with_its_guard(tmp_path: Path):
    mark = f"sleeper-{tmp_path.name}"
    job = make_job(tmp_path / "home", {})
    others = psutil.Process().children()
    rule = start(job, DAEMON.format(then="time.sleep(1000)"), mark=mark)
    try:
        result = outcome(job, rule, lambda: bool(named(mark)))
        if "confined (none)" in result.log:
            pytest.skip(f"no namespaces: {result.log}")
        [guard] = [each for each in psutil.Process().children() if each not in others]
        guard.send_signal(signal.SIGKILL)
        assert "SIGKILL" in outcome(job, rule).failure
        until(lambda: not named(mark))
    finally:
        rule.close()


# What it says

NONSENSE = """
import os

def check(step, tensors):
    for number in range(3, 64):
        try:
            os.write(number, {data})
        except OSError:
            pass
    while True:
        pass
"""


@pytest.mark.parametrize(
    "data",
    [
        'b"nonsense\\n"',
        'b\'{"kind": "finding", "line": "{}"}\\n\'',
        'b"x" * 1000000',
    ],
)
def test_what_no_rule_would_say_ends_it(tmp_path: Path, data: str):
    result = judge(tmp_path / "home", NONSENSE.format(data=data), {})
    assert "says what none of them would" in result.failure


TALKATIVE = """
import os

def check(step, tensors):
    line = b'{"kind": "checked", "step": 1}\\n' * 2000
    while True:
        for number in range(3, 64):
            try:
                os.write(number, line)
            except OSError:
                pass
"""


def test_a_rule_that_never_stops_talking_holds_up_no_one(tmp_path: Path):
    job = make_job(tmp_path / "home", {})
    rule = start(job, TALKATIVE)
    try:
        until(lambda: rule.findings(is_last=True) or rule.last_step == 1)
        for _ in range(3):  # each of them returns
            assert rule.findings(is_last=True) == []
        assert not rule.is_over
    finally:
        rule.close()
    assert rule.is_over


# What it reads

LOSSES = """
def check(step, tensors, other_trials):
    others = [float(trial.tensor("loss").value(step)) for trial in other_trials]
    return f"{step}: {tensors['loss']} {others}" if step == 2 else None
"""


def test_a_rule_reads_its_trial_and_those_it_is_compared_with(any_kind: Judge, open_folder: Path):
    source = LOSSES.replace(", other_trials):", "):").replace("in other_trials", "in []")
    assert any_kind(source).messages == ("2: 2.5 []",)


def test_other_trials_are_handed_over_too(tmp_path: Path):
    record(tmp_path / "other")
    other = {"other_trial_0": str(tmp_path / "other")}
    result = judge(tmp_path / "home", LOSSES, {}, **other)
    assert result.messages == ("2: 2.5 [2.5]",), result


def test_a_trial_in_a_store_is_read_without_the_store_s_keys(
    tmp_path: Path, s3_server: S3Server, bucket: str, monkeypatch
):
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    home = tmp_path / "home"
    job = make_job(home, {})
    place = job.trial_folder()
    assert place is not None
    client = s3_server.client()
    for path in place.rglob("*"):
        if path.is_file():
            key = f"debug/job-1/debug-output/{path.relative_to(place)}"
            client.upload_file(str(path), bucket, key)
    source = tmp_path / "stored.py"
    source.write_text(LOSSES.replace('f"', "str(__import__('os').environ) + f\""))
    client.upload_file(str(source), bucket, "rules/stored.py")
    uri = f"s3://{bucket}/debug/job-1/debug-output"
    parameters = {
        "source_s3_uri": f"s3://{bucket}/rules/stored.py",
        "rule_to_invoke": "check",
        "other_trial_0": uri,
    }
    rule = CustomRule(job, RuleConfiguration(name="Mine", parameters=parameters), 0)
    try:
        result = outcome(job, rule)
    finally:
        rule.close()
    assert not result.failure
    [message] = result.messages
    assert message.endswith("2: 2.5 [2.5]")
    assert "test-secret-key" not in message


def test_a_child_of_a_rule_is_reported_why_it_cannot_read(tmp_path: Path):
    source = """
import os

def check(step, tensors):
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            tensors["loss"]
        except Exception as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.close(writing)
    return os.read(reading, 1000).decode()
"""
    [message] = judge(tmp_path / "home", source, {}).messages
    assert "Read the values first" in message


def test_the_last_step_is_known(tmp_path: Path):
    result = judge(tmp_path / "home", "def check(step, tensors): pass", {})
    assert (result.last_step, result.failure) == (NUM_STEPS - 1, "")
    assert result.log.count("trackside: this rule runs ") == 1


def test_what_a_rule_has_printed_is_in_its_log_however_it_ends(tmp_path: Path):
    source = """
import os
def check(step, tensors):
    print("step", step)
    if step == 1:
        os._exit(0)
"""
    result = judge(tmp_path / "home", source, {})
    assert "step 0\nstep 1\n" in result.log


def test_an_isolation_that_cannot_be_made_is_the_rule_s_error(tmp_path: Path, open_folder: Path):
    if not IS_ROOT:
        pytest.skip("a user that may have the namespaces of root is root")
    settings = {"TRACKSIDE_ISOLATION": "root"}
    result = judge_elsewhere(open_folder, "def check(step, tensors): pass", settings)
    assert "the rule was not started" in result.failure
