"""Damaged records of a sandbox cost what they told, and never a script that runs."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.wait import until
from trackside.records.death import Gone
from trackside.supervisor.process_sandbox import ProcessSandbox
from trackside.supervisor.sandbox import Exited, Lost, Running, SandboxPlan

WAIT = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
DAMAGE = [b"", b"\0" * 40, b"[1]", b'{"mark": 3}', b'{"init": {"pid": "x"}}', b"{" * 3000]


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[SandboxPlan]:
    (tmp_path / "ml").mkdir()
    plan = SandboxPlan(
        folder=tmp_path / "sandbox",
        ml=tmp_path / "ml",
        command=[sys.executable, "-S", "-c", WAIT],
        environment={"PATH": os.defpath},
        log=tmp_path / "log",
        nonce=f"test-{os.getpid()}-{tmp_path.name[-20:]}",
    )
    yield plan
    (plan.ml / "go").touch()
    until(lambda: ProcessSandbox().poll(plan) != Running())


@pytest.mark.parametrize("damage", DAMAGE, ids=range(len(DAMAGE)))
@pytest.mark.parametrize("name", ["intent.json", "process.json"])
def test_a_script_whose_record_is_damaged_runs_on_to_its_end(
    plan: SandboxPlan, name: str, damage: bytes
):
    sandbox = ProcessSandbox()
    sandbox.start(plan)
    (plan.folder / name).write_bytes(damage)
    assert ProcessSandbox().poll(plan) == Running()
    sandbox.start(plan)  # by whoever takes over; starts nothing
    (plan.ml / "go").touch()
    seen = until(lambda: None if (seen := sandbox.poll(plan)) == Running() else seen)
    assert isinstance(seen, Exited)
    assert seen.code == 0


def test_an_end_whose_record_is_damaged_is_lost_in_words(plan: SandboxPlan):
    sandbox = ProcessSandbox()
    sandbox.start(plan)
    (plan.ml / "go").touch()
    until(lambda: isinstance(sandbox.poll(plan), Exited))
    (plan.folder / "exit.json").write_bytes(b"{")
    until(lambda: sandbox.poll(plan) != Running())
    damaged = "The script has ended, but the record of how is damaged."
    assert sandbox.poll(plan) == Lost(damaged, Gone.RECORD)


def test_a_supervisor_s_name_that_is_damaged_is_written_again(plan: SandboxPlan):
    """Init must live through it: the script would end with it."""
    sandbox = ProcessSandbox()
    sandbox.start(replace(plan, revive=["/bin/true"]))
    named = plan.folder / "supervisor"
    named.write_bytes(b"no pid")
    until(lambda: named.read_bytes() != b"no pid")
    assert sandbox.poll(plan) == Running()
