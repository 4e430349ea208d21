"""How a job was submitted: the command line and the folder, as they are recorded with it."""

import builtins
import sys
from collections.abc import Sequence
from dataclasses import replace

from trackside.records.spec import COMMAND_MOST, FOLDER_MOST, JobSpec, Launch
from trackside.texts.secret_names import MASK, hide_in_arguments
from trackside.texts.truncation import shortened

_MOST_WORD = 4096
_MOST_CHARACTERS = 64 * 1024
_NOTIFY = "--notify"


def with_launch(spec: JobSpec, command: Sequence[str] | None, folder: str) -> JobSpec:
    """`command` is what the user typed; None if it is the command of this process."""
    launch = launch_of(command, folder)
    return replace(spec, options=replace(spec.options, launch=launch))


def launch_of(command: Sequence[str] | None, folder: str) -> Launch:
    words = own_command() if command is None else command
    return Launch(
        command=tuple(_bounded(_masked(words))),
        folder=_text(folder) if folder and len(folder) <= FOLDER_MOST else None,
    )


def own_command() -> Sequence[str]:
    """Empty in a notebook or at a prompt, where it says nothing about the job."""
    is_interactive = hasattr(builtins, "__IPYTHON__") or hasattr(sys, "ps1")
    return () if is_interactive else sys.orig_argv


def _masked(words: Sequence[str]) -> list[str]:
    """Anyone with the address of a notification may post there."""
    masked = hide_in_arguments(words)
    for index, word in enumerate(masked):
        if word.startswith(f"{_NOTIFY}="):
            masked[index] = f"{_NOTIFY}={MASK}"
        elif index and masked[index - 1] == _NOTIFY:
            masked[index] = MASK
    return masked


def _bounded(words: Sequence[str]) -> list[str]:
    bounded: list[str] = []
    left = _MOST_CHARACTERS
    for word in words[:COMMAND_MOST]:
        text = shortened(_text(word), _MOST_WORD)
        left -= len(text) + 1
        if left < 0:
            break
        bounded.append(text)
    return bounded


def _text(word: str) -> str:
    """Bytes that are no UTF-8 become visible: the record goes to servers, too."""
    return word.encode(errors="backslashreplace").decode()
