"""The log of a wandb run, as wandb frames it; wandb's own files are in the tests of whole jobs."""

import json
import struct
import zlib
from random import Random
from typing import Any

from tests.curves.loggers.conftest import Logging
from trackside.curves import wire

HEAD = b":W&B\xe1\xbe\x00"
BLOCK = 1 << 15
RUN = "wandb/offline-run-20261117_084810-635yr8f8/run-635yr8f8.wandb"


def framed(*records: bytes) -> bytes:
    """The file's bytes: records in pieces where they go over a block's end."""
    data = HEAD
    for record in records:
        is_first = True
        while True:
            room = BLOCK - len(data) % BLOCK - 7
            if room < 0:
                data += bytes(room + 7)
                continue
            piece, record = record[:room], record[room:]
            kind = (1 if is_first else 4) if not record else (2 if is_first else 3)
            checksum = zlib.crc32(piece, zlib.crc32(bytes((kind,))))
            data += struct.pack("<IHB", checksum, len(piece), kind) + piece
            is_first = False
            if not record:
                break
    return data


def history(step: int, **values: Any) -> bytes:
    items = b""
    for name, value in {**values, "_timestamp": 1.7e9 + step, "_step": step}.items():
        keys = b"".join(wire.text(2, key) for key in name.split("__"))
        text = value if isinstance(value, str) else json.dumps(value)
        items += wire.message(1, keys + wire.text(16, text))
    return wire.integer(1, step) + wire.message(2, items + wire.message(2, wire.integer(1, step)))


def test_numbers_of_the_history_are_points(logging: Logging):
    records = [
        wire.message(17, wire.text(1, "635yr8f8")),
        history(0, loss=1.0, gen__a=3, word='"text"', flag=True),
        history(1, loss='"NaN"', nothing="null", table='{"_type": "table"}'),
        history(5, loss=0.25),
    ]
    logging.write(RUN, framed(*records))
    logging.files.tick()
    assert logging.tags == {("wandb/635yr8f8", "loss"), ("wandb/635yr8f8", "gen/a")}
    (first, second, third) = logging.points("wandb/635yr8f8", "loss")
    assert (first, second[0], third) == ((0, 1.0), 1, (5, 0.25))
    assert second[1] != second[1]


def test_records_come_as_they_are_whole(logging: Logging):
    """Cut anywhere, over the ends of blocks too, each is read once."""
    data = framed(*(history(step, loss=step, text=json.dumps("x" * 9000)) for step in range(20)))
    random = Random(3)
    cuts = sorted(random.sample(range(len(data)), 12))
    for cut in [*cuts, len(data)]:
        logging.write(RUN, data[:cut])
        logging.files.tick()
    assert logging.points("wandb/635yr8f8", "loss") == [(step, step) for step in range(20)]


def test_a_damaged_record_costs_its_block(logging: Logging):
    data = bytearray(
        framed(*(history(step, loss=step, text=json.dumps("x" * 9000)) for step in range(20)))
    )
    data[BLOCK + 40] ^= 1
    logging.write(RUN, bytes(data))
    logging.files.tick()
    steps = [step for step, _ in logging.points("wandb/635yr8f8", "loss")]
    assert steps[:3] == [0, 1, 2]
    assert steps[-1] == 19
    assert 12 < len(steps) < 20


def test_a_record_too_large_is_passed_over(logging: Logging, monkeypatch):
    monkeypatch.setattr("trackside.curves.loggers.wandb_run.MOST_READ_BYTES", 2 * BLOCK)
    large = history(1, loss=1, text=json.dumps("x" * (5 * BLOCK)))
    logging.write(RUN, framed(history(0, loss=0), large, history(2, loss=2)))
    logging.files.tick()
    assert logging.points("wandb/635yr8f8", "loss") == [(0, 0), (2, 2)]


def test_a_run_is_known_before_anything_is_in_its_log(logging: Logging):
    logging.write(RUN, b"")
    logging.files.tick()
    assert logging.files.is_used


def test_what_is_no_log_of_wandb_s_is_left_alone(logging: Logging):
    logging.write(RUN, b"something else")
    logging.files.tick()
    assert logging.tags == set()
