"""The page in a browser, from a navigation or a key to what is on the screen, against TensorBoard
in the same run, on the same event files, in the same Chromium.

Every frame that was timed is kept in benchmarks/.data/page/pictures, to be looked at.
"""

import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
import psutil
from playwright.sync_api import Browser
from tests.page.in_browser.chromium import chromium_started
from tests.page.in_browser.site import Site, site_started

from benchmarks.browser import MOST_SECONDS, Screen, Server, screen, tensorboard, trackside_ui
from benchmarks.event_data import append_point, values_of
from benchmarks.log_search import PATTERNS
from benchmarks.page_data import (
    NUM_DISTINCT,
    curves_home,
    heat_home,
    jobs_home,
    log_home,
    make_idle_runs,
    run_name,
)
from benchmarks.page_scripts import GROUPS, PRESSED, SERIES, WATCH
from benchmarks.report import Comparison, Target
from trackside.records.layout import TENSORBOARD, Home

BAR = "the bar"
CHART, THEIR_CHART, MAP = ".chart-box", "line-chart", ".heat canvas"
SAMPLED, ALL_POINTS = "TensorBoard, 1,000 points of each", "TensorBoard, every point"
COLUMNS = 1000
TYPED = ("777", "123", "95", "48", "602", "14")
LIVE_SCRIPT = """
import random, time
from pathlib import Path
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter("runs")
for step in range(100):
    writer.add_scalar("loss", random.random(), step)
writer.flush()
while not Path({start!r}).exists():
    time.sleep(0.1)
for number in range({count}):
    time.sleep(random.uniform(1.5, 2.5))
    print("written", time.time(), flush=True)
    writer.add_scalar("loss", number % 2 * 2.0 - 0.5, 100 + number)
    writer.flush()
time.sleep(3)
"""


@dataclass(frozen=True, slots=True)
class Size:
    num_points: int
    num_runs: int
    points_of_many: int
    num_jobs: int
    num_lines: int
    num_steps: int
    num_live: int
    idle_seconds: float
    rounds: int


FULL = Size(100_000, 100, 1_000_000, 1000, 1_000_000, 4000, 20, 30.0, 3)
QUICK = Size(10_000, 20, 100_000, 200, 100_000, 400, 5, 5.0, 1)


def run(quick: bool = False) -> Iterator[Comparison]:
    size = QUICK if quick else FULL
    found: list[Comparison] = []
    with chromium_started() as browser:
        for part in (_first_charts, _many_runs, _live, _idle, _filtered, _searched, _heat):
            for comparison in part(browser, size):
                found.append(comparison)
                yield comparison
    print(_summary(found), flush=True)


# First charts


def _first_charts(browser: Browser, size: Size) -> Iterator[Comparison]:
    home = curves_home(10, size.num_points)
    _forget(home)
    with trackside_ui(home.root) as ui:
        cold = _ours(browser, ui, range(10), "10-runs-cold")
        seen = [_ours(browser, ui, range(10), "10-runs") for _ in range(size.rounds)]
    folder = _logdir(home)
    theirs = _theirs(browser, folder, size.num_points, 10, "10-runs-tensorboard")
    every = ["--samples_per_plugin", f"scalars={1 << 30}"]  # its data server takes 0 as none
    all_points = _theirs(browser, folder, size.num_points, 10, "10-runs-tensorboard-all", *every)
    ours = statistics.median(each.whole for each in seen)
    yield Comparison(
        f"First chart, 10 runs x {size.num_points:,} points, server running",
        "seconds",
        {"trackside": ours, SAMPLED: theirs, ALL_POINTS: all_points},
        targets=(Target(SAMPLED, 5.0), Target(ALL_POINTS, 5.0)),
        notes=(
            "Ours with every curve of the chart, TensorBoard's with the first. Of files never read "
            f"before, ours shows the first curve after {cold.first:.2f} s and all after "
            f"{cold.whole:.2f} s.",
        ),
    )


