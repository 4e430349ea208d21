from typing import Any

from trackside.capture.trial import Trial
from trackside.rules.saved.profiler_trial import ProfilerTrial
from trackside.smdebug_alias.opening import create_trial

__all__ = ["LocalTrial", "ProfilerTrial", "S3Trial", "Trial", "create_trial"]


def LocalTrial(name: str, dirname: str, **options: Any) -> Trial:
    return create_trial(dirname, name, False, **options)


def S3Trial(name: str, bucket_name: str, prefix_name: str, **options: Any) -> Trial:
    return create_trial(f"s3://{bucket_name}/{prefix_name}", name, False, **options)
