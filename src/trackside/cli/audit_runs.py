"""The runs of `trackside audit-resume`: of a script in copies of its folder, or of a job as further
jobs with checkpoints of their own.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from trackside.capture.checkpoints.audit_plan import AuditPlan
from trackside.capture.environment import AUDIT
from trackside.errors import AuditFailed
from trackside.jobs.jobs import Jobs
from trackside.page.run_again import request_again
from trackside.records.spec import JobSpec
from trackside.records.status import Status
from trackside.sdk.source import LEFT_OUT
from trackside.settings import environment
from trackside.texts.unique_names import unique_name
from trackside.views.job.resume_audit import Run

_MOST_BYTES = 2 << 30
_NUM_LINES = 15
_SITE = Path(__file__).resolve().parents[1] / "capture" / "site"
_NOT_PASSED_ON = (
    "DebugHookConfig",
    "DebugRuleConfigurations",
    "ProfilerConfig",
    "ProfilerRuleConfigurations",
)
"""Of a job's request: an audit needs no rules."""


class Runs(Protocol):
    @property
    def folder(self) -> Path: ...

    def run(self, name: str, plan: AuditPlan, *, place: str, more: Sequence[str] = ()) -> Run:
        """`place` names the folder or checkpoints: those of an earlier run, to go on with them."""


@dataclass(frozen=True, slots=True)
class ScriptRuns:
    folder: Path
    source: Path
    command: tuple[str, ...]
    leave_out: tuple[str, ...] = ()

    def run(self, name: str, plan: AuditPlan, *, place: str, more: Sequence[str] = ()) -> Run:
        work = self.folder / place
        if place == name:
            _copy(self.source, work, self.leave_out)
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            ended = subprocess.run(
                [*self.command, *more],
                cwd=work,
                env=environment() | _variables(self.folder, name, plan, environment()),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if ended.returncode:
            last = log.read_text(errors="replace").splitlines()[-_NUM_LINES:]
            raise AuditFailed(
                f"The {name} run of the script ended with code {ended.returncode}:\n"
                + "\n".join(f"    {line}" for line in last)
            )
        return Run.read(plan.record)


@dataclass(frozen=True, slots=True)
class JobRuns:
    folder: Path
    jobs: Jobs
    spec: JobSpec

    def run(self, name: str, plan: AuditPlan, *, place: str, more: Sequence[str] = ()) -> Run:
        if more:
            raise AuditFailed(
                "A job is resumed with its own arguments. Audit the script itself to give it "
                "others with --resume-arguments."
            )
        job = unique_name(f"audit-{name}")
        self.jobs.submit(JobSpec.from_request(self._request(job, name, place, plan)))
        history = self.jobs.wait(job)
        if history.state.status is not Status.COMPLETED:
            raise AuditFailed(
                f"The {name} run, job {job}, did not complete. See `trackside logs {job}`."
            )
        return Run.read(plan.record)

    def _request(self, job: str, name: str, place: str, plan: AuditPlan) -> dict[str, Any]:
        request = request_again(self.spec, job, {})
        for key in _NOT_PASSED_ON:
            request.pop(key, None)
        given = dict(request.get("Environment", {}))
        request["Environment"] = given | _variables(self.folder, name, plan, given)
        checkpoints = self.folder / f"{place}-checkpoints"
        checkpoints.mkdir(exist_ok=True)
        kept = request.get("CheckpointConfig", {})
        request["CheckpointConfig"] = {**kept, "S3Uri": f"file://{checkpoints}"}
        return request


def job_runs(folder: Path, jobs: Any, name: str) -> JobRuns:
    """`AuditFailed` for a job whose runs this machine cannot watch."""
    if not isinstance(jobs, Jobs):
        raise AuditFailed(
            "Jobs of a server cannot be audited from here. Run the audit on the server's machine, "
            "or audit the script itself."
        )
    spec = jobs.record(name).spec
    if spec.is_container or spec.options.in_place or spec.resources.count > 1:
        raise AuditFailed(
            f"{name!r} runs in a container, in place or on several hosts, which an audit does not "
            "repeat. Audit the script itself: trackside audit-resume SCRIPT."
        )
    return JobRuns(folder, jobs, spec)


def _variables(folder: Path, name: str, plan: AuditPlan, given: Any) -> dict[str, str]:
    path = folder / f"{name}.plan.json"
    plan.write(path)
    behind = given.get("PYTHONPATH")
    paths = os.pathsep.join([str(_SITE), *([behind] if behind else [])])
    return {AUDIT: str(path), "PYTHONHASHSEED": "0", "PYTHONPATH": paths}


def _copy(source: Path, target: Path, leave_out: Sequence[str]) -> None:
    """Without what is never packed for a job either, and without the files of the audit."""
    by_name = shutil.ignore_patterns(*LEFT_OUT, *leave_out)
    size = 0

    def ignored(folder: str, names: list[str]) -> set[str]:
        nonlocal size
        left_out = {*by_name(folder, names)}
        left_out |= {name for name in names if (Path(folder) / name / "pyvenv.cfg").is_file()}
        left_out |= {name for name in names if Path(folder) / name == target.parent}
        kept = (Path(folder) / name for name in names if name not in left_out)
        size += sum(path.lstat().st_size for path in kept)
        if size > _MOST_BYTES:
            raise AuditFailed(
                f"{source} holds more than {_MOST_BYTES >> 30} GB, and the audit copies it. Name a "
                "smaller folder with --source-dir, or leave files out with --leave-out."
            )
        return left_out

    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True, ignore=ignored)
