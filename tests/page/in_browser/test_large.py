"""A thousand jobs, two thousand metrics, a million points and a million lines. What is shown is
right whatever its amount."""

import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.in_browser.chromium import tab
from tests.page.in_browser.site import Site, site_started
from tests.page.in_browser.test_logs import box_of, go_to
from tests.views.many_jobs import CREATED, curves_folder, ended_job
from trackside.curves.event_file import EventFile
from trackside.jobs.jobs import Jobs
from trackside.records.layout import Home
from trackside.records.status import Secondary
from trackside.settings import Settings

NUM_JOBS, NUM_COMPARED, NUM_METRICS = 1000, 200, 2000
NUM_POINTS, NUM_LINES = 1_000_000, 1_000_000
MOST_CARDS = 40
SPIKES = {123_457: 1000.0, 500_001: -2000.0, 999_998: 3000.0}
"""Steps to values of one point each; all other values are between -1 and 1."""
MARKED_LINE = 654_321
PRINT = f"""
import sys
lines = (f"line {{number}} of many\\n" for number in range(1, {NUM_LINES + 1}))
sys.stdout.writelines(
    "the needle is here\\n" if line.startswith("line {MARKED_LINE} ") else line for line in lines
)
"""
SERIES = """
async ([job, points]) => {
    const base = document.baseURI.split("#")[0];
    const session = await (await fetch(new URL("api/session", base))).json();
    const { curves } = await (await fetch(new URL(`api/jobs/${job}/curves`, base))).json();
    const { id } = curves.find((curve) => curve.name === "loss");
    const response = await fetch(new URL("api/series", base), {
        method: "POST",
        body: JSON.stringify({ curves: [{ job, id }], x: "step", points }),
        headers: { "content-type": "application/json", "x-trackside-csrf": session.csrf },
    });
    const buffer = await response.arrayBuffer();
    const length = new DataView(buffer).getUint32(4, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
    const first = Math.ceil((8 + length) / 8) * 8;
    const [item] = header.items;
    const array = ([offset, count]) => [...new Float64Array(buffer, first + offset, count)];
    return { total: item.total, x: array(item.arrays.x), y: array(item.arrays.y) };
}
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Jobs of which storage has the records, as after they have ended elsewhere."""
    folder = tmp_path_factory.mktemp("large")
    settings = Settings.load({"TRACKSIDE_HOME": str(folder / "home"), "TRACKSIDE_S3": "embedded"})
    settings.home.mkdir(mode=0o700)
    make_jobs(settings.layout)
    make_metrics(settings.layout)
    make_points(settings.layout)
    Jobs(settings, {}).reindex()
    with site_started(folder) as site:
        yield site


def make_jobs(home: Home) -> None:
    """The first is the oldest; their curves are copies of three."""
    written: list[Path] = []
    for number in range(NUM_JOBS):
        spec = ended_job(
            home,
            f"many-{number:04d}",
            created=CREATED + number,
            as_=Secondary.FAILED if number % 10 == 0 else Secondary.COMPLETED,
            hyper={"lr": str((number % 4 + 1) / 10), "seed": str(number)},
            tags={"team": f"team-{number % 3}"},
            curves={("", "loss"): [float(number + 1), 0.5]} if number < 3 else {},
        )
        curves = curves_folder(home, spec)
        if number < 3:
            written.append(next(curves.iterdir()))
        else:
            curves.mkdir(parents=True)
            shutil.copy(written[number % 3], curves)


def make_metrics(home: Home) -> None:
    file = EventFile(curves_folder(home, ended_job(home, "wide", created=CREATED - 10)))
    for step in range(3):
        for number in range(NUM_METRICS):
            name = f"part_{number // 100:02d}/metric_{number:04d}"
            file.add((name, float(number + step), step, CREATED + step))
    file.close()


def make_points(home: Home) -> None:
    file = EventFile(curves_folder(home, ended_job(home, "long", created=CREATED - 20)))
    rng = random.Random(0)
    for step in range(NUM_POINTS):
        value = SPIKES.get(step, rng.random() * 2 - 1)
        file.add(("loss", value, step, CREATED + step / 100))
        if step % 10_000 == 0:
            file.flush()
    file.close()


def rows_in(page: Page) -> int:
    return page.locator(".job-table .job-row").count()


def test_a_thousand_jobs_are_scrolled_and_filtered(chromium: Browser, large: Site):
    with tab(chromium, large.at("?q=many")) as watched:
        page = watched.page
        table = page.get_by_role("table", name="Jobs")
        expect(table).to_have_attribute("aria-rowcount", str(NUM_JOBS + 1))
        expect(table.get_by_role("link", name=f"many-{NUM_JOBS - 1:04d}")).to_be_visible()
        assert rows_in(page) < 80
        for share in (0.5, 1.0):
            page.evaluate("share => scrollTo(0, share * document.body.scrollHeight)", share)
            row = NUM_JOBS // 2 if share < 1 else 0
            expect(table.locator(f"[aria-rowindex='{NUM_JOBS + 1 - row}']")).to_contain_text(
                f"many-{row:04d}"
            )
            assert rows_in(page) < 80
        expect(table.get_by_role("link", name="many-0000")).to_be_visible()
        page.get_by_label("Query", exact=True).fill("many -status:failed lr>=0.4 tag:team-1")
        wanted = [
            number
            for number in range(NUM_JOBS)
            if number % 10 and number % 4 == 3 and number % 3 == 1
        ]
        expect(table).to_have_attribute("aria-rowcount", str(len(wanted) + 1))
        expect(table.get_by_role("link").first).to_have_text(f"many-{wanted[-1]:04d}")