@dataclass(frozen=True, slots=True)
class Shown:
    """Seconds from the start of the navigation."""

    first: float
    """To the first curve."""
    whole: float
    """To the picture that does not change any more."""


def _ours(browser: Browser, ui: Server, numbers: range, picture: str) -> Shown:
    names = ",".join(run_name(number) for number in numbers)
    with screen(browser) as shown:
        began = shown.go(f"{ui.url}#/compare?jobs={names}")
        shown.wait(partial(shown.last_has_curve, CHART), "our chart")
        shown.settle(2.5)
        box = shown.box(CHART)
        assert box is not None
        first, whole = shown.first(box), shown.as_last(box)
        first.keep(f"{picture}-first")
        whole.keep(picture)
        return Shown(first.time - began, whole.time - began)


def _theirs(
    browser: Browser, folder: Path, num_points: int, num_runs: int, picture: str, *options: str
) -> float:
    with tensorboard(folder, *options) as server:
        _wait_until_loaded(server, num_points, num_runs)
        with screen(browser) as shown:
            began = shown.go(f"{server.url}#timeseries")
            shown.wait(partial(shown.last_has_curve, THEIR_CHART), "TensorBoard's chart")
            shown.settle()
            box = shown.box(THEIR_CHART)
            assert box is not None
            first = shown.first(box)
            first.keep(picture)
            return first.time - began


def _wait_until_loaded(server: Server, last_step: int, num_runs: int) -> None:
    """TensorBoard has read all files."""

    def ask(path: str, **query: str) -> Any:
        with urlopen(f"{server.url}data/plugin/scalars/{path}?{urlencode(query)}") as answer:
            return json.load(answer)

    def is_there(run: str) -> bool:
        points = ask("scalars", run=run, tag="loss")
        return bool(points) and points[-1][1] == last_step

    deadline = time.monotonic() + MOST_SECONDS
    while len(runs := ask("tags")) < num_runs or not all(map(is_there, runs)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"TensorBoard has not read {num_runs} runs")
        time.sleep(0.2)


def _many_runs(browser: Browser, size: Size) -> Iterator[Comparison]:
    home = curves_home(size.num_runs, size.points_of_many)
    numbers = range(size.num_runs)
    _forget(home)
    with trackside_ui(home.root) as ui:
        cold = _ours(browser, ui, numbers, "many-runs-cold")
        memory = [_megabytes(ui)]
    seen = []
    for _ in range(size.rounds):  # each by a server that has read nothing yet
        with trackside_ui(home.root) as ui:
            seen.append(_ours(browser, ui, numbers, "many-runs"))
            memory.append(_megabytes(ui))
    with trackside_ui(home.root) as ui:
        same, drawn = _is_same(browser, ui, size), _has_extremes(browser, ui, size)
    few = _logdir(curves_home(10, size.num_points))
    theirs = _theirs(browser, few, size.num_points, 10, "10-runs-tensorboard-again")
    what = f"{size.num_runs} runs x {size.points_of_many:,} points"
    share = 10 * size.num_points / size.num_runs / size.points_of_many
    peer = f"TensorBoard on {share:.0%} of the points, 1,000 points of each run"
    whole = statistics.median(each.whole for each in seen)
    first = statistics.median(each.first for each in seen)
    yield _against_bar(f"First chart, {what}, files seen before", whole, 1.0, {peer: theirs},
        notes=(f"The first curves after {first:.2f} s, all after that; each time by a server that "
               "was just started.",))  # fmt: skip
    yield _against_bar(f"First chart, {what}, cold", cold.whole, 10.0, {peer: theirs},
        notes=(f"The first curves after {cold.first:.2f} s.",))  # fmt: skip
    yield _against_bar(f"Server memory, {what} served", max(memory), 300.0, unit="MB")
    yield _share(f"Extremes drawn, {what}: columns whose least and greatest value arrive", drawn)
    yield _share("Same numbers with other runs shown or hidden: curves and groups", same)


