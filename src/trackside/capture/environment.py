"""Environment variables for capture, trials and their messages, each group read into a frozen
object. Those with the prefix SMDEBUG_ have the same meaning as in smdebug.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from trackside.capture.exceptions import SMDebugValueError
from trackside.quick_dataclass import dataclass

CONFIG_FOLDER = Path("/opt/ml/input/config")
SWITCH = "TRACKSIDE_CAPTURE"
"""Set by Trackside to `auto` for scripts that are to be watched without a change."""
AGE = "TRACKSIDE_CAPTURE_AGE"
"""Set by Trackside for jobs that are watched by rules."""
AUDIT = "TRACKSIDE_AUDIT_PLAN"
"""Set by `trackside audit-resume` to the file that tells its runs what to do."""

HANG = "TRACKSIDE_HANG_SECONDS"
"""The least time without a sign of life that may be a hang; 0 switches the search off."""
HANG_SECONDS = 10.0

TEXT = "TRACKSIDE_CAPTURE_TEXT"


@dataclass(frozen=True, slots=True)
class CaptureEnvironment:
    hook_config: Path = CONFIG_FOLDER / "debughookconfig.json"
    tensorboard_config: Path = CONFIG_FOLDER / "tensorboardoutputconfig.json"
    checkpoint_config: Path = CONFIG_FOLDER / "checkpointconfig.json"
    profiler_config: Path = CONFIG_FOLDER / "profilerconfig.json"
    enabled: bool = True
    """USE_SMDEBUG: false makes `get_hook` return None."""
    job_name: str = ""
    """TRAINING_JOB_NAME: the platform, not the hook, marks the end of the trial."""
    metrics_folder: Path | None = None
    auto: bool = False
    """Watch scripts without any capture code."""
    keeps_text: bool = True
    """TRACKSIDE_CAPTURE_TEXT: `off` saves no text of a language model's first batch."""
    age_seconds: float | None = None
    """How long a record may wait for others to share its segment; None leaves it to the writer."""
    audit_plan: Path | None = None
    hang_seconds: float = HANG_SECONDS
    rank: int | None = None
    """RANK: as launchers set it, before there is a process group."""

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> "CaptureEnvironment":
        environ = os.environ if environ is None else environ
        default = cls()
        metrics = environ.get("SAGEMAKER_METRICS_DIRECTORY")

        def file(variable: str, usual: Path) -> Path:
            return Path(environ.get(variable) or usual)

        return cls(
            hook_config=file("SMDEBUG_CONFIG_FILE_PATH", default.hook_config),
            tensorboard_config=file("TENSORBOARD_CONFIG_FILE_PATH", default.tensorboard_config),
            checkpoint_config=file("CHECKPOINT_CONFIG_FILE_PATH", default.checkpoint_config),
            profiler_config=file("SMPROFILER_CONFIG_PATH", default.profiler_config),
            enabled=environ.get("USE_SMDEBUG", "true").lower() not in ("0", "false", "no", "off"),
            job_name=environ.get("TRAINING_JOB_NAME", ""),
            metrics_folder=Path(metrics) if metrics else None,
            auto=environ.get(SWITCH, "") == "auto",
            keeps_text=environ.get(TEXT, "").lower() not in ("0", "false", "no", "off"),
            age_seconds=float(environ[AGE]) if environ.get(AGE) else None,
            audit_plan=Path(environ[AUDIT]) if environ.get(AUDIT) else None,
            hang_seconds=_seconds(environ, HANG, HANG_SECONDS),
            rank=int(environ["RANK"]) if environ.get("RANK", "").isdecimal() else None,
        )


@dataclass(frozen=True, slots=True)
class TrialEnvironment:
    """How long readers of a trial wait for late files."""

    end_delay_seconds: float | None = None
    """SMDEBUG_TRAINING_END_DELAY_REFRESH: from the end marker to the last refresh. None: what
    the slower of several workers may need, and no delay for a single one."""
    most_incomplete_steps: int = 1000
    """SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW: with more, the older half counts as complete."""
    num_file_retries: int = 100
    """SMDEBUG_MISSING_EVENT_FILE_RETRY_LIMIT: retries for an event file that is not there
    yet."""

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> "TrialEnvironment":
        environ = os.environ if environ is None else environ
        delay = _number(environ, "SMDEBUG_TRAINING_END_DELAY_REFRESH")
        window = _number(environ, "SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW")
        retries = _number(environ, "SMDEBUG_MISSING_EVENT_FILE_RETRY_LIMIT")
        default = cls()
        return cls(
            end_delay_seconds=delay,
            most_incomplete_steps=default.most_incomplete_steps if window is None else int(window),
            num_file_retries=default.num_file_retries if retries is None else int(retries),
        )


@dataclass(frozen=True, slots=True)
class LogEnvironment:
    """Where messages go, by smdebug's variables."""

    level: str = "info"
    """SMDEBUG_LOG_LEVEL: debug, info, warning, error, critical or off."""
    path: Path | None = None
    """SMDEBUG_LOG_PATH: a file that gets all of them, too."""
    context: str = ""
    """SMDEBUG_LOG_CONTEXT: begins each line; the host and the process when not given."""
    all_to_stdout: bool = True
    """SMDEBUG_LOG_ALL_TO_STDOUT: `false` sends warnings and worse to stderr."""

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> "LogEnvironment | None":
        """None where no such variable is set: then the script's own logging decides."""
        environ = os.environ if environ is None else environ
        names = ("LEVEL", "PATH", "CONTEXT", "ALL_TO_STDOUT")
        level, path, context, all_to_stdout = (environ.get(f"SMDEBUG_LOG_{n}", "") for n in names)
        if not (level or path or context or all_to_stdout):
            return None
        return cls(
            level=level.lower() or cls().level,
            path=Path(path) if path else None,
            context=context,
            all_to_stdout=all_to_stdout.lower() != "false",
        )


def _seconds(environ: Mapping[str, str], variable: str, usual: float) -> float:
    """A value that is none must not fail a training: the usual one is used."""
    try:
        return float(environ.get(variable) or usual)
    except ValueError:
        return usual


def _number(environ: Mapping[str, str], variable: str) -> float | None:
    text = environ.get(variable)
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise SMDebugValueError(
            f"{variable}={text!r} is not a non-negative number. Set one, or unset it."
        )
    return number
