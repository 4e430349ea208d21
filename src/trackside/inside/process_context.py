"""The environment of the process that calls `init`: inside a job, its rank, in a notebook.

Reads environment variables.
"""

import builtins
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import process
from pathlib import Path

RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
"""Set by torchrun, by two kinds of mpirun, and by srun."""


@dataclass(frozen=True, slots=True)
class ProcessContext:
    job: str = ""
    """The job that runs this process; empty outside a job."""
    base: Path = Path("/opt/ml")
    """The job's /opt/ml."""
    rank: int = 0
    rank_variable: str = ""
    """The variable that has the rank."""
    is_interactive: bool = False
    """A notebook or a prompt: the process continues after an error, and is idle between cells."""
    is_being_imported: bool = False
    """A process spawned by multiprocessing imports the script again: that is not a separate run."""

    @classmethod
    def detect(cls, environ: Mapping[str, str] | None = None) -> "ProcessContext":
        environ = os.environ if environ is None else environ
        in_job = environ.get("TRACKSIDE_EXIT_RECORD") or environ.get("SM_CURRENT_HOST")
        variable, rank = _rank(environ)
        return cls(
            job=environ.get("TRAINING_JOB_NAME", "") if in_job else "",
            base=Path(environ.get("SAGEMAKER_BASE_DIR") or "/opt/ml"),
            rank=rank,
            rank_variable=variable,
            is_interactive=hasattr(builtins, "__IPYTHON__") or hasattr(sys, "ps1"),
            is_being_imported=bool(getattr(process.current_process(), "_inheriting", False)),
        )


def _rank(environ: Mapping[str, str]) -> tuple[str, int]:
    for variable in RANKS:
        if environ.get(variable, "").isdecimal():
            return variable, int(environ[variable])
    return "", 0
