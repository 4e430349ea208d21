"""The variables a job's environment carries for capture, read once into one frozen object."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CONFIG_FOLDER = Path("/opt/ml/input/config")
SWITCH = "TRACKSIDE_CAPTURE"
"""Set by Trackside to `auto` for scripts that are to be watched without a change."""
AGE = "TRACKSIDE_CAPTURE_AGE"
"""Set by Trackside for jobs that are watched by rules."""


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
    """Watch scripts that know nothing of capture."""
    age_seconds: float | None = None
    """How long a record may wait for others to share its segment; None leaves it to the writer."""

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> "CaptureEnvironment":
        environ = os.environ if environ is None else environ
        metrics = environ.get("SAGEMAKER_METRICS_DIRECTORY")
        return cls(
            hook_config=Path(environ.get("SMDEBUG_CONFIG_FILE_PATH") or cls().hook_config),
            tensorboard_config=Path(
                environ.get("TENSORBOARD_CONFIG_FILE_PATH") or cls().tensorboard_config
            ),
            checkpoint_config=Path(
                environ.get("CHECKPOINT_CONFIG_FILE_PATH") or cls().checkpoint_config
            ),
            profiler_config=Path(environ.get("SMPROFILER_CONFIG_PATH") or cls().profiler_config),
            enabled=environ.get("USE_SMDEBUG", "true").lower() not in ("0", "false", "no", "off"),
            job_name=environ.get("TRAINING_JOB_NAME", ""),
            metrics_folder=Path(metrics) if metrics else None,
            auto=environ.get(SWITCH, "") == "auto",
            age_seconds=float(environ[AGE]) if environ.get(AGE) else None,
        )
