"""A trial, asked for over a socket by somebody who may want more."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackside.errors import ObjectNotFound, StorageError
from trackside.rules.custom.served_store import EvaluatorLine, ServedStore
from trackside.rules.custom.trial_server import ServedTrial, TrialServer
from trackside.storage.locate import locate, locate_object


@pytest.fixture
def job(tmp_path: Path) -> Path:
    trial = tmp_path / "job" / "ml" / "tensors"
    (trial / "segments").mkdir(parents=True)
    (trial / "segments" / "a").write_bytes(b"0123456789")
    (tmp_path / "master.key").write_text("a key")
    return tmp_path / "job"


@pytest.fixture
def server(job: Path) -> Iterator[TrialServer]:
    trial = job / "ml" / "tensors"

    def missing() -> ServedTrial:
        raise StorageError("That trial cannot be found.")

    served = TrialServer(
        [lambda: ServedTrial(locate(trial, home=job), job), missing],
        lambda: locate_object(str(job.parent / "rule.py"), home=job),
    )
    yield served
    served.close()


@pytest.fixture
def line(server: TrialServer) -> Iterator[EvaluatorLine]:
    descriptor = os.dup(server.far.fileno())
    server.start()
    made = EvaluatorLine(descriptor)
    yield made
    made.close()


def test_what_is_in_the_trial_is_listed_and_read(line: EvaluatorLine):
    store = ServedStore(line, 0)
    [entry] = store.list("segments/")
    assert (entry.key, entry.size_bytes) == ("segments/a", 10)
    assert store.stat("segments/a").etag == entry.etag
    assert list(store.list("segments/", "segments/a")) == []
    assert store.get("segments/a") == b"0123456789"
    assert store.get("segments/a", 2, 5) == b"234"
    assert store.get("segments/a", 8, 100) == b"89"


def test_long_objects_and_long_listings_come_whole(line: EvaluatorLine, job: Path):
    folder = job / "ml" / "tensors" / "many"
    folder.mkdir()
    for number in range(1200):
        (folder / f"{number:04d}").touch()
    data = os.urandom(3_000_001)
    (folder / "long").write_bytes(data)
    store = ServedStore(line, 0)
    assert len(list(store.list("many/"))) == 1201
    assert store.get("many/long") == data


def test_a_script_s_links_lead_nowhere(line: EvaluatorLine, job: Path):
    trial = job / "ml" / "tensors"
    (trial / "segments" / "key").symlink_to(job.parent / "master.key")
    (trial / "up").symlink_to(job.parent)
    store = ServedStore(line, 0)
    for name in ("segments/key", "up/master.key"):
        with pytest.raises(ObjectNotFound):
            store.get(name)
        with pytest.raises(ObjectNotFound):
            store.stat(name)


def test_nor_does_a_trial_s_folder_that_became_one(line: EvaluatorLine, job: Path):
    trial = job / "ml" / "tensors"
    trial.rename(job / "ml" / "moved")
    trial.symlink_to(job.parent)
    with pytest.raises(ObjectNotFound):
        ServedStore(line, 0).get("master.key")


@pytest.mark.parametrize("name", ["../../../master.key", "/etc/passwd", "segments/../segments/a"])
def test_no_name_leads_out_of_the_trial(line: EvaluatorLine, name: str):
    with pytest.raises(StorageError):
        ServedStore(line, 0).get(name)


def test_what_cannot_be_found_is_reported_and_the_line_stays_open(line: EvaluatorLine, job: Path):
    with pytest.raises(ObjectNotFound):
        line.ask("source")
    with pytest.raises(StorageError, match="cannot be found"):
        ServedStore(line, 1).get("segments/a")
    (job.parent / "rule.py").write_text("x = 1")
    assert line.ask("source") == b"x = 1"


def test_nothing_is_written(line: EvaluatorLine):
    store = ServedStore(line, 0)
    with pytest.raises(StorageError):
        store.put("segments/b", b"")
    with pytest.raises(StorageError):
        store.delete(["segments/a"])


def test_news_are_reported_once(line: EvaluatorLine, job: Path):
    segments = job / "ml" / "tensors" / "segments"
    worker = segments / "worker_0"
    worker.mkdir()
    for path in (worker, segments / "a", segments, segments.parent):
        os.utime(path, (1_000_000, 1_000_000))  # long ago: nothing can hide behind it
    store = ServedStore(line, 0)
    assert store.has_news()
    assert not store.has_news()
    (worker / "b").touch()
    assert store.has_news()


@pytest.mark.parametrize(
    "question",
    [
        b"nonsense\n",
        b"[]\n",
        b'{"ask": "all"}\n',
        b'{"ask": "read", "trial": 7, "name": "a", "start": 0, "end": null}\n',
        b'{"ask": "read", "trial": 0, "name": "segments/a", "start": "x", "end": null}\n',
        b'{"ask": "list", "trial": [], "prefix": 0, "after": 0}\n',
        b"[" * 50_000 + b"\n",
        b"x" * 100_000,
    ],
)
def test_a_client_with_an_invalid_request_gets_no_further_response(
    server: TrialServer, question: bytes
):
    asking = socket.socket(fileno=os.dup(server.far.fileno()))
    server.start()
    with asking:
        asking.settimeout(60)
        asking.sendall(question)
        while asking.recv(1 << 16):
            pass  # an error may be told first; then it ends


def test_a_line_that_was_interrupted_is_not_used_again(line: EvaluatorLine, monkeypatch):
    def interrupted(size: int) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(line, "_exactly", interrupted)
        with pytest.raises(KeyboardInterrupt):
            line.ask("news", trial=0)
    with pytest.raises(StorageError, match="interrupted"):
        line.ask("news", trial=0)
