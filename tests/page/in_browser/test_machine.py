"""One time axis over what the machine did, and what each rank did."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.page.in_browser.chromium import tab
from tests.page.in_browser.site import Site

RANKS = """
import time, torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    inputs = torch.randn(16, 8)
    loss = nn.functional.cross_entropy(model(inputs), inputs[:, :3].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WAYS = pytest.mark.parametrize(
    "options",
    [{}, {"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 800}}],
    ids=["wide", "dark", "phone"],
)


@pytest.fixture(scope="module")
def pair(site: Site) -> str:
    """A job of two workers."""
    (site.folder / "ranks.py").write_text(RANKS)
    launch = ("--distribution", "torchrun", "--processes-per-host", "2")
    site.trackside("run", "ranks.py", "--name", "pair", *launch, "--rule", "all", "--wait")
    return "pair"


def test_charts_of_the_machine_share_the_time_and_the_zoom(chromium: Browser, site: Site):
    with tab(chromium, site.at("job/healthy-1?tab=machine")) as watched:
        page = watched.page
        for title in ("Loss", "Memory used %", "Network"):
            expect(page.get_by_role("heading", name=re.compile(f"^{title}"))).to_be_visible()
        phases = page.get_by_role("list", name="Phases")
        expect(phases.get_by_text("Training")).to_be_visible()
        chart = page.get_by_label(re.compile("^Loss over time")).first
        box = chart.bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 0.4 * box["width"], middle)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.7 * box["width"], middle, steps=4)
        page.mouse.up()
        expect(page).to_have_url(re.compile(r"from=[\d.]+.*to=[\d.]+"))
        page.reload()
        page.get_by_role("button", name="Show all", exact=True).click()
        expect(page.get_by_text("Drag to zoom")).to_be_visible()


def test_ranks_show_who_is_slow_and_what_is_not_measured(chromium: Browser, site: Site, pair: str):
    with tab(chromium, site.at(f"job/{pair}?tab=ranks")) as watched:
        page = watched.page
        heat = page.get_by_role("application", name=re.compile("Step time: 2 ranks"))
        heat.focus()
        page.keyboard.press("ArrowDown")
        reading = page.locator(".heat-reading", has_text="worker_1")
        expect(reading).to_have_text(re.compile(r"worker_1, step \d+: .*\d s"))
        expect(page.get_by_role("heading", name=re.compile("^Skew"))).to_be_visible()
        expect(page.get_by_role("heading", name="Loss of each rank")).to_be_visible()


def test_a_job_of_one_worker_has_no_ranks_and_says_so(chromium: Browser, site: Site):
    with tab(chromium, site.at("job/healthy-1?tab=ranks")) as watched:
        expect(watched.page.get_by_text("This job has one worker")).to_be_visible()


@WAYS
def test_nothing_hinders_reading_the_machine(
    chromium: Browser, site: Site, options: dict[str, Any]
):
    with tab(chromium, site.at("job/healthy-1?tab=machine"), **options) as watched:
        expect(watched.page.get_by_role("heading", name=re.compile("^Network"))).to_be_visible()
        assert watched.violations() == []
        assert not watched.is_too_wide()


@WAYS
def test_nothing_hinders_reading_the_ranks(
    chromium: Browser, site: Site, pair: str, options: dict[str, Any]
):
    with tab(chromium, site.at(f"job/{pair}?tab=ranks"), **options) as watched:
        heat = watched.page.get_by_role("application", name=re.compile("Step time"))
        expect(heat).to_be_visible()
        assert watched.violations() == []
        assert not watched.is_too_wide()
