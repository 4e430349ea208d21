"""mlflow's store of files."""

from tests.curves.loggers.conftest import Logging

RUN = "mlruns/0/44f1727ca46c41a4be2968ea6933f52e"


def test_lines_are_points_of_the_run_by_its_name(logging: Logging):
    logging.write(f"{RUN}/meta.yaml", "artifact_uri: x\nrun_name: nimble-fox-12\n")
    file = logging.write(f"{RUN}/metrics/train/loss", "1794905311665 0.5 0\n1794905311666 na")
    logging.write(f"{RUN}/params/lr", "0.1")
    logging.files.tick()
    file.write_text("1794905311665 0.5 0\n1794905311666 nan 1\nrubbish\n1794905311667 0.25 2\n")
    logging.files.tick()
    run = "mlflow/nimble-fox-12-44f1727c"
    assert logging.tags == {(run, "train/loss")}
    points = logging.points(run, "train/loss")
    assert [step for step, _ in points] == [0, 1, 2]
    assert points[0] + points[2] == (0, 0.5, 2, 0.25)


def test_a_run_without_a_name(logging: Logging):
    logging.write(f"{RUN}/metrics/loss", "1 2 3\n")
    logging.files.tick()
    assert logging.points("mlflow/run-44f1727c", "loss") == [(3, 2.0)]
