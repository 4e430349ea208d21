"""Whether jobs can run as the users that a server is configured with, checked before it starts.

An error here is one sentence with a way out; later every job would fail.
"""

import marshal
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import trackside
from trackside.errors import SandboxError, ServerRefused
from trackside.settings import Settings
from trackside.supervisor import user_probe
from trackside.supervisor.process_sandbox import ProcessSandbox, run_init
from trackside.system.run_as import JobUser, RunAs, find_user

_PACKAGE = Path(trackside.__file__).parent


def check_users(settings: Settings) -> None:
    """`ServerRefused`, or `InvalidSetting` for an unknown user.

    TRACKSIDE_HOME is inaccessible to all other users, which protects it from jobs.
    """
    users = [find_user(name) for name in RunAs.parse(settings.run_as).users]
    if not users:
        return
    try:
        ProcessSandbox(settings.isolation).check_user(users[0])
    except SandboxError as error:
        raise ServerRefused(str(error)) from error
    settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    settings.home.chmod(0o700)
    for user in users:
        _check(user, settings)


def _check(user: JobUser, settings: Settings) -> None:
    python = _interpreter(settings)
    another = "Set TRACKSIDE_PYTHON to an interpreter that it can run."
    read = {
        os.path.realpath(python): another,
        python: another,
        str(_PACKAGE): "Install Trackside where every user can read it, such as below /opt.",
    }
    ours = {
        str(settings.home): "Choose a TRACKSIDE_HOME below folders that only root can write to.",
        str(_PACKAGE): "Root runs it: give it to root, or install Trackside elsewhere.",
        sys.executable: "Root runs it: give it to root, or install Trackside elsewhere.",
    }
    code = f"import sys; sys.path.append({str(_PACKAGE.parent)!r}); import trackside.toolkit.launch"
    with tempfile.TemporaryDirectory() as stage:
        trial = {
            "user": user.numbers,
            "stage": stage,
            "read": list(read),
            "ours": list(ours),
            "command": [python, "-P", "-c", code],
        }
        output = run_init("user_probe", message=marshal.dumps(trial))
    if output:
        raise ServerRefused(_sentence(output, user, python, read, ours))


def _interpreter(settings: Settings) -> str:
    name = settings.python or sys.executable
    found = shutil.which(name)
    if found is None:
        raise ServerRefused(f"There is no interpreter {name!r}. Correct TRACKSIDE_PYTHON.")
    return os.path.abspath(found)


def _sentence(
    output: str, user: JobUser, python: str, read: Mapping[str, str], ours: Mapping[str, str]
) -> str:
    lines = output.splitlines()
    what, *details = lines[0].split("\t")
    if what == user_probe.KERNEL:
        return (
            f"Jobs cannot run as {user} here: the kernel refuses it ({details[0]}). In a "
            "container, allow it CAP_SYS_ADMIN; or start the server without --run-as."
        )
    if what == user_probe.CLOSED:
        path, way = details
        closed = "" if way == path else f": {way!r} is closed to it"
        return f"{path!r} cannot be read by user {user}{closed}. {read[path]}"
    if what == user_probe.OPEN:
        path, way = details
        through = "" if way == path else f", through {way!r}"
        return f"{path!r} can be changed by user {user}{through}. {ours[path]}"
    last = lines[-2] if len(lines) > 1 else f"exit code {details[0]}"
    return (
        f"The interpreter {python!r} does not start as user {user}: {last}. "
        "Set TRACKSIDE_PYTHON to one that does."
    )
