"""Sends the training jobs of SageMaker's Local Mode (`instance_type="local"`) to the server.

What Local Mode reads from this machine's folders is uploaded to the session's bucket first; models
and endpoints stay Local Mode's own. This runs where there need be no Trackside, under any Python
from 3.7 on.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from types import ModuleType
from typing import Any

_FILE = "file://"
_WITH_OUTPUT = ("OutputDataConfig", "DebugHookConfig", "ProfilerConfig")
_SOURCE = "sagemaker_submit_directory"


def register(module: ModuleType) -> None:
    """With `sagemaker.local.local_session`; one of another form is left as it is."""
    session = getattr(module, "LocalSession", None)
    if all(hasattr(session, name) for name in ("_initialize", "logs_for_job", "upload_data")):
        _extend(session)


def _extend(session: Any) -> None:
    initialize, silent = session._initialize, session.logs_for_job

    def _initialize(self: Any, *arguments: Any, **options: Any) -> None:
        initialize(self, *arguments, **options)
        if os.environ.get("AWS_ENDPOINT_URL"):
            server = self.boto_session.client("sagemaker", region_name=self._region_name)
            self.sagemaker_client = TrainingClient(self.sagemaker_client, server, self)

    def logs_for_job(self: Any, *arguments: Any, **options: Any) -> Any:
        """Local Mode prints the output of its own containers; a job's log is the server's."""
        if isinstance(self.sagemaker_client, TrainingClient):
            return super(session, self).logs_for_job(*arguments, **options)
        return silent(self, *arguments, **options)

    session._initialize, session.logs_for_job = _initialize, logs_for_job


class TrainingClient:
    """The server's operations on training jobs, and Local Mode's others."""

    def __init__(self, local: Any, server: Any, session: Any) -> None:
        self._local = local
        self._server = server
        self._session = session

    def __getattr__(self, name: str) -> Any:
        is_training = "training_job" in name or name in ("get_waiter", "add_tags", "list_tags")
        return getattr(self._server if is_training else self._local, name)

    def create_training_job(self, **request: Any) -> Any:
        job = request["TrainingJobName"]
        channels = request.get("InputDataConfig") or []
        parameters = dict(request.get("HyperParameters") or {})
        if _FILE in parameters.get(_SOURCE, ""):
            place = self._upload_source(json.loads(parameters[_SOURCE]), job)
            parameters[_SOURCE] = json.dumps(place)
        changed = {
            "InputDataConfig": [self._uploaded(each, job) for each in channels],
            "HyperParameters": parameters,
        }
        for each in (request.get(name) for name in _WITH_OUTPUT):
            if each is not None and each.get("S3OutputPath") == "":  # with local_code
                each["S3OutputPath"] = f"s3://{self._session.default_bucket()}/"
        # Local Mode asks for less than the service does.
        request.setdefault("StoppingCondition", {"MaxRuntimeInSeconds": 86400})
        request["ResourceConfig"].setdefault("VolumeSizeInGB", 30)
        kept = {key: value for key, value in changed.items() if value}
        return self._server.create_training_job(**{**request, **kept})

    def _uploaded(self, channel: dict[str, Any], job: str) -> dict[str, Any]:
        source = channel["DataSource"].get("FileDataSource")
        if source is None:
            return channel
        path = _path(source["FileUri"])
        prefix = "{}/input/{}".format(job, channel["ChannelName"])
        uri = self._session.upload_data(path, key_prefix=prefix)
        data = {
            "S3DataType": "S3Prefix",
            "S3DataDistributionType": source.get("FileDataDistributionType", "FullyReplicated"),
            "S3Uri": uri,
        }
        return {**channel, "DataSource": {"S3DataSource": data}}

    def _upload_source(self, uri: str, job: str) -> str:
        """The folder that `local_code` would have mounted."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            tar.add(_path(uri), arcname=".")
        bucket = self._session.default_bucket()
        key = f"{job}/source/sourcedir.tar.gz"
        client = self._session.boto_session.client("s3", region_name=self._session._region_name)
        client.put_object(Bucket=bucket, Key=key, Body=packed.getvalue())
        return f"s3://{bucket}/{key}"


def _path(uri: str) -> str:
    """`file://data` and `file:///data`: Local Mode takes relative paths too."""
    return os.path.abspath(uri[len(_FILE) :])
