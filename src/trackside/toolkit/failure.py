"""The failure text: SageMaker's four lines, the essence first, short enough to be shown whole."""

import re
import traceback

from trackside.errors import CommandFailed, TracksideError
from trackside.toolkit import machine
from trackside.toolkit.masking import mask_text

# FailureReason is cut there by the service.
LONGEST = 1024
_LONGEST_COMMAND = 300

_RANK = re.compile(r"(?:(\[rank\d+\]:) ?|(\[\d+,\d+\]<std(?:err|out)>:))?(.*)")
_TRACEBACK = "Traceback (most recent call last):"
# Said by launchers about the process that failed; its own words come before.
_LAUNCHER = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"


def compose(failed: BaseException, secrets: list[str]) -> str:
    """The text for the failure file: at most 1024 characters, none of these values in it."""
    if isinstance(failed, CommandFailed):
        return _command_text(failed, secrets)
    if isinstance(failed, TracksideError) or _is_client_error(failed):
        return mask_text(str(failed), secrets)[:LONGEST]
    last = "".join(traceback.format_exception_only(failed)).strip()
    head = f"Framework Error: {last[: LONGEST // 2]}\n"
    whole = "".join(traceback.format_exception(failed)).strip()
    return mask_text(head + _end(whole, LONGEST - len(head)), secrets)[:LONGEST]


def oom_evidence(code: int, kills_before: int | None) -> str:
    """What can be said about a SIGKILL: only the kernel's own record makes it out-of-memory."""
    if code not in (-9, 137):
        return ""
    killed = "Process killed by SIGKILL (signal 9)"
    kills = machine.num_oom_kills()
    if kills is None or kills_before is None:
        return f"{killed}. Possibly out of memory; this machine keeps no record of it"
    if kills > kills_before:
        return f"OutOfMemory: {killed}"
    return f"{killed}. Not for lack of memory: the cgroup records no such kill"


def essence(said: str) -> str:
    """The exception first, then where it was raised; without a traceback the last lines."""
    found = [match for line in said.splitlines() if (match := _RANK.match(line))]
    split = [(match[1] or match[2] or "", match[3]) for match in found]
    # Behind a prompt or a progress bar it begins in the middle of a line.
    starts = [i for i, (_, text) in enumerate(split) if text.endswith(_TRACEBACK)]
    for start in reversed(starts):
        rank = split[start][0]
        block = [text for other, text in split[start:] if other == rank]
        at = next((i for i, text in enumerate(block[1:], 1) if text and not text[0].isspace()), 0)
        if not at or block[at].startswith(_LAUNCHER):
            continue
        message = [block[at], *_message_lines(block[at + 1 :])]
        return "\n".join([*message, _TRACEBACK, *block[1:at]])
    return "\n".join(text for _, text in split if text.strip())


def _message_lines(lines: list[str]) -> list[str]:
    """The further lines of a message, up to the next blank one."""
    blank = next((i for i, text in enumerate(lines) if not text.strip()), len(lines))
    return lines[:blank]


def _command_text(failed: CommandFailed, secrets: list[str]) -> str:
    command = mask_text(failed.command, secrets)
    if len(command) > _LONGEST_COMMAND:
        command = command[: _LONGEST_COMMAND - 3] + "..."
    extra = f'ExtraInfo "{failed.extra}"\n' if failed.extra else ""
    head = f'{failed.kind}:\nExitCode {failed.exit_code}\nErrorMessage "'
    foot = f'"\n{extra}Command "{command}"'
    room = LONGEST - len(head) - len(foot)
    return head + _fitted(mask_text(failed.said, secrets), room) + foot


def _fitted(said: str, room: int) -> str:
    text = essence(said)
    if len(text) <= room:
        return text
    if _TRACEBACK not in text:
        return _end(text, room)
    message, _, frames = text.partition(f"\n{_TRACEBACK}\n")
    message = message[: max(room - 200, room // 2)]
    return f"{message}\n{_end(frames, room - len(message) - 1)}"


def _end(text: str, room: int) -> str:
    """The last whole lines that fit."""
    if len(text) <= room:
        return text
    cut = text[len(text) - room + 4 :]
    return "...\n" + cut.partition("\n")[2] if "\n" in cut else cut


def _is_client_error(failed: BaseException) -> bool:
    """Errors that images built on `sagemaker_training` raise; their text is already the file's."""
    return any(
        kind.__module__ == "sagemaker_training.errors" and kind.__name__ == "ClientError"
        for kind in type(failed).__mro__
    )
