"""Keys that several servers share, in a real Postgres."""

import multiprocessing
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.postgres_server import PostgresServer
from tests.wait import until
from trackside.api import team_keys
from trackside.api.encryption import make_team_key, read_team_key
from trackside.api.keys import AccessKeys, KeysUnavailable, Rights, UnknownKey
from trackside.api.sessions import Sessions
from trackside.api.team_keys import TeamKeys, has_team_key
from trackside.errors import InvalidSetting, ServerRefused
from trackside.jobs.postgres_index import Postgres

KEY = b"k" * 32
Ring = Callable[..., AccessKeys]


def team(url: str, key: bytes = KEY, grace_seconds: float = 3600.0) -> TeamKeys:
    return TeamKeys(Postgres(url), key, grace_seconds)


@pytest.fixture
def ring(database: str, tmp_path: Path) -> Ring:
    """The keys of a server with a home of this name."""

    def made(home: str, **options: Any) -> AccessKeys:
        return AccessKeys(tmp_path / home, team(database, **options))

    return made


def test_a_key_made_at_one_server_is_good_at_another_until_it_is_revoked(ring: Ring):
    here, there = ring("a"), ring("b")
    key, secret = here.create("ci", Rights.SUBMIT, limit=2, quota_bytes=10)
    assert there.get(key.id) == key
    assert there.secret_of(key.id) == secret
    there.set_quota(key.id, 20)
    assert here.quotas() == {"ci": 20}
    successor, other = there.rotate(key.id, overlap_seconds=-1)
    assert here.secret_of(key.id) is None
    assert here.secret_of(successor.id) == other
    assert (successor.label, successor.limit, successor.quota_bytes) == ("ci", 2, 20)
    here.revoke(successor.id)
    assert there.secret_of(successor.id) is None
    with pytest.raises(UnknownKey, match=successor.id):
        there.revoke(successor.id)


