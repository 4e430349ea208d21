"""How a host's script ended, and why it failed, as FailureReason has it.

The reason is in the failure file of the toolkit or of the script. Without one it is derived from
the exit code and the log: the toolkit was killed, its disk was full, or the job has a command of
its own.
"""

from collections.abc import Callable, Iterator

from trackside.files import durable
from trackside.files.disk_failure import full_disk, means_full
from trackside.files.disk_space import space_of
from trackside.records.death import Evidence, MemoryKiller, cause_of, outside_signal
from trackside.records.hosts import HostRecord
from trackside.records.layout import HostFolder
from trackside.supervisor.config_files import exit_record, failure_text, keep_packages
from trackside.supervisor.context import Context
from trackside.supervisor.outcome import REASON_LENGTH, algorithm_error
from trackside.supervisor.sandbox import Exited, Lost
from trackside.texts.process_failure import End, ProcessFailure, explain_end
from trackside.texts.secret_names import looks_secret, mask_text
from trackside.texts.truncation import from_whole_line, last_lines, plain

LONGEST = REASON_LENGTH - 64
"""Leaves space for category, host and exit code."""
TAIL_LINES = 20
TAIL_LENGTH = 8192
_TAIL_BYTES = 32 * 1024
_MESSAGE = 'ErrorMessage "'
_OUT_OF_MEMORY = "OutOfMemory: the kernel killed a process of the script. "
_STARTS = " trackside-toolkit INFO     Invoking user script"
_VARIABLE = "  SM_"
_OF_IMAGE = "[trackside] The image has "
"""How the start of a script says that the image lacks what it needs."""


def record_end(
    context: Context,
    folder: HostFolder,
    record: HostRecord,
    state: Exited | Lost,
    exceeded: Callable[[Exited], str],
    was_requested: bool,
) -> None:
    """Write into the host's record how its script ended. `exceeded` names the limit that it was
    ended for; `was_requested`: it was requested to end, so its exit code is not a failure.
    """
    record.note_end()
    keep_packages(folder, context.host)
    if isinstance(state, Lost):
        return _record_lost(context, folder, record, state)
    code = record.exit_code = _script_code(folder, state.code)
    if was_requested or (code == 0 and state.code == 0):
        return
    record.tail = _shown_tail(context, folder)
    failing = code or state.code
    limit = exceeded(state)
    said = reason(context, folder, state, failing, limit)
    record.failure = algorithm_error(said, failing)
    seen = evidence(context, state, failing, said, limit)
    record.cause, record.memory = cause_of(seen), seen.memory or ""
    if seen.memory is None and (number := outside_signal(failing)):
        record.lost = f"the script was ended by {number.name} from outside"


def _record_lost(context: Context, folder: HostFolder, record: HostRecord, state: Lost) -> None:
    record.tail = _shown_tail(context, folder)
    record.cause = cause_of(Evidence(gone=state.gone))
    if state.is_of_script:
        record.failure = f"AlgorithmError: {state.reason}"
    else:
        record.lost = f"the script and its sandbox are gone: {state.reason}"


def evidence(context: Context, state: Exited, code: int, said: str, limit: str) -> Evidence:
    """Of a script that ended with this code. `said` is the reason for people, `limit` the one that
    it exceeded, if any."""
    memory = None
    if limit or state.out_of_memory:
        memory = MemoryKiller.LIMIT if limit else MemoryKiller.KERNEL
    is_unfit = context.spec.is_container and _OF_IMAGE in said
    space = space_of(context.settings.home)
    return Evidence(
        memory=memory,
        error="image" if is_unfit else "",
        is_disk_full=means_full(said) or (space is not None and space.is_full),
        exit_code=code,
    )


def _script_code(folder: HostFolder, code: int) -> int:
    """The script's own exit code; the toolkit's, if the script never ran."""
    script = exit_record(folder)
    if script.get("signal"):
        return -script["signal"]
    return script.get("exit_code", code)


def reason(
    context: Context, folder: HostFolder, state: Exited, code: int, exceeded: str = ""
) -> str:
    """What went wrong, then the evidence. `code` is the failing exit code, `exceeded` names the
    limit that the script was ended for."""
    text = failure_text(folder)
    if not text.strip():
        failure = _from_log(context, folder, state, code)
        return (failure.because(exceeded.strip()) if exceeded else failure).fitted(LONGEST)
    if exceeded:
        place = text.partition(_MESSAGE)
        return f"{place[0]}{place[1]}{exceeded}{place[2]}" if place[1] else exceeded + text
    if not state.out_of_memory or "OutOfMemory" in text or "Out of memory" in text:
        return text
    if _MESSAGE not in text:
        return _OUT_OF_MEMORY + text
    return text.replace(_MESSAGE, _MESSAGE + _OUT_OF_MEMORY, 1)


def _shown_tail(context: Context, folder: HostFolder) -> str:
    """The last lines of its log as the record has them, without the job's secrets: whoever may see
    the description of a job reads them."""
    tail = last_lines(log_tail(folder)[-TAIL_LINES:], TAIL_LENGTH)
    return mask_text(tail, _secrets(context))


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
    output = mask_text(plain("\n".join(_of_script(log_tail(folder)))), _secrets(context))
    failure = explain_end(
        End(
            code=code,
            output=output,
            seconds=state.seconds,
            out_of_memory=state.out_of_memory,
            who=_failed_program(context, has_record=bool(exit_record(folder))),
        )
    )
    home = str(context.settings.home)
    space = space_of(home)
    if space is None or space.free_bytes > durable.BALLAST_BYTES:
        return failure
    return failure.because(f"No space left on device. {full_disk(space, home)}")


def _failed_program(context: Context, *, has_record: bool) -> str:
    """Whose exit code it is."""
    if context.spec.algorithm.entrypoint:
        return "The command"
    return "The script" if has_record else "The toolkit, which runs the script,"


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
