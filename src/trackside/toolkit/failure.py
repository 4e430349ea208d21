"""The failure text: SageMaker's four lines, the cause first, short enough to be shown completely.

`explain_end` and `disk_failure` find why a script failed, `pip_failure` why pip did.
"""

from __future__ import annotations

import os
import traceback

from trackside.errors import CommandFailed, TracksideError
from trackside.files.disk_failure import disk_failure
from trackside.texts.process_failure import End, ProcessFailure, explain_end
from trackside.texts.secret_names import mask_text
from trackside.texts.truncation import from_whole_line, last_lines, plain, shortened
from trackside.toolkit import machine
from trackside.toolkit.environment import base_folder, exit_record, process_variables
from trackside.toolkit.pip_failure import explain_pip
from trackside.toolkit.process import TAIL_BYTES

# FailureReason has 1024 characters; its category, the host's name and the exit code need some.
LONGEST = 970
_LONGEST_COMMAND = 200
_SIGKILL = (-9, 137)
_KILLED = "Process killed by SIGKILL (signal 9)"


def compose(failed: BaseException, secrets: list[str]) -> str:
    """The text for the failure file: without any of these values, cut at words."""
    if isinstance(failed, CommandFailed):
        return _command_text(failed, secrets)
    if isinstance(failed, TracksideError) or _is_client_error(failed):
        return shortened(mask_text(str(failed), secrets), LONGEST)
    kind, trace = type(failed), failed.__traceback__  # an older Python does not find them itself
    last = mask_text("".join(traceback.format_exception_only(kind, failed)).strip(), secrets)
    head = f"Framework Error: {shortened(last, LONGEST // 2)}\n"
    whole = mask_text("".join(traceback.format_exception(kind, failed, trace)).strip(), secrets)
    return head + last_lines(whole.splitlines(), LONGEST - len(head))


def out_of_memory(kills_before: int | None) -> bool | None:
    """Whether there was an OOM kill since; None without a record."""
    kills = machine.num_oom_kills()
    return None if kills is None or kills_before is None else kills > kills_before


def _command_text(failed: CommandFailed, secrets: list[str]) -> str:
    command = shortened(mask_text(failed.command, secrets), _LONGEST_COMMAND)
    extra = f'ExtraInfo "{_extra(failed)}"\n' if _extra(failed) else ""
    head = f'{failed.kind}:\nExitCode {failed.exit_code}\nErrorMessage "'
    foot = f'"\n{extra}Command "{command}"'
    is_cut = len(failed.output.encode(errors="replace")) >= TAIL_BYTES
    output = mask_text(plain(from_whole_line(failed.output) if is_cut else failed.output), secrets)
    return head + _explain(failed, output).fitted(LONGEST - len(head) - len(foot)) + foot


def _extra(failed: CommandFailed) -> str:
    """The contract's own text for a SIGKILL."""
    if failed.exit_code not in _SIGKILL:
        return ""
    return ("OutOfMemory: " if failed.out_of_memory else "") + _KILLED


def _explain(failed: CommandFailed, output: str) -> ProcessFailure:
    if failed.sentence:
        return ProcessFailure(failed.sentence)
    code = _current_folder()
    if failed.kind.startswith("Install"):
        failure = explain_pip(failed.exit_code, output, seconds=failed.seconds, code_folder=code)
    else:
        failure = explain_end(
            End(
                code=failed.exit_code,
                output=output,
                seconds=failed.seconds,
                out_of_memory=failed.out_of_memory,
                code_folder=code,
            )
        )
    home = base_folder() if exit_record() else ""  # if TRACKSIDE_HOME is involved
    of_disk = disk_failure(failure.text, _folders(code), in_home=home)
    return failure.because(of_disk) if of_disk else failure


def _folders(code: str) -> list[str]:
    """Folders that scripts write to."""
    base = base_folder()
    ours = [os.path.join(base, name) for name in ("model", "checkpoints", "output")]
    # Not by tempfile, which writes a file to find out.
    return [*ours, process_variables({}).get("TMPDIR", "/tmp"), "/dev/shm", code]


def _current_folder() -> str:
    """The source's, where the script was started."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.path.join(base_folder(), "code")


def _is_client_error(failed: BaseException) -> bool:
    """Errors raised by images built on `sagemaker_training`; their text is already the file's."""
    return any(
        kind.__module__ == "sagemaker_training.errors" and kind.__name__ == "ClientError"
        for kind in type(failed).__mro__
    )
