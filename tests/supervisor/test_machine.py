"""The machine's figures are right, are cheap, and reach curves and the profiler's files."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.wait import until
from trackside.records.spec import Profiler
from trackside.supervisor import machine, machine_reading
from trackside.supervisor.gpus import Gpu, Gpus
from trackside.supervisor.machine import MachineSampler, curve_seconds
from trackside.supervisor.machine_figures import MinuteFiles, profiler_lines, scalars
from trackside.supervisor.machine_reading import Core, MachineReader, Process, Reading
from trackside.system import process_table

SPIN = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"


@pytest.fixture
def reader() -> Iterator[MachineReader]:
    reader = MachineReader(os.getpid())
    yield reader
    reader.close()


def a_reading(clock: float = 0.0, **changes: Any) -> Reading:
    """A machine of one core at rest, with 100 bytes of memory."""
    same: dict[str, Any] = {
        "clock": clock,
        "uptime_ticks": clock * 100,
        "cores": (Core(0, 0, int(clock * 100)),),
        "memory_bytes": 100,
        "memory_available_bytes": 60,
        "swap_used_bytes": 0,
        "disk_read_bytes": 0,
        "disk_written_bytes": 0,
        "received_bytes": 0,
        "sent_bytes": 0,
        "script": {},
        "gpus": (),
    }
    return Reading(**{**same, **changes})


def a_process(ticks: int, started: int = 0) -> Process:
    return Process(started, ticks, memory_bytes=1000, num_threads=2)


def test_the_reading_agrees_with_psutil(reader: MachineReader):
    assert len(reader.read().cores) == psutil.cpu_count()
    assert reader.read().memory_bytes == psutil.virtual_memory().total
    until(lambda: is_close(reader.read().memory_available_bytes, available_bytes()))
    until(lambda: is_close(busy_seconds(reader.read()), reported_busy_seconds()))


def is_close(one: float, other: float) -> bool:
    """The machine does not stand still between two looks."""
    return one == pytest.approx(other, rel=0.01)


def available_bytes() -> int:
    return psutil.virtual_memory().available


def busy_seconds(reading: Reading) -> float:
    return sum(core.busy for core in reading.cores) / os.sysconf("SC_CLK_TCK")


def reported_busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def test_a_grandchild_s_time_and_memory_are_the_script_s():
    with subprocess.Popen([sys.executable, "-c", SPIN], start_new_session=True) as script:
        reader = MachineReader(script.pid)
        try:
            until(lambda: with_two_processes(reader))
            processes = [psutil.Process(pid) for pid in reader.read().script]
            # How much was spent when is known only to lie between two moments.
            start_least = spent_by(processes)
            before = reader.read()
            start_most = spent_by(processes)
            until(lambda: spent_by(processes) - start_most > 0.3)
            end_least = spent_by(processes)
            now = reader.read()
            end_most = spent_by(processes)
            figures = scalars(before, now)
            used = figures["script/cpu_percent"] / 100 * (now.clock - before.clock)
            # A tick for each of four counters that are cut to whole ones.
            assert end_least - start_most - 0.04 <= used <= end_most - start_least + 0.04
            assert figures["script/processes"] == 2
            [spinner] = [process for process in processes if process.pid != script.pid]
            assert figures["script/memory_bytes"] > spinner.memory_info().rss
        finally:
            reader.close()
            os.killpg(script.pid, signal.SIGKILL)


def test_the_table_is_searched_only_when_a_process_has_started(
    reader: MachineReader, monkeypatch: pytest.MonkeyPatch
):
    newest, looks = [b"1\n"], []

    def looked(root: int, without: int = 0) -> dict[int, int]:
        looks.append(newest[-1])
        return {}

    monkeypatch.setattr(machine_reading, "SCAN_SHARE", float("inf"))
    monkeypatch.setattr(machine_reading, "_newest_process", lambda: newest[-1])
    monkeypatch.setattr(process_table, "descendants", looked)
    for _ in range(3):
        reader.read()
    newest.append(b"2\n")
    for _ in range(3):
        reader.read()
    assert looks == newest
    newest.append(b"")  # where the kernel does not say
    for _ in range(3):
        reader.read()
    assert looks[2:] == [b""] * 3


def test_the_newest_process_is_known():
    before = machine_reading._newest_process()
    assert before.strip().isdigit()
    subprocess.run(["true"], check=True)
    assert machine_reading._newest_process() != before


def spent_by(processes: list[psutil.Process]) -> float:
    return float(sum(sum(process.cpu_times()[:4]) for process in processes))


def with_two_processes(reader: MachineReader) -> Reading | None:
    reading = reader.read()
    return reading if len(reading.script) == 2 else None


def test_rates_are_means_over_the_time_between_two_readings():
    before = a_reading(10.0)
    now = a_reading(
        14.0,
        cores=(Core(busy=100, waiting=40, total=1400),),
        disk_read_bytes=400,
        disk_written_bytes=800,
        received_bytes=1200,
        sent_bytes=1600,
    )
    figures = scalars(before, now)
    assert figures["cpu/total_percent"] == figures["cpu/core_0_percent"] == 25.0
    assert figures["cpu/io_wait_percent"] == 10.0
    assert figures["memory/used_percent"] == 40.0
    assert figures["disk/read_bytes_per_second"] == 100.0
    assert figures["disk/written_bytes_per_second"] == 200.0
    assert figures["network/received_bytes_per_second"] == 300.0
    assert figures["network/sent_bytes_per_second"] == 400.0


@pytest.mark.parametrize(
    ("before", "now", "percent"),
    [
        ({1: a_process(100)}, {1: a_process(150)}, 50.0),
        # A child ended: its 300 ticks, 30 of them new, are its parent's now.
        ({1: a_process(100), 2: a_process(270)}, {1: a_process(400)}, 30.0),
        # One that began in between counts whole; one that was only overlooked does not.
        ({1: a_process(0)}, {1: a_process(0), 3: a_process(20, started=1050)}, 20.0),
        ({1: a_process(0)}, {1: a_process(0), 3: a_process(900, started=5)}, 0.0),
        # Another process has got the number of one that ended.
        ({7: a_process(900, started=5)}, {7: a_process(10, started=1050)}, 10.0),
        ({1: a_process(100), 2: a_process(270)}, {}, 0.0),
    ],
)
def test_the_script_s_time_is_that_of_its_processes(
    before: dict[int, Process], now: dict[int, Process], percent: float
):
    figures = scalars(a_reading(10.0, script=before), a_reading(11.0, script=now))
    assert figures["script/cpu_percent"] == percent


def test_counters_that_run_backwards_give_no_negative_share():
    before = a_reading(10.0, cores=(Core(500, 50, 1000),))
    now = a_reading(11.0, cores=(Core(500, 40, 1100),))
    assert scalars(before, now)["cpu/io_wait_percent"] == 0.0


def test_profiler_lines_have_the_contract_s_form():
    gpu = Gpu(70.0, 30.0, 40.0, 65.0, 200.0, 1400.0, 800.0, 0.0)
    now = a_reading(11.0, cores=(Core(0, 50, 1100), Core(50, 0, 1100)), gpus=(gpu,))
    before = a_reading(10.0, cores=(Core(0, 0, 1000), Core(0, 0, 1000)))
    lines = profiler_lines(before, now, "algo-2", 1591160699.4567)
    assert {
        "Type": "cpu",
        "Name": "cpu1",
        "Dimension": "CPUUtilization",
        "Value": 50.0,
        "NodeId": "algo-2",
        "Timestamp": 1591160699.457,
    } in lines
    values = {(line["Name"], line["Dimension"]): line["Value"] for line in lines}
    assert values["cpu0", "I/OWaitPercentage"] == 50.0
    assert values["gpu0", "GPUUtilization"] == 70.0
    assert values["gpu0", "GPUMemoryUtilization"] == 75.0
    assert values["MemoryUsedPercent", "MemoryUtilization"] == 40.0


NVML = """
class NVMLError(Exception): pass
NVML_TEMPERATURE_GPU, NVML_CLOCK_SM, NVML_CLOCK_MEM = 0, 1, 2
class Answer:
    def __init__(self, **values): self.__dict__.update(values)
