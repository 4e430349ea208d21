"""`make demo`: trains examples/digits as a job, in a home of its own below the clone."""

import os
import shlex
import sys
import time
from pathlib import Path

EXAMPLES = Path(__file__).parent
HOME = EXAMPLES.parent / ".demo"
# Before trackside looks: the demonstration touches nothing outside this folder.
os.environ["TRACKSIDE_HOME"] = str(HOME)

from trackside import JobFailed, PyTorch, TensorBoardOutputConfig  # noqa: E402

sys.path.insert(0, str(EXAMPLES / "digits"))
from digits import prepare  # type: ignore[import-not-found]  # noqa: E402


def main() -> int:
    data = HOME / "data"
    prepare(data)
    estimator = PyTorch(
        entry_point="train.py",
        source_dir=EXAMPLES / "digits",
        base_job_name="digits",
        hyperparameters={"epochs": 15, "batch-size": 32},
        checkpoint_s3_uri=f"s3://demo/checkpoints/{time.time():.0f}",  # each time from the start
        tensorboard_output_config=TensorBoardOutputConfig("s3://demo/curves"),
        metric_definitions=[{"Name": "accuracy", "Regex": "accuracy=([0-9.]+)"}],
        output_path="s3://demo/jobs",
    )
    try:
        estimator.fit({"training": data})
    except JobFailed as failure:
        print(f"\n{failure}", file=sys.stderr)
        return 1
    assert estimator.latest_training_job is not None
    say_what_is_where(estimator.latest_training_job.name, estimator)
    return 0


def say_what_is_where(name: str, estimator: PyTorch) -> None:
    trackside = f"TRACKSIDE_HOME={shlex.quote(str(HOME))} {Path(sys.executable).parent}/trackside"
    curves = str(estimator.latest_job_tensorboard_artifacts_path())
    folder = HOME / "buckets" / curves.removeprefix("s3://")
    print(
        f"""
The job is over; everything it made is below {HOME / "buckets"}.

  model   {estimator.model_data}
  curves  {curves}

What to type next:

  {trackside} show {name}
  {trackside} logs {name}
  {trackside} artifacts {name} --download results
  {Path(sys.executable).parent}/tensorboard --logdir {shlex.quote(str(folder))}

Remove {HOME} when you have seen enough."""
    )


if __name__ == "__main__":
    sys.exit(main())
