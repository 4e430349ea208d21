"""The watchdog of a sandbox's init, on real processes."""

import select
import shutil
import subprocess
import sys
from pathlib import Path

from trackside.supervisor.watchdog import Watchdog
from trackside.system.process_table import started


def test_a_dead_supervisor_of_a_removed_folder_is_not_watched_any_more(tmp_path: Path):
    """Its descriptor can always be read, so that init would wait for nothing, again and again."""
    folder = tmp_path / "job"
    folder.mkdir()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as supervisor:
        (folder / "supervisor").write_text(f"{supervisor.pid} {started(supervisor.pid)}")
        keeper = Watchdog(str(folder), ["false"])
        keeper.tick()
        assert keeper.descriptor is not None
        shutil.rmtree(folder)
        supervisor.communicate(b"\n")
    ended = select.poll()
    ended.register(keeper.descriptor, select.POLLIN)
    assert ended.poll(10_000)
    keeper.tick()
    assert keeper.descriptor is None