def _is_same(browser: Browser, ui: Server, size: Size) -> float:
    """The share of curves and groups that do not change when others are in the request."""
    names = [run_name(number) for number in range(size.num_runs)]
    alone, others = names[:5], names[5:15]
    with screen(browser, records=False) as shown:
        shown.go(ui.url)
        few = shown.page.evaluate(SERIES, [alone, COLUMNS])
        many = shown.page.evaluate(SERIES, [names, COLUMNS])
        means = shown.page.evaluate(GROUPS, [{"a": alone}, COLUMNS])
        more = shown.page.evaluate(GROUPS, [{"b": others, "a": alone}, COLUMNS])
    equal = [few[name] == many[name] for name in alone]
    equal.append(means["a"] == more["a"])
    return sum(equal) / len(equal)


def _has_extremes(browser: Browser, ui: Server, size: Size) -> float:
    """The share of the columns of pixels whose least and greatest value arrive, by numpy."""
    with screen(browser, records=False) as shown:
        shown.go(ui.url)
        names = [run_name(number) for number in range(size.num_runs)]
        found = shown.page.evaluate(SERIES, [names, COLUMNS])
    shares = []
    for number, name in enumerate(names):
        values = values_of(number % NUM_DISTINCT, size.points_of_many)
        steps = np.arange(1, len(values) + 1)
        edges = 1 + (len(values) - 1) * np.arange(COLUMNS) / COLUMNS
        x, y = np.array(found[name]["x"]), np.array(found[name]["y"], np.float32)
        at, ours = np.searchsorted(steps, edges), np.searchsorted(x, edges)
        is_low = np.minimum.reduceat(values, at) == np.minimum.reduceat(y, ours)
        is_high = np.maximum.reduceat(values, at) == np.maximum.reduceat(y, ours)
        shares.append(float((is_low & is_high).mean()))
    return min(shares)


# Live


def _live(browser: Browser, size: Size) -> Iterator[Comparison]:
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as folder, ExitStack() as stack:
        site = stack.enter_context(site_started(Path(folder)))
        start = site.folder / "start"
        script = LIVE_SCRIPT.format(count=size.num_live, start=str(start))
        (site.folder / "live.py").write_text(script)
        site.trackside("run", "live.py", "--name", "live")
        shown = stack.enter_context(screen(browser))
        shown.go(site.at("job/live"))
        shown.wait(partial(shown.last_has_curve, CHART), "the live chart")
        shown.settle(2.0)
        start.touch()
        ended = "() => document.body.innerText.includes('Completed')"
        shown.page.wait_for_function(ended, polling=500)
        delays = _delays(shown, _written(site))
    yield _against_bar(
        "A new point in the script to its pixels, median",
        statistics.median(delays),
        1.0,
        notes=(
            f"{len(delays)} points; the slowest {max(delays):.2f} s. TensorBoard's page loads new "
            "points every 30 s, if that is switched on.",
        ),
    )


def _written(site: Site) -> list[float]:
    lines = site.trackside("logs", "live").stdout.splitlines()
    return [float(line.split()[-1]) for line in lines if "written" in line]


def _delays(shown: Screen, moments: list[float]) -> list[float]:
    """From each moment to the first frame whose chart is another than before."""
    box = shown.box(CHART)
    assert box is not None
    begin = next(at for at, frame in enumerate(shown.frames) if frame.has_curve(box))
    frames = shown.frames[begin:]
    delays = []
    for moment in moments:
        before = [frame for frame in frames if frame.time < moment]
        after = (frame for frame in frames if frame.time >= moment)
        if before:
            changed = next(frame for frame in after if not frame.is_like(before[-1], box, 0.002))
            delays.append(changed.time - moment)
            changed.keep("live")
    return delays


