"""Files of loggers, and lines of a log, damaged or made by an enemy: each costs itself."""

import json
import logging
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.curves.loggers.test_wandb_run import framed, history
from tests.fuzz import bounded
from tests.fuzz.mutations import ODD_NUMBERS, damaged
from tests.fuzz.rounds import rounds
from trackside import curves
from trackside.curves.loggers.logger_files import LoggerFiles
from trackside.curves.loggers.printed_lines import parse
from trackside.files.script_folder import ScriptFolder
from trackside.supervisor.folder_scan import scan

RUN = "44f1727ca46c41a4be2968ea6933f52e"
LINES = (
    b"training:  80%|####  | 48/60 [00:02<00:00, 12.89it/s, loss=0.35]",
    b"{'loss': '3.03', 'epoch': '1.0'}",
    b"[11]\ttrain-logloss:0.05\tval-logloss:0.06",
    b"3/3 === 0s 72ms/step - acc: 0.5 - val_loss: 0.7",
    b"iter 20: train loss 1.94, val_loss=nan",
)


def wandb_log(rng: Random) -> bytes:
    steps = range(rng.randint(1, 8))
    return framed(
        *(history(step, loss=rng.choice(ODD_NUMBERS), a__b=1.5, x='"NaN"') for step in steps)
    )


def table(rng: Random) -> bytes:
    rows = "".join(f"{rng.choice(ODD_NUMBERS)},{rng.random()},\n" for _ in range(5))
    return f"epoch,loss,val_loss\n{rows}".encode()


def database(rng: Random, folder: Path) -> bytes:
    path = folder / "made.db"
    path.unlink(missing_ok=True)
    made = sqlite3.connect(path)
    made.executescript(
        """CREATE TABLE experiments (x); CREATE TABLE runs (run_uuid, name);
        CREATE TABLE metrics (key, value, timestamp, run_uuid, step, is_nan);"""
        if rng.random() < 0.5
        else "CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_name, step, timestamp, metrics)"
    )
    for step in range(5):
        row = (None, "r", step, "2026-11-17T08:48:47", json.dumps({"loss": step}))
        is_mlflow = "experiments" in [
            name for (name,) in made.execute("SELECT name FROM sqlite_master")
        ]
        values = ("loss", 0.5, 1, RUN, step, 0) if is_mlflow else row
        made.execute(f"INSERT INTO metrics VALUES ({','.join('?' * len(values))})", values)
    made.commit()
    made.close()
    return path.read_bytes()


class _Surprise(logging.Handler):
    seen: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.seen = record.exc_info[1] if record.exc_info else None


@contextmanager
def _no_surprise() -> Iterator[None]:
    """What a reader raises costs its file, and is logged: here it counts as found."""
    handler = _Surprise(logging.ERROR)
    logger = logging.getLogger("trackside.curves.loggers")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    if handler.seen:
        raise AssertionError("a reader raised") from handler.seen


def read_damaged_files(rng: Random, place: Path) -> None:
    shutil.rmtree(place)
    code = place / "code"
    (code / "mlruns/0" / RUN / "metrics").mkdir(parents=True)
    files = {
        "run-x.wandb": wandb_log(rng),
        "metrics.csv": table(rng),
        "mlflow.db": database(rng, place),
        f"mlruns/0/{RUN}/metrics/loss": b"1794905311665 0.5 0\n1794905311666 nan 1\n",
    }
    source = ScriptFolder(code)
    state = place / "state.json"
    (place / "curves").mkdir()
    for _ in range(2):  # the second begins where a state, perhaps damaged, says
        reader = LoggerFiles(source, lambda: dict(scan(source, {})), place / "curves", state)
        for name, data in files.items():
            (code / name).write_bytes(damaged(rng, data) if rng.random() < 0.8 else data)
        with _no_surprise():
            reader.tick()
            reader.tick(last=True)
        if state.exists() and rng.random() < 0.5:
            state.write_bytes(damaged(rng, state.read_bytes()))
    assert curves.read(str(place / "curves")).num_damaged == {}


def parse_damaged_lines(rng: Random, place: Path) -> None:
    for line in LINES:
        parse(damaged(rng, damaged(rng, line)).decode(errors="replace"))


def test_files():
    bounded.play(read_damaged_files, rounds(25))


def test_lines():
    bounded.play(parse_damaged_lines, rounds(2000))
