"""Tables of metrics as Lightning, Keras and others write them."""

import pytest

from tests.curves.loggers.conftest import Logging


def test_rows_are_points_as_they_come(logging: Logging):
    file = logging.write("log/metrics.csv", "epoch,step,loss,acc\n0,0,2.5,\n0,1,")
    logging.files.tick()
    assert logging.points("log/metrics", "loss") == [(0, 2.5)]
    assert ("log/metrics", "acc") not in logging.tags
    file.write_text("epoch,step,loss,acc\n0,0,2.5,\n0,1,1.5,\n0,1,,0.5\n")
    logging.files.tick()
    logging.files.tick()
    assert logging.points("log/metrics", "loss") == [(0, 2.5), (1, 1.5)]
    assert logging.points("log/metrics", "acc") == [(1, 0.5)]
    assert {tag for _, tag in logging.tags} == {"loss", "acc"}
    assert logging.files.is_used


def test_columns_that_come_later_repeat_no_row(logging: Logging):
    """Lightning writes the whole file again for them."""
    logging.write("metrics.csv", "step,loss\n0,3\n1,2\n")
    logging.files.tick()
    logging.write("metrics.csv", "step,loss,val_loss\n0,3,\n1,2,\n1,,4\n2,1,\n")
    logging.files.tick()
    assert logging.points("metrics", "loss") == [(0, 3), (1, 2), (2, 1)]
    assert logging.points("metrics", "val_loss") == [(1, 4)]


def test_a_process_that_takes_over_continues_after_the_last_row(logging: Logging):
    logging.write("results.csv", " epoch, train/box_loss\n1, 0.5\n")
    logging.files.tick()
    logging.write("results.csv", " epoch, train/box_loss\n1, 0.5\n2, 0.25\n")
    logging.taken_over().tick()
    assert logging.points("results", "train/box_loss") == [(1, 0.5), (2, 0.25)]


@pytest.mark.parametrize(
    "content",
    [
        "name,price\nx,3\n",  # a data set
        "epoch,loss",  # not a line yet
        "",
        "step," + ",".join(map(str, range(600))) + "\n",
        '"' + "x" * 100_000,
        b"\xff\xfe\x00\n1,2\n",
        "step,loss\nx,1\n1e999,1\n1.5,1\n,\n1,yes\n",
    ],
)
def test_other_tables_are_no_curves(logging: Logging, content: str | bytes):
    logging.write("data.csv", content)
    logging.files.tick()
    assert logging.tags == set()
    assert not logging.files.is_used


def test_a_table_beside_event_files_is_a_duplicate(logging: Logging):
    logging.write("version_0/metrics.csv", "step,loss\n0,3\n")
    logging.write("version_0/events.out.tfevents.1.host", b"")
    logging.files.tick()
    assert logging.tags == set()
