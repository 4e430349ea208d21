"""What the channels of a job consist of, recorded while its script runs."""

import os
from pathlib import Path

import pytest

from trackside.records import channel_data
from trackside.records.channel_data import ChannelData
from trackside.records.layout import HostFolder
from trackside.records.spec import JobSpec
from trackside.supervisor import data_lists
from trackside.supervisor.channel_objects import below_prefix
from trackside.supervisor.data_lists import DataLists


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.csv").write_text("1,2\n")
    (folder / "sub" / "b.csv").write_text("3\n")
    return folder


def spec_of(*channels: tuple[str, str], hosts: int = 1, **rest: str | list[str]) -> JobSpec:
    return JobSpec.from_request(
        {
            "TrainingJobName": "job",
            "HyperParameters": {"sagemaker_program": "train.py"},
            "OutputDataConfig": {"S3OutputPath": "s3://out/runs"},
            "ResourceConfig": {"InstanceCount": hosts},
            "InputDataConfig": [
                {
                    "ChannelName": name,
                    "DataSource": {"S3DataSource": {"S3Uri": uri, **rest}},
                }
                for name, uri in channels
            ],
        }
    )


class Recording:
    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.folder = HostFolder(root / "host")
        self.folder.root.mkdir(parents=True, exist_ok=True)

    def record(self, spec: JobSpec, host: str = "algo-1", copied=None) -> None:
        with DataLists(spec, host, self.folder, self.home, copied or {}):
            pass  # the end waits

    def found(self, channel: str) -> ChannelData | None:
        path = self.folder.data_lists / f"{channel}.json"
        return channel_data.from_bytes(path.read_bytes()) if path.exists() else None


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recording:
    monkeypatch.setattr(data_lists, "END_SECONDS", 60.0)  # the machine may stand still
    return Recording(tmp_path)


def test_a_folder_is_listed_with_the_times_of_its_files(recording: Recording, data: Path):
    os.utime(data / "a.csv", (1_000_000, 1_000_000))
    recording.record(spec_of(("training", str(data))))
    found = recording.found("training")
    assert found is not None
    assert (found.num_files, found.size_bytes, found.location) == (2, 6, str(data))
    assert found.names == ["a.csv", "sub/b.csv"]
    assert found.files["a.csv"] == (4, "1000000.000000")


def test_a_single_file_and_several_channels_are_listed(recording: Recording, data: Path):
    recording.record(spec_of(("one", str(data / "a.csv")), ("both", str(data))))
    one, both = recording.found("one"), recording.found("both")
    assert one is not None
    assert both is not None
    assert (one.names, both.num_files) == (["a.csv"], 2)


def test_what_was_copied_is_not_listed_again_and_gives_the_same_digest(
    recording: Recording, data: Path, tmp_path: Path
):
    spec = spec_of(("training", str(data)))
    objects = below_prefix(spec.inputs[0], recording.home)
    recording.record(spec)
    listed = recording.found("training")
    other = Recording(tmp_path / "home")
    (data / "a.csv").unlink()
    other.record(spec, copied={"training": [*reversed(objects)]})
    assert other.found("training") == listed


def test_the_first_host_of_a_channel_records_it(recording: Recording, data: Path):
    spec = spec_of(("training", str(data)), hosts=2)
    recording.record(spec, "algo-2")
    assert recording.found("training") is None
    recording.record(spec, "algo-1")
    assert recording.found("training") is not None


def test_a_manifest_lists_what_it_names_and_an_augmented_one_itself(
    recording: Recording, data: Path
):
    manifest = data / "list.json"
    manifest.write_text(f'[{{"prefix": "{data}/"}}, "a.csv"]')
    augmented = data / "labels.jsonl"
    augmented.write_text('{"label": 1}\n')
    recording.record(spec_of(("named", str(manifest)), S3DataType="ManifestFile"))
    recording.record(
        spec_of(
            ("labels", str(augmented)), S3DataType="AugmentedManifestFile", AttributeNames=["label"]
        )
    )
    named, labels = recording.found("named"), recording.found("labels")
    assert named is not None
    assert labels is not None
    assert (named.names, labels.names) == (["a.csv"], ["labels.jsonl"])


def test_a_copy_made_for_the_job_is_the_same_whenever_it_was_made(recording: Recording):
    copy = recording.home / "buckets" / "out" / "runs" / "job" / "input" / "training" / "a.csv"
    copy.parent.mkdir(parents=True)
    copy.write_text("1,2\n")
    recording.record(spec_of(("training", "s3://out/runs/job/input/training")))
    found = recording.found("training")
    assert found is not None
    assert found.files == {"a.csv": (4, "")}


def test_a_channel_with_too_many_files_is_counted_so_far(
    recording: Recording, data: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(data_lists, "MOST_FILES", 1)
    recording.record(spec_of(("training", str(data))))
    found = recording.found("training")
    assert found is not None
    assert (found.num_files, found.is_whole, found.digest) == (1, False, "")


def test_a_channel_that_cannot_be_listed_is_left_out_and_the_others_are_not(
    recording: Recording, data: Path
):
    gone = spec_of(("gone", "s3://no-such-bucket/x"), ("training", str(data)))
    recording.record(gone)
    assert recording.found("training") is not None


def test_what_an_earlier_supervisor_recorded_stays(recording: Recording, data: Path):
    spec = spec_of(("training", str(data)))
    recording.record(spec)
    before = recording.found("training")
    (data / "c.csv").write_text("later")
    recording.record(spec)
    assert recording.found("training") == before
