"""smdebug's `TrainingJob`: a job by its name, for notebooks that analyse its profiler output."""

import logging
import time
from typing import Any

from trackside.capture.reading.extras import import_extra
from trackside.smdebug_alias.profiler_readers import (
    AlgorithmMetricsReader,
    MetricsReaderBase,
    SystemMetricsReader,
)

logger = logging.getLogger(__name__)

POLL_SECONDS = 2.0
_OVER = frozenset({"Completed", "Failed", "Stopped"})


class TrainingJob:
    """Queries the server that boto3 is configured for; `trackside env` configures it for ours."""

    def __init__(self, training_job_name: str, region: str | None = None) -> None:
        self.name = training_job_name
        self.sm_client = import_extra("boto3").client("sagemaker", region_name=region)
        self.profiler_config = self.describe_training_job().get("ProfilerConfig", {})
        output = self.profiler_config.get("S3OutputPath")
        if output is None:
            raise ValueError(
                f"Training job {training_job_name!r} has no profiler output: it was started "
                "with the profiler switched off. Start it with a ProfilerConfig."
            )
        self.profiler_s3_output_path = f"{output.rstrip('/')}/{self.name}/profiler-output"
        self.system_metrics_reader: SystemMetricsReader | None = None
        self.framework_metrics_reader: AlgorithmMetricsReader | None = None

    def get_sm_client(self) -> Any:
        return self.sm_client

    def get_config_and_profiler_s3_output_path(self) -> tuple[dict[str, Any], str]:
        return self.profiler_config, self.profiler_s3_output_path

    def get_systems_metrics_reader(self) -> SystemMetricsReader | None:
        """None until it was waited for."""
        return self.system_metrics_reader

    def get_framework_metrics_reader(self) -> AlgorithmMetricsReader | None:
        return self.framework_metrics_reader

    def describe_training_job(self) -> dict[str, Any]:
        described: dict[str, Any] = self.sm_client.describe_training_job(TrainingJobName=self.name)
        return described

    def wait_for_sys_profiling_data_to_be_available(self) -> None:
        self.system_metrics_reader = SystemMetricsReader(self.profiler_s3_output_path)
        self._wait(self.system_metrics_reader, "system")

    def wait_for_framework_profiling_data_to_be_available(self) -> None:
        self.framework_metrics_reader = AlgorithmMetricsReader(self.profiler_s3_output_path)
        self._wait(self.framework_metrics_reader, "framework")

    def _wait(self, reader: MetricsReaderBase, kind: str) -> None:
        """Until there is data, or the job has ended without any."""
        while True:
            is_over = self.describe_training_job()["TrainingJobStatus"] in _OVER
            if reader.get_timestamp_of_latest_available_file():
                logger.info("Profiler data from %s is available.", kind)
                return
            if is_over:
                logger.warning("%s has ended and left no profiler data from %s.", self.name, kind)
                return
            logger.info("Profiler data from %s is not available yet.", kind)
            time.sleep(POLL_SECONDS)