def test_what_another_server_does_is_seen_while_they_run(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(team_keys, "_PAUSE_SECONDS", 0.02)
    here, there = ring("a"), ring("b")
    with here.kept_current(), there.kept_current():
        key, secret = here.create("ci", Rights.SUBMIT)
        assert here.secret_of(key.id) == secret
        until(lambda: there.secret_of(key.id) == secret)
        there.revoke(key.id)
        assert there.secret_of(key.id) is None
        until(lambda: here.secret_of(key.id) is None)


def test_a_session_of_one_server_is_good_at_another(ring: Ring):
    here, there = ring("a"), ring("b")
    key, _ = here.create("ci", Rights.SUBMIT)
    session, token = Sessions(here).issue(key, 900)
    assert Sessions(there).find(token, session.id) == session
    here.revoke(key.id)
    assert Sessions(there).find(token, session.id) is None


def test_no_secret_is_in_the_database_in_plain(ring: Ring, database: str):
    _, secret = ring("a").create("ci", Rights.SUBMIT)
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT record FROM trackside.access_keys").fetchall()
    assert len(rows) == 1
    assert secret not in rows[0][0]


def test_a_machine_s_own_key_is_good_at_its_server_only(ring: Ring):
    here, there = ring("a"), ring("b")
    own = here.own_key()
    assert here.own_key() == own
    assert here.secret_of(own.id) is not None
    assert there.secret_of(own.id) is None
    assert there.own_key().id != own.id
    assert here.derived("x") != there.derived("x")


def test_keys_of_a_file_move_to_the_database_with_their_secrets(ring: Ring, tmp_path: Path):
    file = AccessKeys(tmp_path / "a")
    own, (key, secret) = file.own_key(), file.create("ci", Rights.SUBMIT, quota_bytes=5)
    joined = ring("a")
    assert joined.join_team() == 1
    assert ring("b").secret_of(key.id) == secret
    assert ring("b").quotas() == {"ci": 5}
    assert [each.id for each in AccessKeys(tmp_path / "a").all()] == [own.id]
    copy = tmp_path / "a" / "keys.before-team.json"
    assert key.id in copy.read_text()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert joined.join_team() == 0


def test_an_interrupted_move_restores_no_key_that_was_changed_since(ring: Ring, tmp_path: Path):
    file = AccessKeys(tmp_path / "a")
    key, _ = file.create("ci", Rights.SUBMIT)
    before = (tmp_path / "a" / "keys.json").read_bytes()
    ring("a").join_team()
    ring("b").set_quota(key.id, 7)
    (tmp_path / "a" / "keys.json").write_bytes(before)  # as if the file had not been written yet
    ring("a").join_team()
    assert ring("b").quotas() == {"ci": 7}


def test_a_server_with_another_key_is_refused(database: str):
    with closing(Postgres(database)) as shared:
        assert not has_team_key(shared)
        team(database).check_key()
        team(database).check_key()
        assert has_team_key(shared)
    with pytest.raises(ServerRefused, match="sealed with another team's key"):
        team(database, b"x" * 32).check_key()


def make_many(folder: Path, url: str, name: str, start: Any) -> None:
    keys = AccessKeys(folder / name, team(url))
    start.wait()
    for number in range(5):
        made, _ = keys.create(f"{name}-{number}", Rights.READ)
        keys.rotate(made.id, overlap_seconds=60)


def test_no_key_is_lost_when_servers_change_them_at_once(ring: Ring, database: str, tmp_path: Path):
    context = multiprocessing.get_context("fork")
    start = context.Event()
    racers = [
        context.Process(target=make_many, args=(tmp_path, database, who, start)) for who in "abc"
    ]
    for racer in racers:
        racer.start()
    start.set()
    for racer in racers:
        racer.join(120)
    keys = ring("d").all()
    wanted = sorted(f"{who}-{n}" for who in "abc" for n in range(5) for _ in "12")
    assert sorted(key.label for key in keys) == wanted
    assert sum(key.expires is None for key in keys) == 15


def test_a_damaged_row_is_ignored_and_the_others_are_valid(ring: Ring, database: str):
    key, secret = ring("a").create("ci", Rights.SUBMIT)
    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO trackside.access_keys VALUES ('TSBAD', '[1]')")
    keys = ring("b")
    assert keys.secret_of(key.id) == secret
    assert keys.secret_of("TSBAD") is None


@pytest.fixture
def mortal(mortal_postgres: PostgresServer) -> Iterator[PostgresServer]:
    mortal_postgres.empty()
    yield mortal_postgres
    if not mortal_postgres.is_running():
        mortal_postgres.start()


def test_known_keys_count_on_without_the_database_for_a_while(
    mortal: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(team_keys, "_PAUSE_SECONDS", 0.02)
    shared = team(mortal.url, grace_seconds=3600.0)
    keys = AccessKeys(tmp_path / "a", shared)
    own = keys.own_key()
    key, secret = keys.create("ci", Rights.SUBMIT)
    with keys.kept_current():
        mortal.kill()
        assert keys.secret_of(key.id) == secret
        monkeypatch.setattr(shared, "_grace_seconds", 0.0)
        monkeypatch.setattr(team_keys, "LEAST_GRACE_SECONDS", 3600.0)
        assert keys.secret_of(key.id) == secret  # it may be slow, and not unavailable
        monkeypatch.setattr(team_keys, "LEAST_GRACE_SECONDS", 0.0)
        with pytest.raises(KeysUnavailable, match="has not answered for"):
            until(lambda: keys.get(key.id) is None)
        with pytest.raises(KeysUnavailable):
            keys.secret_of("TSNOBODY")
        assert keys.secret_of(own.id) is not None
        assert [each.label for each in keys.all()] == ["this machine", "ci"]  # limits still apply
        mortal.start()
        monkeypatch.setattr(shared, "_grace_seconds", 3600.0)
        assert keys.secret_of(key.id) == secret


def test_a_team_s_key_is_made_once_and_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "team.key"
    make_team_key(path)
    assert len(read_team_key(path)) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert caplog.text == ""
    path.chmod(0o644)
    read_team_key(path)
    assert "can be read by others" in caplog.text
    with pytest.raises(InvalidSetting, match="exists"):
        make_team_key(path)


@pytest.mark.parametrize("text", [None, b"", b"short", b"c2hvcnQ=", b"\xff\xfe"])
def test_a_file_without_a_key_is_refused(tmp_path: Path, text: bytes | None):
    path = tmp_path / "team.key"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(InvalidSetting, match="`trackside keys team-key FILE` makes one"):
        read_team_key(path)
