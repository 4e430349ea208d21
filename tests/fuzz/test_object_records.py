"""Damaged records beside the objects of embedded buckets: the object is one all the same."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from random import Random

from tests.fuzz import bounded
from tests.fuzz.mutations import damaged, damaged_json
from tests.fuzz.rounds import rounds
from trackside.api.s3.beneath import open_folder
from trackside.api.s3.bucket import ObjectInfo
from trackside.api.s3.object_headers import shown
from trackside.api.s3.record import RECORDS, ObjectRecord, read_record
from trackside.api.s3.upload_part import Part, parts_in
from trackside.storage.folder import version_of

RECORD = ObjectRecord(
    etag="9e107d9d372bb6826bd81d3542a419d6-2",
    content_type="text/plain",
    headers={"cache-control": "max-age=3"},
    metadata={"owner": "me"},
    algorithm="crc32",
    checksum="AAAAAA==-2",
    checksum_type="COMPOSITE",
    tags={"team": "vision"},
    parts=[[5, "AAAAAA=="], [7, "AAAAAA=="]],
    upload="0" * 32,
)


def what_a_record_tells_can_be_a_header(rng: Random, folder: Path) -> None:
    path = folder / "object"
    path.write_bytes(b"content")
    status = os.stat(path)
    reported = {**asdict(RECORD), "size": status.st_size, "modified": status.st_mtime_ns}
    data = (
        damaged_json(rng, reported)
        if rng.random() < 0.8
        else damaged(rng, json.dumps(reported).encode())
    )
    beside = folder.joinpath(*RECORDS)
    beside.mkdir(parents=True, exist_ok=True)
    (beside / f"{version_of(status)}.json").write_bytes(data)
    record = read_record(str(path), status, "object", str(folder))
    info = ObjectInfo("object", status.st_size, status.st_mtime, record)
    for name, value in shown(info, {}, with_checksum=True).items():
        assert name.isascii()
        assert not {*" :\r\n\0"} & {*name}
        assert not {*"\r\n\0"} & {*value.encode("latin-1").decode("latin-1")}
    assert sum(size for size, _ in record.parts) >= 0
    os.fsencode(record.key)
    path.unlink()


def a_part_is_in_its_folder(rng: Random, folder: Path) -> None:
    part = Part(number=3, etag="ab", size=5, checksum="", modified=1.7e9, file="data", offset=10)
    path = folder / "00003.part.json"
    path.write_bytes(damaged_json(rng, asdict(part)))
    with open_folder(str(folder), ()) as opened:
        for found in parts_in(opened).values():
            assert (folder / found.file).resolve().parent == folder.resolve()


def test_values_of_a_record_can_be_headers():
    bounded.play(what_a_record_tells_can_be_a_header, rounds(400))


def test_a_part_is_in_its_folder():
    bounded.play(a_part_is_in_its_folder, rounds(400))
