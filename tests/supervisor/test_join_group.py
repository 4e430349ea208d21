"""A host that has no folder of the job makes one from what its placement passes on."""

import json
import stat
from pathlib import Path

import pytest

from tests.jobs.conftest import make_spec
from trackside.errors import JobError
from trackside.records.group import Bundle, loopback_addresses, read_group
from trackside.records.journal import Journal
from trackside.records.layout import Home, JobFolder
from trackside.records.status import Secondary
from trackside.supervisor import join_group
from trackside.supervisor.join_group import ADDRESSES, BUNDLE, BUNDLE_FILE, INTERFACE, NOTICE, join
from trackside.system.network import interface_of

SECRET = "hush-4711"


def make_bundle(tmp_path: Path, *, num_hosts: int = 1, epoch: int = 1) -> Bundle:
    spec = make_spec(num_hosts=num_hosts, Environment={"TOKEN": SECRET})
    path = tmp_path / f"journal-{epoch}.jsonl"
    if not path.exists():
        Journal(path).open(owner="alice")
    return Bundle(
        spec=spec.to_request(),
        journal=path.read_text(),
        hosts={host: f"nonce of {host}" for host in spec.hosts},
        attempt=epoch,
        epoch=epoch,
        environment={"AWS_REGION": "eu-1", "TRACKSIDE_URL": "embedded"},
    )


def environ_for(tmp_path: Path, bundle: Bundle, **more: str) -> dict[str, str]:
    return {"TRACKSIDE_HOME": str(tmp_path / "home"), BUNDLE: bundle.to_json(), **more}


def test_it_makes_a_private_folder_and_passes_the_bundle_on_to_nobody(tmp_path: Path):
    environ = environ_for(tmp_path, make_bundle(tmp_path), PATH="/bin")
    joined = join("algo-1", environ)
    assert (joined.host, joined.nonce) == ("algo-1", "nonce of algo-1")
    assert joined.folder == Home(tmp_path / "home").job("job-1")
    assert json.loads(joined.folder.spec.read_text())["Environment"] == {"TOKEN": SECRET}
    assert Journal(joined.folder.journal).read().state.secondary is Secondary.STARTING
    assert SECRET not in joined.folder.group.read_text()
    assert stat.S_IMODE(joined.folder.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(joined.folder.spec.stat().st_mode) == 0o600
    assert environ == {
        "TRACKSIDE_HOME": str(tmp_path / "home"),
        "PATH": "/bin",
        "AWS_REGION": "eu-1",
        "TRACKSIDE_URL": "embedded",
    }


def test_the_bundle_may_be_in_a_file_and_the_host_be_a_number(tmp_path: Path):
    file = tmp_path / "bundle.json"
    file.write_text(make_bundle(tmp_path, num_hosts=2).to_json())
    environ = {"TRACKSIDE_HOME": str(tmp_path / "home"), BUNDLE_FILE: str(file)}
    environ[ADDRESSES] = "127.0.0.1, localhost"
    joined = join("1", environ)
    assert (joined.host, joined.nonce) == ("algo-2", "nonce of algo-2")
    group = read_group(joined.folder)
    assert group is not None
    assert group.addresses == {"algo-1": "127.0.0.1", "algo-2": "127.0.0.1"}
    assert group.interface == "lo"
    assert group.host == "algo-2"


def test_the_file_of_the_engines_notice_is_kept_and_passed_on_to_nobody(tmp_path: Path):
    environ = environ_for(tmp_path, make_bundle(tmp_path), **{NOTICE: "/tmp/notice.json"})
    group = read_group(join("algo-1", environ).folder)
    assert group is not None
    assert group.notice == "/tmp/notice.json"
    assert NOTICE not in environ


def test_the_interface_may_be_named(tmp_path: Path):
    environ = environ_for(tmp_path, make_bundle(tmp_path), **{INTERFACE: "ib0"})
    group = read_group(join("algo-1", environ).folder)
    assert group is not None
    assert group.interface == "ib0"
    assert group.addresses == loopback_addresses("job-1", ["algo-1"])


def test_the_interface_of_an_address_is_found():
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.77") == ""


def advance(folder: JobFolder) -> bytes:
    Journal(folder.journal).move(Secondary.DOWNLOADING)
    return folder.journal.read_bytes()


def test_the_same_group_goes_on_in_its_folder(tmp_path: Path):
    bundle = make_bundle(tmp_path)
    folder = join("algo-1", environ_for(tmp_path, bundle)).folder
    further = advance(folder)
    assert join("algo-1", environ_for(tmp_path, bundle)).folder == folder
    assert folder.journal.read_bytes() == further


def test_a_later_group_brings_its_journal_and_an_earlier_one_is_over(tmp_path: Path):
    first, second = make_bundle(tmp_path), make_bundle(tmp_path, epoch=2)
    folder = join("algo-1", environ_for(tmp_path, first)).folder
    advance(folder)
    join("algo-1", environ_for(tmp_path, second))
    assert folder.journal.read_text() == second.journal
    with pytest.raises(JobError, match="Group 1 of the job is over: group 2 has begun"):
        join("algo-1", environ_for(tmp_path, first))


def test_a_home_that_two_hosts_share_is_refused_with_the_way_out(tmp_path: Path):
    bundle = make_bundle(tmp_path, num_hosts=2)
    addresses = {ADDRESSES: "127.0.0.1,127.0.0.2"}
    join("algo-1", environ_for(tmp_path, bundle, **addresses))
    with pytest.raises(JobError, match="is that of algo-1, and algo-2 needs one of its own: set"):
        join("algo-2", environ_for(tmp_path, bundle, **addresses))


def test_the_submitters_folder_is_not_taken(tmp_path: Path):
    Home(tmp_path / "home").job("job-1").root.mkdir(parents=True)
    with pytest.raises(JobError, match="is the submitter's"):
        join("algo-1", environ_for(tmp_path, make_bundle(tmp_path)))


@pytest.mark.parametrize(
    ("which", "changes", "message"),
    [
        ("algo-1", {BUNDLE: ""}, "needs a bundle: set TRACKSIDE_GROUP"),
        ("algo-1", {BUNDLE: "{"}, "The bundle in TRACKSIDE_GROUP cannot be used: it is not JSON"),
        ("algo-1", {BUNDLE: "", BUNDLE_FILE: "/no/file"}, "the file '/no/file' cannot be used"),
        ("algo-3", {ADDRESSES: "a,b"}, "'algo-3' is no host of the group; it has algo-1, algo-2"),
        ("2", {ADDRESSES: "a,b"}, "'2' is no host of the group"),
        ("algo-1", {}, "the placement must set TRACKSIDE_GROUP_ADDRESSES"),
        ("algo-1", {ADDRESSES: "127.0.0.1"}, "has 1 addresses, and the group has 2 hosts"),
        ("algo-1", {ADDRESSES: "127.0.0.1,no.such.host.invalid"}, "'no.such.host.invalid' of algo"),
    ],
)
def test_what_is_missing_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    which: str,
    changes: dict[str, str],
    message: str,
):
    monkeypatch.setattr(join_group, "RESOLVE_SECONDS", 0.0)
    environ = {**environ_for(tmp_path, make_bundle(tmp_path, num_hosts=2)), **changes}
    with pytest.raises(JobError, match=message):
        join(which, environ)
    assert not Home(tmp_path / "home").job("job-1").root.exists()
