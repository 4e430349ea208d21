"""What the kernel counts for a process and its host, read without changing anything."""

import os
import time
from pathlib import Path

from trackside.capture.steps.machine_clocks import MachineClocks, network_bytes

TABLE = b"""Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: 5000 1 0 0 0 0 0 0 5000 1 0 0 0 0 0 0
  eth0: 700 1 0 0 0 0 0 0 30 1 0 0 0 0 0 0
"""


def test_what_is_written_to_a_disk_is_counted(tmp_path: Path):
    clocks = MachineClocks()
    before, _, waited = clocks.read()
    with (tmp_path / "data").open("wb") as file:
        file.write(bytes(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    after, _, waits = clocks.read()
    assert after >= before
    assert waits >= waited >= 0
    clocks.close()


def test_the_interface_within_the_host_does_not_count():
    assert network_bytes(TABLE) == 730


def test_a_forked_process_reads_its_own():
    clocks = MachineClocks()
    clocks.read()
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        pass
    child = os.fork()
    if child == 0:
        clocks.read()
        os._exit(0 if clocks._pid == os.getpid() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    clocks.close()
    assert clocks.read()[2] >= 0
    clocks.close()
