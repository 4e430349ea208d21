"""A job with a checkpoint goes on when it loses a machine, at most one checkpoint back, and its
curves show no hole and no step twice."""

import json

import numpy
import pytest

from tests.e2e.test_curves import TRACKSIDE
from tests.e2e.test_machines import Place, place
from tests.wait import until
from trackside import curves
from trackside.curves.curve_choice import all_curves
from trackside.records.death import Cause, Death
from trackside.records.status import Status

__all__ = ["place"]
pytestmark = pytest.mark.timeout(900)

STEPS, EVERY = 40, 5
TRAIN = f"""
import json, os, time, trackside

is_lead = os.environ["SM_CURRENT_HOST"] == "algo-1"
checkpoint = "/opt/ml/checkpoints/last.json"
first = json.load(open(checkpoint))["step"] + 1 if os.path.exists(checkpoint) else 0
writer = trackside.SummaryWriter("/opt/ml/output/tensorboard") if is_lead else None
print("begins at", first, flush=True)
for step in range(first, {STEPS}):
    print("step", step, flush=True)
    time.sleep(0.2)
    if is_lead:
        writer.add_scalar("loss", 1 / (step + 1), step)
        writer.flush()
        if step % {EVERY} == {EVERY} - 1:
            with open(checkpoint + ".new", "w") as file:
                json.dump({{"step": step}}, file)
            os.replace(checkpoint + ".new", checkpoint)
    while step == {STEPS} - 1 and not os.path.exists("/tmp/go"):
        time.sleep(0.1)
"""


@pytest.mark.parametrize("lost", ["b", pytest.param("a", marks=pytest.mark.nightly)])
def test_a_lost_host_is_replaced_and_its_curve_has_no_hole(place: Place, lost: str):
    """`a` is the lead's machine: what it had not uploaded is lost with it."""
    place.submit(
        TRAIN,
        CheckpointConfig={"S3Uri": f"s3://{place.bucket}/checkpoints"},
        TensorBoardOutputConfig={
            "S3OutputPath": f"s3://{place.bucket}/tb",
            "LocalPath": "/opt/ml/output/tensorboard",
        },
        RetryStrategy={"MaximumRetryAttempts": 1},
        **TRACKSIDE,
    )
    until(lambda: checkpoint_of(place) >= 2 * EVERY - 1, seconds=240)
    before = checkpoint_of(place)
    place.network[lost].kill()
    until(lambda: "begins at" in attempt_2(place), seconds=240)
    place.release()
    history = place.wait()
    assert history.state.status is Status.COMPLETED, history.failure_reason
    assert history.earlier_deaths == (
        Death(cause=Cause.NODE_LOST, host="algo-1" if lost == "a" else "algo-2"),
    )
    assert begins(place) == [0, 0, *2 * [max(before + 1, begins(place)[-1])]]
    (loss,) = (curve for curve in all_curves(read(place)) if curve.name == "loss")
    assert loss.series.steps.tolist() == [*range(STEPS)]
    assert numpy.allclose(loss.series.values, [1 / (step + 1) for step in range(STEPS)])


def checkpoint_of(place: Place) -> int:
    client = place.network.client
    try:
        found = client.get_object(Bucket=place.bucket, Key="checkpoints/last.json")
    except client.exceptions.NoSuchKey:
        return -1
    return int(json.loads(found["Body"].read())["step"])


def attempt_2(place: Place) -> str:
    place.jobs.reconcile("job")
    _, _, rest = place.log().partition("begins at 0")
    return rest.partition("begins at 0")[2]


def begins(place: Place) -> list[int]:
    lines = place.log().splitlines()
    found = [int(line.rpartition(" ")[2]) for line in lines if line.startswith("begins at")]
    return sorted(found)


def read(place: Place) -> curves.Curves:
    return curves.read(f"s3://{place.bucket}/tb/job/tensorboard-output", home=place.settings.home)
