"""Estimators: what to train and how, until `fit` makes a job of it.

`arguments.py` lists the arguments; `request.py` turns them into a request.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Unpack

from trackside.errors import InvalidSpec, JobError
from trackside.jobs.placement_traits import caution_of
from trackside.records.layout import JobKeys
from trackside.records.spec import JobSpec
from trackside.sdk import arguments, hyperparameters
from trackside.sdk.arguments import Arguments, in_arguments
from trackside.sdk.git_state import GitReader, reading_git
from trackside.sdk.inputs import Inputs
from trackside.sdk.job import Logs, TrainingJob
from trackside.sdk.known_jobs import known_jobs, known_submitter
from trackside.sdk.launch import with_launch
from trackside.sdk.recorded_files import git_diff, script_alone
from trackside.sdk.request import FitArguments, Request, make_request
from trackside.sdk.rule import AnyRule, ProfilerRule, Rule
from trackside.sdk.source import Source
from trackside.sdk.user_warnings import caution
from trackside.settings import Settings

LOCAL_ROLE = "arn:aws:iam::000000000000:role/trackside"


def get_execution_role() -> str:
    """A role for scripts that need one; it has no effect on a local machine."""
    return LOCAL_ROLE


class _Estimator(ABC):
    """The base of all estimators. They differ in how hyperparameters are encoded."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._arguments = arguments.read(options, callee=type(self).__name__)
        self._hyperparameters = dict(self._arguments.pop("hyperparameters", {}))
        self.latest_training_job: TrainingJob | None = None
        self.jobs: list[TrainingJob] = []
        self.typed_command: Sequence[str] | None = None
        """What is recorded as the command of its jobs; by default this program's own."""

    @abstractmethod
    def _encode(self, value: Any) -> str:
        """A hyperparameter's value on the wire."""

    def fit(
        self,
        inputs: Inputs | None = None,
        wait: bool = True,
        logs: Logs = "All",
        job_name: str | None = None,
        experiment_config: Mapping[str, Any] | None = None,
    ) -> None:
        """Start a job; with `wait`, print its log as it runs and return when it has ended.

        `InvalidSpec` before anything is created; `JobFailed` when the job fails. Interrupting the
        wait (Ctrl-C) does not stop the job.
        """
        jobs = known_submitter()
        fit = FitArguments(inputs=inputs, job_name=job_name, experiment=experiment_config)
        with reading_git(self._arguments) as git:
            request = make_request(self._all_arguments(), fit, self._encode, jobs.settings)
            spec = with_launch(git.added_to(request.spec), self.typed_command, git.folder)
            files = {**_contents(request.files), **_recorded(spec, request.source, git)}
        source = _packed(request, jobs.settings)
        if not self.typed_command and (sentence := caution_of(spec.options.placement)):
            caution(sentence)
        try:
            with _pull_shown(spec):
                jobs.submit(spec, source=source, files=files)
        except InvalidSpec as failure:
            raise in_arguments(failure, self._all_arguments()) from None
        job = TrainingJob(request.spec.name, jobs.jobs)
        self.latest_training_job = job
        self.jobs.append(job)
        if wait:
            job.wait(logs=logs)

    def spec(self, inputs: Inputs | None = None, job_name: str | None = None) -> JobSpec:
        """The validated job that `fit` would start, without starting it."""
        fit = FitArguments(inputs=inputs, job_name=job_name)
        return make_request(self._all_arguments(), fit, self._encode, known_jobs().settings).spec

    def hyperparameters(self) -> dict[str, Any]:
        return dict(self._hyperparameters)

    def set_hyperparameters(self, **values: Any) -> None:
        self._hyperparameters.update(values)

    @property
    def model_data(self) -> str:
        """Where the latest job's model is. `JobNotFinished` before it is there."""
        return self._latest().model_data

    def stop_training_job(self) -> None:
        self._latest().stop()

    def latest_job_debugger_artifacts_path(self) -> str | None:
        return self._latest().debugger_artifacts_path

    def latest_job_tensorboard_artifacts_path(self) -> str | None:
        return self._latest().tensorboard_artifacts_path

    def latest_job_profiler_artifacts_path(self) -> str | None:
        return self._latest().profiler_artifacts_path

    def enable_default_profiling(self, *_: Any, **__: Any) -> None:
        _settled("enable_default_profiling")

    def update_profiler(self, *_: Any, **__: Any) -> None:
        _settled("update_profiler")

    def disable_profiling(self) -> None:
        _settled("disable_profiling")

    @property
    def rules(self) -> list[AnyRule]:
        return list(self._arguments.get("rules", ()))

    @property
    def debugger_rules(self) -> list[Rule]:
        return [rule for rule in self.rules if isinstance(rule, Rule)]

    @property
    def profiler_rules(self) -> list[ProfilerRule]:
        return [rule for rule in self.rules if isinstance(rule, ProfilerRule)]

    def _latest(self) -> TrainingJob:
        if self.latest_training_job is None:
            raise JobError("This estimator has not started a job yet. Call fit() first.")
        return self.latest_training_job

    def _all_arguments(self) -> dict[str, Any]:
        return {**self._arguments, "hyperparameters": self._hyperparameters}


class Estimator(_Estimator):
    """Trains with any script. Hyperparameters are encoded by `str`."""

    def __init__(
        self,
        image_uri: str | None = None,
        role: str | None = None,
        /,
        **options: Unpack[Arguments],
    ) -> None:
        super().__init__({**_positional(image_uri=image_uri, role=role), **options})

    def _encode(self, value: Any) -> str:
        return hyperparameters.as_text(value)


class PyTorch(_Estimator):
    """Trains with a PyTorch script. Hyperparameters are encoded as JSON."""

    def __init__(self, entry_point: str | None = None, /, **options: Unpack[Arguments]) -> None:
        super().__init__({**_positional(entry_point=entry_point), **options})

    def _encode(self, value: Any) -> str:
        return hyperparameters.as_json(value)


def _positional(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _settled(method: str) -> None:
    caution(
        f"{method}() has no effect: the profiler of a running job stays as it was started. "
        "Give profiler_config, disable_profiler and rules to the estimator."
    )


def _pull_shown(spec: JobSpec) -> AbstractContextManager[None]:
    if not spec.is_container:
        return nullcontext()
    from trackside.sdk.pull_progress import pull_shown

    return pull_shown()


def _contents(files: Mapping[str, Path]) -> dict[str, bytes]:
    return {uri: path.read_bytes() for uri, path in files.items()}


def _recorded(spec: JobSpec, source: Source | None, git: GitReader) -> dict[str, bytes]:
    keys = JobKeys.of(spec)
    files = git_diff(keys, git)
    if source is not None and source.in_place is not None and source.program:
        files |= script_alone(keys, source.in_place / source.program)
    return files


def _packed(request: Request, settings: Settings) -> Iterator[bytes] | None:
    """The source's archive; None when it is stored already or there is none.

    Trackside's own folders are excluded, even inside the source folder.
    """
    source = request.source
    if source is None or source.uri is not None or source.in_place is not None:
        return None
    return source.pack(leave_out=[settings.home])