def _idle(browser: Browser, size: Size) -> Iterator[Comparison]:
    names = ",".join(run_name(number) for number in range(size.num_runs))
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as folder, ExitStack() as stack:
        home = Home(Path(folder))
        make_idle_runs(home, size.num_runs)
        ui = stack.enter_context(trackside_ui(home.root))
        shown = stack.enter_context(screen(browser))
        shown.count_bytes()
        shown.go(f"{ui.url}#/compare?jobs={names}")
        shown.wait(partial(shown.last_has_curve, CHART), "the chart of idle runs")
        shown.settle(5.0)  # what follows the first connection
        shown.frames[-1].keep("idle")
        shown.num_bytes = 0
        shown.page.wait_for_timeout(size.idle_seconds * 1000)
        idle = shown.num_bytes
        point = _bytes_of_a_point(home, shown)
    yield _against_bar(
        f"Traffic with {size.num_runs} idle runs on the screen",
        max(idle / size.idle_seconds / 1024, 1e-3),
        1.0,
        unit="KB/s",
        notes=(f"Over {size.idle_seconds:.0f} s; then a new point of one run: {point:,} bytes.",),
    )


def _bytes_of_a_point(home: Home, shown: Screen) -> int:
    shown.num_bytes = 0
    append_point(home.job(run_name(0)).host("algo-1", 1).inside(TENSORBOARD), 3.0)
    shown.wait(lambda: shown.num_bytes, "a new point")
    shown.page.wait_for_timeout(2000)
    return shown.num_bytes


# Filter, log and heat map


def _filtered(browser: Browser, size: Size) -> Iterator[Comparison]:
    home = jobs_home(size.num_jobs)
    with trackside_ui(home.root) as ui, screen(browser, records=False) as shown:
        shown.go(ui.url)
        shown.page.evaluate(PRESSED)
        shown.page.evaluate(WATCH, ["[role=table][aria-label=Jobs]", "aria-rowcount"])
        shown.wait_for_seen(str(size.num_jobs + 1))
        is_read = "() => !document.body.innerText.includes('still being read')"
        shown.page.wait_for_function(is_read, polling=500)
        delays = [delay for text in TYPED for delay in _typed(shown, text, size.num_jobs)]
        shown.picture("filter")
    yield _against_bar(
        f"A keystroke in the filter of {size.num_jobs:,} jobs to its rows, the slowest",
        max(delays) * 1000,
        100.0,
        unit="ms",
        notes=(f"Of {len(delays)}; median {statistics.median(delays) * 1000:.0f} ms.",),
    )


def _typed(shown: Screen, text: str, num_jobs: int) -> Iterator[float]:
    """Of each key that changes the rows."""
    shown.page.get_by_label("Query", exact=True).fill("")
    shown.wait_for_seen(str(num_jobs + 1))
    before = num_jobs
    for end in range(1, len(text) + 1):
        wanted = sum(text[:end] in str(number) for number in range(num_jobs))
        shown.page.keyboard.press(text[end - 1])
        if not wanted:
            return
        if wanted != before:
            yield shown.wait_for_seen(str(wanted + 1))
        before = wanted


def _searched(browser: Browser, size: Size) -> Iterator[Comparison]:
    home = log_home(size.num_lines)
    for job, place in (("in-folder", "in the job's folder"), ("in-storage", "in storage")):
        with trackside_ui(home.root) as ui, screen(browser, records=False) as shown:
            shown.go(f"{ui.url}#/job/{job}?tab=logs")
            shown.page.get_by_role("textbox", name="Search").wait_for()
            shown.page.locator(".log-line").first.wait_for()
            shown.page.evaluate(PRESSED)
            shown.page.evaluate(WATCH, [".log-hit", ""])
            delays = {title: _found(shown, PATTERNS[title], size.rounds) for title in PATTERNS}
            shown.picture(f"log-{job}")
        shown_delays = ", ".join(f"{title}: {delay:.2f} s" for title, delay in delays.items())
        yield _against_bar(
            f"First hit of an expression in the last of {size.num_lines:,} lines, {place}",
            max(delays.values()),
            1.0,
            notes=(f"The slowest of: {shown_delays}. From the Enter key.",),
        )