def nvmlInit(): {init}
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetUtilizationRates(card):
    if card: raise NVMLError("Not Supported")
    return Answer(gpu=0, memory=3)
def nvmlDeviceGetMemoryInfo(card): return Answer(used=1 << 30, total=4 << 30)
def nvmlDeviceGetTemperature(card, sensor): return 61
def nvmlDeviceGetPowerUsage(card): return 123456
def nvmlDeviceGetClockInfo(card, which): return {{1: 1410, 2: 877}}[which]
def nvmlDeviceGetCurrentClocksThrottleReasons(card): return 0x40 if card else 0x1
"""


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A stand-in for the driver's library, where Python finds it first."""
    folder = tmp_path / "library"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    yield folder / "pynvml.py"
    sys.modules.pop("pynvml", None)


def test_each_gpu_tells_what_it_can(nvml: Path, tmp_path: Path):
    nvml.write_text(NVML.format(init="pass"))
    first, second = Gpus.found().read()
    assert first == Gpu(0.0, float(1 << 30), float(4 << 30), 61, 123.456, 1410, 877, 0.0)
    assert second.utilization_percent is None
    assert second.is_throttled == 1.0
    figures = scalars(a_reading(1.0), a_reading(2.0, gpus=(first, second)))
    assert figures["gpu_0/utilization_percent"] == 0.0
    assert "gpu_1/utilization_percent" not in figures
    assert figures["gpu_1/memory_percent"] == 25.0
    assert figures["gpu_1/throttled"] == 1.0


