"""What a channel consisted of, as it is stored with a job."""

import pytest

from trackside.files.json_record import DamagedRecord
from trackside.records import channel_data
from trackside.records.channel_data import from_bytes, summary

FILES = [("a.csv", 3, "v1"), ("b/c.csv", 4, "v1")]


def test_a_digest_is_equal_if_and_only_if_no_file_differs():
    same = summary("training", "/data", FILES)
    assert (same.num_files, same.size_bytes, same.is_whole) == (2, 7, True)
    assert summary("other", "/elsewhere", iter(FILES)).digest == same.digest
    for changed in (
        [("a.csv", 3, "v2"), FILES[1]],
        [("a.csv", 5, "v1"), FILES[1]],
        [("x.csv", 3, "v1"), FILES[1]],
        FILES[:1],
        [*FILES, ("z", 0, "")],
    ):
        assert summary("training", "/data", changed).digest != same.digest


def test_it_is_read_back(tmp_path):
    written = summary("training", "s3://bucket/data", [*FILES, ("no text \udcff", 1, "")])
    channel_data.write(tmp_path / "data", written)
    found = from_bytes((tmp_path / "data" / "training.json").read_bytes())
    assert found == written
    assert found.files["b/c.csv"] == (4, "v1")


def test_of_many_files_the_first_are_listed_and_all_are_counted(monkeypatch):
    monkeypatch.setattr(channel_data, "MOST_LISTED", 3)
    many = summary("training", "/data", [(f"{n:05}", 1, "") for n in range(50)])
    assert (many.num_files, many.size_bytes) == (50, 50)
    assert many.names == ["00000", "00001", "00002"]
    monkeypatch.setattr(channel_data, "_MOST_NAMES", 12)
    long = summary("training", "/data", [(f"{n:05}", 1, "") for n in range(50)])
    assert long.names == ["00000", "00001"]


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"format": 99}', b'{"channel": 1}'])
def test_damage_is_recognized(data):
    with pytest.raises(DamagedRecord):
        from_bytes(data)
