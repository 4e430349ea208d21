"""Why a host's script failed, as FailureReason has it.

The toolkit says so in its failure file, or the script does. Where neither could, it is told from
the exit code and the log: the toolkit was killed, its disk was full, or the job has a command of
its own.
"""

from collections.abc import Iterator

from trackside.files import durable
from trackside.files.disk_failure import full_disk
from trackside.files.disk_space import space_of
from trackside.records.layout import HostFolder
from trackside.supervisor.config_files import exit_record, failure_text
from trackside.supervisor.context import Context
from trackside.supervisor.outcome import REASON_LENGTH
from trackside.supervisor.sandbox import Exited
from trackside.texts.process_failure import End, ProcessFailure, last_words
from trackside.texts.secret_names import looks_secret, mask_text
from trackside.texts.truncation import from_whole_line, plain

LONGEST = REASON_LENGTH - 64
"""Leaves room for category, host and exit code."""
_TAIL_BYTES = 32 * 1024
_MESSAGE = 'ErrorMessage "'
_OUT_OF_MEMORY = "OutOfMemory: the kernel killed a process of the script. "
_STARTS = " trackside-toolkit INFO     Invoking user script"
_VARIABLE = "  SM_"


def reason(
    context: Context, folder: HostFolder, state: Exited, code: int, exceeded: str = ""
) -> str:
    """What went wrong, first of all; then the evidence. `code` is what the failure is known by,
    `exceeded` says which limit the script was ended for."""
    text = failure_text(folder)
    if not text.strip():
        words = _from_log(context, folder, state, code)
        return (words.because(exceeded.strip()) if exceeded else words).fitted(LONGEST)
    if exceeded:
        place = text.partition(_MESSAGE)
        return f"{place[0]}{place[1]}{exceeded}{place[2]}" if place[1] else exceeded + text
    if not state.out_of_memory or "OutOfMemory" in text or "Out of memory" in text:
        return text
    if _MESSAGE not in text:
        return _OUT_OF_MEMORY + text
    return text.replace(_MESSAGE, _MESSAGE + _OUT_OF_MEMORY, 1)


def log_tail(folder: HostFolder) -> list[str]:
    """The last lines of its log."""
    try:
        with folder.log.open("rb") as file:
            start = max(0, file.seek(0, 2) - _TAIL_BYTES)
            file.seek(start)
            text = file.read().decode(errors="replace")
            return (from_whole_line(text) if start else text).splitlines()
    except OSError:
        return []


def _from_log(context: Context, folder: HostFolder, state: Exited, code: int) -> ProcessFailure:
    said = mask_text(plain("\n".join(_of_script(log_tail(folder)))), _secrets(context))
    words = last_words(
        End(
            code=code,
            said=said,
            seconds=state.seconds,
            out_of_memory=state.out_of_memory,
            who=_who(context, is_told=bool(exit_record(folder))),
        )
    )
    home = str(context.settings.home)
    space = space_of(home)
    if space is None or space.free_bytes > durable.BALLAST_BYTES:
        return words
    return words.because(f"No space left on device. {full_disk(space, home)}")


def _who(context: Context, *, is_told: bool) -> str:
    """Whose exit code it is."""
    if context.spec.algorithm.entrypoint:
        return "The command"
    return "The script" if is_told else "The toolkit, which runs the script,"


def _of_script(lines: list[str]) -> list[str]:
    """Without what the toolkit wrote before the script."""
    start = max((i for i, line in enumerate(lines) if line.endswith(_STARTS)), default=-1)
    if start < 0:
        return lines
    own = start + 1
    while own < len(lines) and lines[own].startswith(_VARIABLE):
        own += 1
    return lines[own + 1 :]  # the command comes after the variables


def _secrets(context: Context) -> Iterator[str]:
    spec = context.spec
    for name, value in {
        **context.script_environ,
        **spec.environment,
        **spec.hyperparameters,
    }.items():
        if looks_secret(name):
            yield value.strip('"')