def _found(shown: Screen, pattern: str, rounds: int) -> float:
    """The best of a few."""
    delays = []
    for _ in range(rounds):
        box = shown.page.get_by_role("textbox", name="Search")
        box.fill("")
        box.press("Enter")
        shown.wait_for_seen("")
        box.fill(pattern)
        box.press("Enter")
        delays.append(shown.wait_for_seen("loss: nan at"))
    return min(delays)


def _heat(browser: Browser, size: Size) -> Iterator[Comparison]:
    home = heat_home(size.num_steps)
    what = f"1,000 layers x {size.num_steps:,} steps"
    for job, title in (("reduced", "saved reductions"), ("whole", "tensors saved whole")):
        _forget(home)
        with trackside_ui(home.root) as ui:
            cold = _drawn(browser, ui, job, f"heat-{job}-cold")
        seen = []
        for _ in range(size.rounds):
            with trackside_ui(home.root) as ui:
                seen.append(_drawn(browser, ui, job, f"heat-{job}").whole)
        yield _against_bar(
            f"Heat map of {what}, {title}, seen before",
            statistics.median(seen),
            0.5,
            notes=(f"Never looked at before: a first picture after {cold.first:.2f} s, the whole "
                   f"after {cold.whole:.2f} s. From the click on Tensors, each time by a server "
                   "that was just started.",),
        )  # fmt: skip


def _drawn(browser: Browser, ui: Server, job: str, picture: str) -> Shown:
    with screen(browser) as shown:
        shown.go(f"{ui.url}#/job/{job}")
        shown.page.get_by_role("tab", name="Tensors").wait_for()
        shown.settle(0.5)
        shown.page.evaluate(PRESSED)
        shown.page.get_by_role("tab", name="Tensors").click()
        shown.wait(partial(shown.last_has_curve, MAP), "the heat map")
        shown.page.wait_for_function("() => !document.querySelector('.draft')?.innerText")
        shown.settle()
        box = shown.box(MAP)
        assert box is not None
        began = float(shown.page.evaluate("performance.timeOrigin + window.pressed")) / 1000
        first, whole = shown.first(box), shown.as_last(box)
        first.keep(f"{picture}-first")
        whole.keep(picture)
        return Shown(first.time - began, whole.time - began)


# Reports


def _against_bar(
    title: str,
    ours: float,
    bar: float,
    peers: dict[str, float] | None = None,
    *,
    unit: str = "seconds",
    notes: tuple[str, ...] = (),
) -> Comparison:
    figures = {"trackside": ours, BAR: bar, **(peers or {})}
    return Comparison(title, unit, figures, targets=(Target(BAR, 1.0),), notes=notes)


def _share(title: str, ours: float) -> Comparison:
    figures = {"trackside": 100 * ours, BAR: 100.0}
    return Comparison(title, "%", figures, higher_is_better=True, targets=(Target(BAR, 1.0),))


def _summary(comparisons: list[Comparison]) -> str:
    """One table of everything, for docs/benchmarks.md."""
    lines = ["| measured | target | trackside | TensorBoard | met |", "|---|---:|---:|---:|---|"]
    for each in comparisons:
        ours = f"{each.figures['trackside']:.3g} {each.unit}"
        bar = each.figures.get(BAR)
        goal = f"{each.targets[0].ratio:g} x sooner" if bar is None else f"{bar:g} {each.unit}"
        peers = [f"{figure:.3g} {each.unit}" for name, figure in each.figures.items()
                 if name not in ("trackside", BAR)]  # fmt: skip
        met = all(each.ratio(target.peer) >= target.ratio for target in each.targets)
        row = (each.title, goal, ours, ", ".join(peers), "yes" if met else "**no**")
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(["### The page", "", *lines, ""])


def _logdir(home: Home) -> Path:
    """What TensorBoard is started on: all runs."""
    return home.buckets / "out"


def _forget(home: Home) -> None:
    """What was kept of files that were read before."""
    shutil.rmtree(home.cache, ignore_errors=True)


def _megabytes(server: Server) -> float:
    process = psutil.Process(server.pid)
    return sum(each.memory_info().rss for each in [process, *process.children(True)]) / 1e6
