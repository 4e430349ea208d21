"""Limits, visible files and environment variables of a custom rule's process.

Only decides: `guard.py` starts and watches the rule, `isolation.py` creates the isolation.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from trackside.quick_dataclass import dataclass
from trackside.system.processes import NONCE_VARIABLE

MEMORY, PROCESSES, NOT_STARTED = 90, 91, 92
"""Exit codes of the guard: a limit was hit, or the requested isolation was not possible."""

FIRST_USER = 0x70000000
NUM_USERS = 1 << 20
"""Ids that no account or container uses: on a server run by root each rule gets its own."""

SCRATCH = ("/tmp", "/dev/shm")
"""In namespaces private to the rule and in memory; the first is its working folder."""

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"),
    *("/etc/localtime", "/etc/timezone", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group"),
    *("/etc/fonts", "/sys/devices/system/cpu"),
)
"""System paths that Python and the libraries of its packages need."""

_PACKAGES = ("site-packages", "dist-packages")
_KEPT_VARIABLES = frozenset(
    {
        "PATH",
        "LANG",
        "LANGUAGE",
        "TZ",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "PYTHONHASHSEED",
        "PYTHONHOME",
        "PYTHONNOUSERSITE",
        "PYTHONIOENCODING",
        "PYTHONPATH",
        "PYTHONUTF8",
        "MKL_NUM_THREADS",
        "NUMEXPR_MAX_THREADS",
        "NUMEXPR_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW",
        "SMDEBUG_LOG_LEVEL",
        "SMDEBUG_MISSING_EVENT_FILE_RETRY_LIMIT",
        "SMDEBUG_TRAINING_END_DELAY_REFRESH",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The guard's input, passed as text on its command line: nothing in it is secret."""

    kinds: Sequence[str]
    """Kinds of isolation to try, best first: see `kinds`."""
    user: int
    """The user that a rule started by root is switched to."""
    views: Sequence[str]
    """Files and folders that the rule may read."""
    python: Sequence[str]
    """Python's folders among `views`, which may be readable by their owner only."""
    hidden: str
    """A folder that is hidden, except for the views inside it."""
    work_folder: str
    """The working folder if the rule has no /tmp of its own."""
    mark: str
    group: str
    """The name of its control group, the same for every start of this rule."""
    memory_bytes: int
    num_processes: int
    line: int
    """The descriptor of the socket to the evaluator's trials."""

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "Plan":
        return cls(**json.loads(text))


def kinds(
    isolation: str,
    *,
    is_root: bool,
    is_stranger: bool = False,
    is_linux: bool = sys.platform == "linux",
) -> list[str]:
    """Kinds of isolation, best first; TRACKSIDE_ISOLATION narrows them down.

    `root`: namespaces and another user. `user`: a user namespace. `uid`: another user, no
    namespaces. `none`: neither. An untrusted rule, which does not belong to the evaluator's user,
    gets `none` only if that was requested.
    """
    boxes = [kind for kind in ("root", "user") if isolation in ("auto", kind) and is_linux]
    if not is_root and "root" in boxes:
        boxes.remove("root")
    open_ones = ["uid", "none"] if is_root else ["none"]
    if isolation == "auto" and is_stranger:
        open_ones.remove("none")
    return boxes + (open_ones if isolation in ("auto", "none") else [])


def variables(environ: Mapping[str, str], mark: str) -> dict[str, str]:
    """The rule's environment: what a Python program needs, without anything that may be secret."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in _KEPT_VARIABLES or name.startswith("LC_")
    }
    return {
        **kept,
        "USER": "rule",
        "LOGNAME": "rule",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONDONTWRITEBYTECODE": "1",
        NONCE_VARIABLE: mark,
    }


def views(environ: Mapping[str, str], more: Iterable[str] = (), hidden: str = "") -> list[str]:
    """Paths of Python, its packages and their libraries, and `more`. None is inside another, unless
    a `hidden` folder is between them.
    """
    wanted = [
        *_SYSTEM,
        *(sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix),
        *sys.path,
        *environ.get("LD_LIBRARY_PATH", "").split(":"),
        *more,
    ]
    found = {each for path in filter(os.path.isabs, wanted) for each in _both_names(path)}
    found -= {"/", *SCRATCH}
    return _outermost(found, hidden)


def python_folders(hidden: str = "") -> list[str]:
    """Folders that hold only Python and installed packages, Trackside included; not system folders,
    which every user can read.
    """
    wanted = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
    wanted += [path for path in sys.path if os.path.basename(path) in _PACKAGES]
    wanted.append(package_folder(__name__) or "")
    found = {each for path in filter(os.path.isdir, wanted) for each in _both_names(path)}
    found -= {"/", *SCRATCH}
    own = {path for path in found if not any(is_inside(path, each) for each in _SYSTEM)}
    return _outermost(own, hidden)


def _outermost(found: set[str], hidden: str) -> list[str]:
    return sorted(path for path in found if not any(_shows(other, path, hidden) for other in found))


def is_inside(path: str, folder: str) -> bool:
    """True for the folder itself too."""
    return Path(path).is_relative_to(folder)


def _shows(other: str, path: str, hidden: str) -> bool:
    if other == path or not is_inside(path, other):
        return False
    return not (hidden and is_inside(path, hidden) and is_inside(hidden, other))


def package_folder(module: str) -> str | None:
    """The folder of a package that is not found through sys.path, such as an editable install."""
    from importlib.util import find_spec

    spec = find_spec(module.partition(".")[0])
    if spec is None or not spec.origin or not os.path.isabs(spec.origin):
        return None
    return os.path.dirname(spec.origin)


def _both_names(path: str) -> Iterator[str]:
    """The path as written and its resolved form: programs use either."""
    if os.path.exists(path):
        yield os.path.normpath(path)
        yield os.path.realpath(path)
