"""Damaged records of what a job is made of, its damaged code, and damaged states of issues: each
is left out, or read in part."""

import io
import json
import tarfile
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import bounded
from tests.fuzz.mutations import damaged, damaged_json
from tests.fuzz.rounds import rounds
from trackside.errors import ArchiveError
from trackside.files.json_record import numbered
from trackside.records.channel_data import summary
from trackside.records.layout import Home, JobKeys
from trackside.records.machine import Machine
from trackside.records.script_packages import ScriptPackages
from trackside.storage.locate import locate_object
from trackside.views.job_setup import code_files
from trackside.views.job_setup.code_diff import diff_of
from trackside.views.job_setup.made_of import Made, differences
from trackside.views.job_setup.recorded import Recorded
from trackside.views.problems.issue_states import STATES, IssueStates, Said, standing

KEYS = JobKeys("s3://out/runs", "job")
DESCRIBED: dict[str, Any] = {
    "TrainingJobName": "job",
    "HyperParameters": {},
    "Trackside": {"output": KEYS.prefix, "options": {}},
}
DATA = summary("training", "/data", [("a.csv", 3, "v1"), ("b.csv", 4, "v2")])
RECORDS = {
    KEYS.packages("algo-1"): numbered(ScriptPackages("3.11", {"torch": "2.0"})),
    KEYS.machine("algo-1"): numbered(Machine({"kernel": "Linux 6"})),
    KEYS.data_list("training"): numbered(DATA),
}


def put(home: Path, uri: str, data: bytes) -> None:
    place = locate_object(uri, home=home)
    place.store.put(place.key, data)


def damaged_records_are_left_out(rng: Random, folder: Path) -> None:
    for uri, content in RECORDS.items():
        plain = rng.random() < 0.3
        put(folder, uri, damaged(rng, json.dumps(content).encode()) if plain else b"")
        if not plain:
            put(folder, uri, damaged_json(rng, content))
    recorded = Recorded(DESCRIBED, folder)
    packages, data = recorded.packages(), recorded.channel("training")
    for name, fact in recorded.machine().items():
        assert isinstance(name, str)
        assert isinstance(fact, str)
    assert packages is None or all(map(str.isprintable, map(repr, packages.packages.items())))
    if data is not None:
        other = Made({("data", "training"): "/data"}, {"training": DATA})
        found = Made({("data", "training"): "/data"}, {"training": data})
        for _, before, after in differences(other, found):
            assert len(before) + len(after) < 10_000


def archive() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in (("train.py", b"lr = 1\n" * 50), ("data/model.bin", bytes(500))):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


ARCHIVE = archive()


def damaged_code_is_read_in_part(rng: Random, folder: Path) -> None:
    put(folder, KEYS.source, damaged(rng, ARCHIVE))
    try:
        files = code_files.files_of(DESCRIBED, folder)
        contents = code_files.contents_of(DESCRIBED, folder)
    except ArchiveError:
        return
    assert all(file.path and ".." not in file.path.split("/") for file in files)
    assert {*contents} <= {file.path for file in files}
    assert all(each.status == "added" for each in diff_of({}, contents))


def damaged_states_are_skipped(rng: Random, folder: Path) -> None:
    home = Home(folder)
    lines = [
        asdict(Said(id=f"1-{number:012x}", state="muted", by="ada", time=1.7e9, more_jobs=3))
        for number in range(3)
    ]
    data = [damaged_json(rng, line).replace(b"\n", b" ") + b"\n" for line in lines]
    home.issue_states.write_bytes(
        damaged(rng, b"".join(data)) if rng.random() < 0.3 else b"".join(data)
    )
    for said in IssueStates(home).all().values():
        assert standing(said, [1.6e9, 1.8e9]).state in STATES
    IssueStates(home).say(Said(id="1-0", state="fixed", by="ada", time=1.7e9))
    assert IssueStates(home).all()["1-0"].state == "fixed"


def test_damaged_records_are_left_out():
    bounded.play(damaged_records_are_left_out, rounds(200))


def test_damaged_code_is_read_in_part():
    bounded.play(damaged_code_is_read_in_part, rounds(200))


def test_damaged_states_are_skipped():
    bounded.play(damaged_states_are_skipped, rounds(200))