@pytest.mark.parametrize(
    "library", ["raise ImportError", NVML.format(init="raise NVMLError('no driver')")]
)
def test_no_library_and_no_driver_are_no_gpu(nvml: Path, library: str):
    nvml.write_text(library)
    gpus = Gpus.found()
    assert gpus.read() == ()
    gpus.close()


def test_a_minute_s_file_appears_when_it_is_whole(tmp_path: Path):
    files = MinuteFiles(tmp_path / "profiler", tmp_path / "part", "algo-1")
    files.write([{"a": 1}, {"a": 2}], 1591160699.4)
    assert not list((tmp_path / "profiler").rglob("*.json"))
    files.write([{"a": 3}], 1591160700.1)
    first = tmp_path / "profiler/system/incremental/2020060305/1591160640.algo-1.json"
    assert [json.loads(line) for line in first.read_text().splitlines()] == [{"a": 1}, {"a": 2}]
    files.close()
    assert first.with_name("1591160700.algo-1.json").read_text() == '{"a": 3}\n'


def test_a_supervisor_that_takes_over_goes_on_in_the_same_minute(tmp_path: Path):
    for number, moment in enumerate((1591160630.0, 1591160650.0, 1591160655.0)):
        files = MinuteFiles(tmp_path / "profiler", tmp_path / "part", "algo-1")
        files.write([{"a": number}], moment)  # and is killed
    files.close()
    texts = {path.name: path.read_text() for path in tmp_path.rglob("*.json")}
    assert texts == {
        "1591160580.algo-1.json": '{"a": 0}\n',
        "1591160640.algo-1.json": '{"a": 1}\n{"a": 2}\n',
    }


def curves_in(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder)).Reload()


def sampler(folder: Path, root_pid: int | None = None, **given: Any) -> MachineSampler:
    files = MinuteFiles(folder / "profiler", folder / "part", "algo-1")
    return MachineSampler(root_pid or os.getpid(), "algo-1", folder, files, **given)


def test_a_short_script_has_a_point_too(tmp_path: Path):
    with sampler(tmp_path, running_seconds=700.0):
        until(time_has_passed(0.2))
    [*_, last] = curves_in(tmp_path).Scalars("cpu/total_percent")
    assert last.step >= 700
    assert 0 <= last.value <= 100


