"""PutMetricData: values that a script sends to CloudWatch become curves of its job.

They are written to the folder where the job's supervisor reads the script's metrics: it adds them
to the curves, stores them and has the last of each.
"""

import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from trackside.api.call import ServiceError
from trackside.api.job_credentials import job_of
from trackside.api.json_service import OperationCall, Response
from trackside.api.metric_values import JOB, curve_name
from trackside.api.ownership import check_may_change
from trackside.api.validation import parsed
from trackside.coordination.host_files import files_of
from trackside.errors import JobNotFound
from trackside.jobs.jobs import Jobs
from trackside.records.members import member

MOST_DATA = 1000
_FILE = "cloudwatch.json"
_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    name: str = member("Name", least=1, most=255)
    value: str = member("Value", least=1, most=1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Datum:
    """One value: neither lists of them nor their statistics can be drawn as a curve."""

    name: str = member("MetricName", least=1, most=255)
    dimensions: tuple[Dimension, ...] = member(
        "Dimensions", tuple, of=Dimension, default=(), most=30
    )
    time: float | None = member("Timestamp", float, default=None)
    value: float = member("Value", float)
    unit: str | None = member("Unit", default=None)
    resolution: int | None = member("StorageResolution", int, default=None, least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PutMetricsRequest:
    namespace: str = member("Namespace", pattern="[^:].*", least=1, most=255)
    data: tuple[Datum, ...] = member("MetricData", tuple, of=Datum, least=1, most=MOST_DATA)
    is_strict: bool = member("StrictEntityValidation", bool, default=False)


class PutMetrics:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def put(self, call: OperationCall) -> Response:
        try:
            request = parsed(PutMetricsRequest, call.params)
        except ServiceError as error:
            raise _wrong(error.message) from None
        lines: dict[str, list[str]] = {}
        for datum in request.data:
            if not math.isfinite(datum.value):
                raise _wrong(f"The value {datum.value} of {datum.name!r} is not a number.")
            dimensions = {each.name: each.value for each in datum.dimensions}
            job = dimensions.get(JOB) or job_of(call.caller)
            if job is None:
                raise _wrong(
                    f"{datum.name!r} is of no training job; only their metrics are stored here. "
                    f"Put it from inside of a job, or with the dimension {JOB}."
                )
            name = curve_name(request.namespace, datum.name, dimensions)
            lines.setdefault(job, []).append(_line(name, datum))
        for job in lines:
            self._check(call, job)
        for job, texts in lines.items():
            self._append(job, texts)
        return None

    def _check(self, call: OperationCall, job: str) -> None:
        try:
            check_may_change(call, job, self._jobs)
        except JobNotFound:
            raise _unknown(job) from None

    def _append(self, job: str, lines: Sequence[str]) -> None:
        """To the supervisor of the first host: the caller does not specify a host."""
        try:
            record = self._jobs.record(job)
        except JobNotFound:
            raise _unknown(job) from None
        if record.folder is None or record.history.state.is_final:
            raise _wrong(f"The training job {job!r} has ended, and its curves with it.")
        host = files_of(record.folder, record.spec.hosts[0], record.history.attempt)
        folder = host.script_folder(host.reported_metrics)
        try:
            descriptor = folder.open(_FILE, _APPENDING)
        except (FileNotFoundError, NotADirectoryError):
            raise _wrong(f"The script of the training job {job!r} does not run yet.") from None
        with open(descriptor, "wb", buffering=0) as file:
            file.write("".join(lines).encode())


def _line(name: str, datum: Datum) -> str:
    moment = time.time() if datum.time is None else datum.time
    value = {"MetricName": name, "Value": datum.value, "Timestamp": round(moment * 1000)}
    return json.dumps(value) + "\n"


def _unknown(job: str) -> ServiceError:
    return _wrong(f"There is no training job {job!r}.")


def _wrong(text: str) -> ServiceError:
    return ServiceError("InvalidParameterValue", text)
