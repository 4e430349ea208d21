"""Every figure that the supervisor takes of the machine has a row in the table, and each row works
for all that show it."""

import numpy
import pytest

from trackside.curves.event_reader import Curves, Series
from trackside.curves.machine_curves import (
    CLOUDWATCH,
    DIMENSION_CHARTS,
    DIMENSION_TITLES,
    FIGURES,
    Figure,
    figure_of,
    is_machine_run,
    with_unit,
)
from trackside.supervisor.gpus import Gpu
from trackside.supervisor.machine_figures import profiler_lines, scalars
from trackside.supervisor.machine_reading import Core, Process, Reading
from trackside.views.job.machine_use import machine_use

each_figure = pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.tag)


def reading(seconds: int) -> Reading:
    gpu = Gpu(
        utilization_percent=50.0,
        memory_used_bytes=1e9,
        memory_total_bytes=4e9,
        temperature_celsius=60.0,
        power_watts=100.0,
        clock_mhz=1000.0,
        memory_clock_mhz=1000.0,
        is_throttled=0.5,
    )
    return Reading(
        clock=float(seconds),
        uptime_ticks=100.0 * seconds,
        cores=(Core(seconds, seconds, 4 * seconds),) * 2,
        memory_bytes=8_000_000,
        memory_available_bytes=2_000_000,
        swap_used_bytes=0,
        disk_read_bytes=1000 * seconds,
        disk_written_bytes=2000 * seconds,
        received_bytes=3000 * seconds,
        sent_bytes=4000 * seconds,
        script={1: Process(0, 100 * seconds, memory_bytes=1000, num_threads=2)},
        gpus=(gpu, gpu),
    )


TAKEN = scalars(reading(1), reading(2))
LINES = profiler_lines(reading(1), reading(2), "algo-1", 0.0)


def test_what_is_taken_is_what_the_table_has() -> None:
    rows = {figure.tag for figure in FIGURES}
    assert len(rows) == len(FIGURES)
    assert {figure.tag for tag in TAKEN if (figure := figure_of(tag))} == rows
    assert [tag for tag in TAKEN if figure_of(tag) is None] == []


@each_figure
def test_a_tag_says_its_unit(figure: Figure) -> None:
    assert figure.tag.endswith(figure.unit.suffix)
    assert not figure.chart or figure.unit.on_axis


def test_the_profilers_files_have_every_dimension() -> None:
    assert {line["Dimension"] for line in LINES} == set(DIMENSION_TITLES)
    assert set(DIMENSION_CHARTS) <= set(DIMENSION_TITLES)
    of_rows = {figure.dimension for figure in FIGURES if figure.dimension}
    assert of_rows == set(DIMENSION_TITLES) - {"I/OWaitPercentage"}  # a core's: no curve


@pytest.mark.parametrize("name", CLOUDWATCH)
def test_a_metric_of_cloudwatch_is_a_figure_by_the_profilers_name(name: str) -> None:
    """These names are AWS's."""
    known = ("CPUUtilization", "GPUUtilization", "GPUMemoryUtilization", "MemoryUtilization")
    assert name in known
    assert any(CLOUDWATCH[name].matches(tag) for tag in TAKEN)


def test_a_job_shows_its_labelled_figures_each_gpu_after_the_machine() -> None:
    points = (numpy.array([1]), numpy.array([1.0]))
    series = [Series("system/algo-1", tag, *points, numpy.array([v])) for tag, v in TAKEN.items()]
    used = machine_use(Curves(scalars={(each.run, each.tag): each for each in series}))
    labels = [figure.label for figure in FIGURES if figure.label]
    gpus = [label for label in labels if "*" in label]
    assert list(used) == [
        *(label for label in labels if "*" not in label),
        *(label.replace("*", str(number)) for number in (0, 1) for label in gpus),
    ]
    assert with_unit(used["gpu 1, power"]["tag"], used["gpu 1, power"]["mean"]) == "100 W"
    assert with_unit("disk/read_bytes_per_second", 1000.0) == "1.0 kB/s"
    assert with_unit("gpu_0/throttled", 0.5) == "50 %"
    assert with_unit("script/threads", 2.0) == with_unit("of/a/later/release", 2.0) == "2"


def test_only_a_hosts_run_is_the_machines() -> None:
    assert is_machine_run("system/algo-12")
    assert not is_machine_run("system")
    assert not is_machine_run("system/mine")
