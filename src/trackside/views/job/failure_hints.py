"""Advice on the most common first failures of a script, recognized by their message."""

import re
from collections.abc import Callable

from trackside.rules.checkup.crash_causes import explain

CRASH = "Crash"
"""The rule whose finding says more than any hint."""
_KNOWN: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (
        r"error: the following arguments are required: (?:-\w/)?-+(?P<one>[\w-]+)",
        lambda found: (
            f"Arguments of the script are given as -p {found['one']}=VALUE, or at the end, behind "
            f"`--`: -- --{found['one']} VALUE."
        ),
    ),
    (
        r"error: the following arguments are required: (?P<one>\w[\w-]*)",
        lambda found: (
            "Arguments of the script stand at the end, behind `--`: "
            f"trackside run … -- {found['one'].upper()}."
        ),
    ),
    (
        r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'",
        lambda found: (
            f"If {found['name'].partition('.')[0]!r} is a package, install it here, or name it in "
            "a requirements.txt in the folder that --source-dir names; if it is a file of yours, "
            "--source-dir takes its folder along."
        ),
    ),
    (
        r"environment variable (?:RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expected, but not set"
        r"|KeyError: '(?:RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT)'",
        lambda found: (
            "The script expects to be started by torchrun: add --distribution torchrun, and "
            "--processes-per-host N for several processes."
        ),
    ),
    (
        r"Torch not compiled with CUDA enabled|No CUDA GPUs are available"
        r"|Found no NVIDIA driver on your system",
        lambda found: (
            "This machine has no GPU that PyTorch can use. A script that is to run on both says "
            'torch.device("cuda" if torch.cuda.is_available() else "cpu").'
        ),
    ),
    (
        r"CUDA error: invalid device ordinal",
        lambda found: (
            "The script names a GPU that this machine has not, or that CUDA_VISIBLE_DEVICES hides."
        ),
    ),
    (
        r"EOFError: EOF when reading a line",
        lambda found: (
            "A job has nobody to ask: what the script reads with input() it can take as an "
            "argument, given as -p NAME=VALUE or behind `--`."
        ),
    ),
)


def advice(cause: str) -> str:
    """A sentence, or "" if it concerns only the script itself."""
    for pattern, say in _KNOWN:
        if found := re.search(pattern, cause):
            return say(found)
    explained = explain(cause)
    return f"{explained.message} {explained.advice}" if explained is not None else ""
