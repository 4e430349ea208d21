import json
import multiprocessing
import stat
from pathlib import Path
from typing import Any

import pytest

from trackside.api.keys import AccessKeys, DamagedKeys, InvalidLabel, Rights, UnknownKey
from trackside.jobs.owner_limit import Limit


@pytest.fixture
def keys(tmp_path):
    return AccessKeys(tmp_path / "server")


def test_a_secret_comes_back_in_another_process_and_is_nowhere_in_plain(keys, tmp_path):
    key, secret = keys.create("ci", Rights.SUBMIT)
    assert AccessKeys(tmp_path / "server").secret_of(key.id) == secret
    for path in (tmp_path / "server").iterdir():
        assert secret.encode() not in path.read_bytes()
    assert stat.S_IMODE((tmp_path / "server" / "master.key").stat().st_mode) == 0o600


def test_a_sealed_secret_is_no_use_under_another_id(keys, tmp_path):
    first, _ = keys.create("a", Rights.READ)
    second, _ = keys.create("b", Rights.ADMIN)
    path = tmp_path / "server" / "keys.json"
    text = path.read_text().replace(second.sealed, first.sealed)
    path.write_text(text)
    changed = AccessKeys(tmp_path / "server")
    assert changed.secret_of(second.id) is None
    assert changed.secret_of(first.id) is not None


def test_rotation_keeps_the_rights_and_lets_the_old_key_end(keys):
    old, secret = keys.create("ci", Rights.SUBMIT)
    new, _ = keys.rotate(old.id, overlap_seconds=60)
    assert (new.label, new.rights) == ("ci", Rights.SUBMIT)
    assert keys.secret_of(old.id) == secret
    newest, _ = keys.rotate(new.id, overlap_seconds=-1)
    assert keys.secret_of(new.id) is None
    keys.revoke(new.id)  # which only tidies up
    assert new.id not in [key.id for key in keys.all()]
    assert keys.secret_of(newest.id) is not None


def test_a_key_made_or_revoked_elsewhere_is_seen_at_once(keys, tmp_path):
    elsewhere = AccessKeys(tmp_path / "server")
    key, secret = elsewhere.create("x", Rights.READ)
    assert keys.secret_of(key.id) == secret
    elsewhere.revoke(key.id)
    assert keys.secret_of(key.id) is None
    assert keys.all() == []


def make_many(folder: Path, name: str, start: Any) -> None:
    keys = AccessKeys(folder)
    start.wait()
    for number in range(10):
        made, _ = keys.create(f"{name}-{number}", Rights.READ)
        keys.rotate(made.id, overlap_seconds=60)


def test_no_key_is_lost_when_processes_change_them_at_once(keys, tmp_path):
    context = multiprocessing.get_context("fork")
    start = context.Event()
    folder = tmp_path / "server"
    racers = [context.Process(target=make_many, args=(folder, who, start)) for who in "abc"]
    for racer in racers:
        racer.start()
    start.set()
    for racer in racers:
        racer.join(120)
    labels = [key.label for key in keys.all()]
    assert sorted(labels) == sorted(f"{who}-{n}" for who in "abc" for n in range(10) for _ in "12")
    assert sum(key.expires is None for key in keys.all()) == 30


def test_an_unknown_key_is_named(keys):
    with pytest.raises(UnknownKey, match="'TSNOPE'"):
        keys.revoke("TSNOPE")


@pytest.mark.parametrize(
    "label", ["", "  ", "local:root", "job 1", " ci", "ci\n", "c\x1b[31mi", "x" * 129]
)
def test_a_label_that_cannot_be_an_owner_is_refused(keys: AccessKeys, label: str):
    with pytest.raises(InvalidLabel, match="A key cannot be called"):
        keys.create(label, Rights.SUBMIT)
    assert keys.all() == []


def test_a_label_may_be_any_name(keys: AccessKeys):
    for label in ("Ann O'Neill", "ci", "this machine", "naïve 模型", "x" * 128):
        assert keys.create(label, Rights.SUBMIT)[0].label == label


@pytest.mark.parametrize(
    ("has", "needs", "may"),
    [
        (Rights.READ, Rights.READ, True),
        (Rights.READ, Rights.SUBMIT, False),
        (Rights.ADMIN, Rights.SUBMIT, True),
    ],
)
def test_higher_rights_include_lower_ones(has, needs, may):
    assert has.allow(needs) is may


def test_a_limit_is_the_label_s_and_outlives_a_rotation(keys: AccessKeys):
    key, _ = keys.create("ci", Rights.SUBMIT, limit=2)
    keys.create("free", Rights.SUBMIT, limit=0)
    keys.create("other", Rights.SUBMIT)
    keys.rotate(key.id, 0)
    limit_of = keys.limits(5)
    assert [limit_of(who).jobs for who in ("ci", "free", "other", "gone")] == [2, None, 5, 5]
    assert keys.limits(0)("other").jobs is None


def test_a_limit_of_cores_is_not_lifted_by_a_second_key_and_changes_for_all(keys: AccessKeys):
    key, _ = keys.create("ci", Rights.SUBMIT, limit_cores=8, limit_gpus=2)
    other, _ = keys.create("ci", Rights.SUBMIT)
    keys.rotate(key.id, 60)
    assert keys.limits(0)("ci") == Limit(cores=8, gpus=2)
    assert keys.set_limit(other.id, Limit(jobs=3, cores=4)) == "ci"
    assert keys.limits(0)("ci") == Limit(jobs=3, cores=4)
    keys.set_limit(key.id, Limit())
    assert keys.limits(7)("ci") == Limit(jobs=7)


def test_a_quota_is_the_label_s_and_outlives_a_rotation(keys: AccessKeys):
    key, _ = keys.create("ci", Rights.SUBMIT, quota_bytes=10)
    keys.create("other", Rights.SUBMIT)
    keys.rotate(key.id, 0)
    keys.create("ci", Rights.SUBMIT)  # which does not lift it
    assert keys.quotas() == {"ci": 10}
    newest = keys.all()[-1]
    assert keys.set_quota(newest.id, 20) == "ci"
    assert keys.quotas() == {"ci": 20}
    keys.set_quota(newest.id, None)
    assert keys.quotas() == {}
    with pytest.raises(UnknownKey):
        keys.set_quota("TSNONE", 5)


def test_what_no_key_has_is_not_in_the_file(keys: AccessKeys, tmp_path: Path):
    """So that a version from before there was a quota reads it."""
    keys.create("ci", Rights.SUBMIT)
    [record] = json.loads((tmp_path / "server" / "keys.json").read_bytes())
    assert record.keys() == {"id", "rights", "label", "created", "sealed"}


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'[{"id": "x"}]', b"[" * 5000])
def test_damaged_keys_are_not_overwritten_and_cost_no_running_server_its_keys(
    keys: AccessKeys, tmp_path: Path, damage: bytes
):
    key, secret = keys.create("ci", Rights.SUBMIT)
    assert keys.secret_of(key.id) == secret
    path = tmp_path / "server" / "keys.json"
    good = path.read_bytes()
    path.write_bytes(damage)
    assert keys.secret_of(key.id) == secret, "a server that runs"
    started = AccessKeys(tmp_path / "server")
    assert started.secret_of(key.id) is None
    for each in (keys, started):
        with pytest.raises(DamagedKeys, match="backup"):
            each.create("another", Rights.READ)
    assert path.read_bytes() == damage
    path.write_bytes(good)
    assert started.secret_of(key.id) == secret