def test_the_script_s_curves_do_not_fall_to_nothing_at_its_end(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as script:
        with sampler(tmp_path, root_pid=script.pid):
            until(lambda: "script/memory_bytes" in curves_in(tmp_path).Tags()["scalars"])
            script.kill()
            script.wait()
            until(time_has_passed(machine.LEAST_SECONDS))
        assert min(point.value for point in curves_in(tmp_path).Scalars("script/memory_bytes")) > 0
        assert len(curves_in(tmp_path).Scalars("cpu/total_percent")) >= 2, "the machine's go on"


def time_has_passed(seconds: float) -> Callable[[], bool]:
    start = time.monotonic()
    return lambda: time.monotonic() - start > seconds


@pytest.mark.parametrize(
    ("running", "profile", "distance"),
    [(0, 0, 1), (59, 0.5, 1), (60, 0.5, 5), (600, 0.5, 15), (5, 5, 5), (3600, 60, 60)],
)
def test_points_are_close_at_first_and_wider_later(running: float, profile: float, distance: float):
    assert curve_seconds(running, profile) == distance


def test_points_of_a_script_that_does_nothing_are_wide_from_the_first_minute_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(machine, "CURVE_SECONDS", ((math.inf, 0.1),))
    monkeypatch.setattr(machine, "STILL_SECONDS", 3600.0)
    asked: list[float] = []

    def noted(running: float, profile: float = 0.0, *, is_still: bool = False) -> float:
        asked.append(curve_seconds(running, profile, is_still=is_still))
        return asked[-1]

    monkeypatch.setattr(machine, "curve_seconds", noted)
    with subprocess.Popen(["sleep", "300"]) as script:
        try:
            with sampler(tmp_path, script.pid):
                until(lambda: 3600.0 in asked)
        finally:
            script.kill()
    assert asked.index(3600.0) >= machine.STILL_POINTS


def test_a_script_that_is_over_at_once_has_a_point_too(tmp_path: Path):
    with sampler(tmp_path):
        pass
    [*_, last] = curves_in(tmp_path).Scalars("cpu/total_percent")
    assert 0 <= last.value <= 100


def test_profiles_are_sampled_at_their_own_interval(tmp_path: Path):
    with sampler(tmp_path, profiler=Profiler(interval_milliseconds=100)):
        until(lambda: len(profiled_at(tmp_path)) >= 3)
    lines = profile(tmp_path)
    assert {line["NodeId"] for line in lines} == {"algo-1"}
    assert len(profiled_at(tmp_path)) >= 3


def test_a_sampler_takes_another_interval_rests_and_goes_on(tmp_path: Path):
    slow, quick = Profiler(interval_milliseconds=60000), Profiler(interval_milliseconds=100)
    with sampler(tmp_path, profiler=slow) as sampling:
        sampling.retune(quick)
        until(lambda: len(profiled_at(tmp_path)) >= 5)
        sampling.retune(Profiler(disabled=True))
        before = until(lambda: all_that_comes_for_a_while(tmp_path))
        sampling.retune(quick)
        until(lambda: len(profiled_at(tmp_path)) >= len(before) + 3)


def all_that_comes_for_a_while(folder: Path) -> set[float]:
    """What was profiled; nothing while more comes within several intervals."""
    before = profiled_at(folder)
    until(time_has_passed(0.5))
    return before if profiled_at(folder) == before else set()


def test_a_profiler_that_is_switched_off_leaves_nothing(tmp_path: Path):
    with sampler(tmp_path, profiler=Profiler(disabled=True)):
        until(time_has_passed(0.2))
    assert list(tmp_path.rglob("*")) == [tmp_path / "user's home"]


def profile(folder: Path) -> list[dict[str, Any]]:
    """Whole lines, in finished minutes and in the present one."""
    lines: list[dict[str, Any]] = []
    for path in folder.rglob("*.json"):
        with suppress(FileNotFoundError):  # its minute has just ended
            text = path.read_text()
            lines += map(json.loads, text[: text.rfind("\n") + 1].splitlines())
    return lines


def profiled_at(folder: Path) -> set[float]:
    return {line["Timestamp"] for line in profile(folder)}


def test_a_disk_that_fails_ends_the_sampling_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "part").write_text("a file where a folder should be")
    with sampler(tmp_path, profiler=Profiler(interval_milliseconds=50)):
        until(lambda: "the machine's figures end here" in caplog.text)