@pytest.mark.parametrize("count", [NUM_COMPARED, pytest.param(500, marks=pytest.mark.nightly)])
def test_hundreds_of_jobs_are_compared_in_groups(chromium: Browser, large: Site, count: int):
    names = ",".join(f"many-{number:04d}" for number in range(count))
    with tab(chromium, large.at(f"compare?jobs={names}")) as watched:
        page = watched.page
        expect(page.get_by_role("heading", level=1)).to_contain_text(f"Compare {count} jobs")
        chart = page.get_by_role("group", name="loss", exact=True)
        expect(chart.locator(".chart-box")).to_have_attribute("aria-label", re.compile("last 0.5"))
        page.get_by_label("Group by").select_option(label="lr")
        groups = page.get_by_role("list", name="Groups").get_by_role("listitem")
        expect(groups).to_contain_text([f"0.{tenth} ({count // 4})" for tenth in (1, 2, 3, 4)])
        expect(chart.locator(".chart-box")).to_have_attribute("aria-label", re.compile("0.1"))
        page.get_by_role("tab", name="What differs").click()
        expect(page.locator("main")).to_contain_text("seed")


def test_of_two_thousand_metrics_only_charts_in_view_exist(chromium: Browser, large: Site):
    with tab(chromium, large.at("job/wide")) as watched:
        page = watched.page
        cards = page.locator(".chart-card")
        expect(page.get_by_label("Find charts")).to_have_attribute(
            "placeholder", re.compile(r"2,?000 charts")
        )
        seen: set[str] = set()
        for share in (0, 0.2, 0.4, 0.6, 0.8, 1):
            page.evaluate("share => scrollTo(0, share * document.body.scrollHeight)", share)
            page.wait_for_function(
                "seen => [...document.querySelectorAll('.chart-card')]"
                ".some((card) => !seen.includes(card.ariaLabel))",
                arg=[*seen],
            )
            assert 0 < cards.count() <= MOST_CARDS
            seen |= set(cards.evaluate_all("cards => cards.map((card) => card.ariaLabel)"))
        last = f"part_19/metric_{NUM_METRICS - 1}"
        expect(page.get_by_role("group", name=last, exact=True)).to_be_visible()
        page.get_by_label("Find charts").fill("metric_0777")
        expect(cards).to_have_count(1)
        expect(page.get_by_role("group", name="part_07/metric_0777", exact=True)).to_be_visible()
        expect(cards.locator(".chart-box")).to_have_attribute("aria-label", re.compile("last 779"))


def test_every_spike_of_a_million_points_arrives(chromium: Browser, large: Site):
    with tab(chromium, large.at("job/long?all=1")) as watched:
        page = watched.page
        picture = page.get_by_role("group", name="loss", exact=True).locator(".chart-box")
        expect(picture).to_have_attribute("aria-label", re.compile("last"))
        page.wait_for_function(f"({DRAWN})() > 100")
        found: dict[str, Any] = page.evaluate(SERIES, ["long", 500])
    assert found["total"] == NUM_POINTS
    assert len(found["x"]) < 10_000
    values = dict(zip(found["x"], found["y"], strict=True))
    assert {step: values.get(step) for step in SPIKES} == SPIKES
    assert len([value for value in found["y"] if abs(value) > 1]) == len(SPIKES)


DRAWN = """() => {
    const canvas = document.querySelector(".chart-card canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return data.reduce((count, value, at) => count + (at % 4 === 3 && value > 0 ? 1 : 0), 0);
}"""
"""How many pixels of the first chart have any colour."""


@pytest.mark.nightly
def test_a_million_lines_open_at_the_end_and_are_searched(chromium: Browser, large: Site):
    (large.folder / "print.py").write_text(PRINT)
    large.trackside("run", "print.py", "--name", "printed-million", "--wait")
    with tab(chromium, large.at("job/printed-million?tab=logs")) as watched:
        page = watched.page
        expect(box_of(page).get_by_text(f"line {NUM_LINES} of many")).to_be_visible()
        go_to(page, "500000")
        expect(box_of(page).locator(".chosen")).to_contain_text("500000")
        expect(box_of(page).locator(".chosen")).to_contain_text(re.compile(r"line \d+ of many"))
        assert box_of(page).locator(".log-line").count() < 200
        search = page.get_by_role("textbox", name="Search")
        search.fill("n[e]{2}dle is .ere$")
        expect(page.get_by_role("region", name="Hits")).to_contain_text("1 hit")
        search.press("Enter")
        expect(box_of(page).locator(".chosen")).to_contain_text("the needle is here")
