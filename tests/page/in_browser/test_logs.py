"""The log of a job: search, jumps, colours, live lines, a million of them."""

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.page.in_browser.chromium import tab
from tests.page.in_browser.site import Site

LINES = r"""
import sys, time
from pathlib import Path

count, until = int(sys.argv[1]), sys.argv[2]
print("\033[31mred\033[0m <img src=x onerror=alert(1)> \u202edecoy \033]0;title\007end")
for bar in range(3):
    sys.stdout.write(f"\rbar {bar} of 2")
print()
sys.stdout.writelines(f"line {number} of many\n" for number in range(count))
sys.stdout.flush()
number = 0
while until and not Path(until).exists():
    number += 1
    print("new line", number, flush=True)
    time.sleep(0.1)
"""
MANY = 1_000_000
SCROLL_ENDS = """box => ({
  ends: new Promise(resolve => box.addEventListener("scrollend", () => resolve(), { once: true }))
})"""
LAST_IS_IN_BOX = """() => {
  const box = document.querySelector(".log-box");
  const lines = box.querySelectorAll(".log-line");
  const bottom = lines[lines.length - 1].getBoundingClientRect().bottom;
  return Math.abs(bottom - box.getBoundingClientRect().bottom) < 20;
}"""


@pytest.fixture(scope="module")
def printed(site: Site) -> str:
    (site.folder / "lines.py").write_text(LINES)
    site.trackside("run", "lines.py", "--name", "printed", "--wait", "--", "3000", "")
    return "printed"


@pytest.fixture
def printing(site: Site) -> Iterator[tuple[str, Path]]:
    (site.folder / "lines.py").write_text(LINES)
    name = f"printing-{uuid.uuid4().hex[:8]}"
    stop = site.folder / f"stop-{name}"
    site.trackside("run", "lines.py", "--name", name, "--", "200", str(stop))
    yield name, stop
    stop.touch()


def box_of(page: Page) -> Locator:
    return page.get_by_role("region", name=re.compile("Log of"))


def go_to(page: Page, place: str) -> None:
    page.get_by_role("textbox", name="Go to").fill(place)
    page.get_by_role("button", name="Go", exact=True).click()


def test_text_of_a_script_is_text_in_its_colours(chromium: Browser, site: Site, printed: str):
    with tab(chromium, site.at(f"job/{printed}?tab=logs&line=1")) as watched:
        line = box_of(watched.page).locator(".log-line", has_text="onerror")
        expect(line).to_contain_text("red <img src=x onerror=alert(1)>")
        expect(line).to_contain_text("decoy end")
        red = line.get_by_text("red", exact=True)
        assert red.evaluate("each => getComputedStyle(each).color") != red.evaluate(
            "each => getComputedStyle(each.parentElement).color"
        )
        expect(box_of(watched.page).get_by_text("bar 2 of 2", exact=True)).to_be_visible()
        expect(box_of(watched.page).get_by_text("bar 1 of 2")).to_have_count(0)


def test_the_search_covers_all_lines_and_goes_from_hit_to_hit(
    chromium: Browser, site: Site, printed: str
):
    with tab(chromium, site.at(f"job/{printed}?tab=logs&line=1")) as watched:
        page = watched.page
        search = page.get_by_role("textbox", name="Search")
        search.fill("(?i)LINE .*7 of")
        expect(page.get_by_role("region", name="Hits")).to_contain_text("300 hits")
        walk = {"Enter": (7, 17), "Shift+Enter": (7, 2997)}
        for key, numbers in walk.items():
            for number in numbers:
                search.press(key)
                chosen = box_of(page).locator(".chosen")
                expect(chosen).to_contain_text(f"line {number} of many")
        page.reload()
        expect(box_of(page).locator(".chosen")).to_contain_text("line 2997 of many")


def test_a_line_has_a_link_and_lines_are_copied(chromium: Browser, site: Site, printed: str):
    granted = {"permissions": ["clipboard-read", "clipboard-write"]}
    with tab(chromium, site.at(f"job/{printed}?tab=logs"), **granted) as watched:
        page = watched.page
        go_to(page, "1500")
        expect(box_of(page).locator(".chosen")).to_have_count(1)
        expect(page).to_have_url(re.compile("line=1500"))
        first = box_of(page).locator(".log-line", has=page.get_by_text("1500", exact=True))
        expect(first.locator(".log-text")).to_contain_text("line ")
        text = first.locator(".log-text").inner_text()
        box_of(page).get_by_text("1502", exact=True).click(modifiers=["Shift"])
        expect(page).to_have_url(re.compile("line=1500-1502"))
        page.get_by_role("button", name="Copy lines").click()
        expect(page.get_by_text("3 lines copied")).to_be_visible()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith(text + "\nline ")
        assert copied.count("\n") == 3


def test_a_line_that_is_asked_for_before_the_log_is_there(
    chromium: Browser, site: Site, printed: str
):
    with tab(chromium, site.at(f"job/{printed}")) as watched:
        page = watched.page
        held: list[Route] = []
        page.route(re.compile(r"/log\?"), lambda route: held.append(route))
        page.get_by_role("tab", name="Logs").click()
        go_to(page, "1500")
        expect(page).to_have_url(re.compile("line=1500"))
        for route in held:
            route.continue_()
        held.clear()
        page.unroute_all(behavior="ignoreErrors")
        expect(box_of(page).locator(".chosen")).to_contain_text("1500")


def test_a_step_has_its_place_in_the_log(chromium: Browser, site: Site):
    with tab(chromium, site.at("job/healthy-1?tab=logs")) as watched:
        expect(box_of(watched.page).get_by_text("step 190 loss")).to_be_visible()
        go_to(watched.page, "step 0")
        expect(box_of(watched.page).locator(".chosen")).to_have_count(1)
        expect(watched.page).to_have_url(re.compile(r"line=\d+"))


def test_new_lines_appear_until_one_scrolls_up(
    chromium: Browser, site: Site, printing: tuple[str, Path]
):
    job, _ = printing
    with tab(chromium, site.at(f"job/{job}?tab=logs")) as watched:
        page = watched.page
        expect(box_of(page).get_by_text("new line 12", exact=True)).to_be_visible()
        follow = page.get_by_role("button", name="Follow")
        expect(follow).to_have_attribute("aria-pressed", "true")
        box_of(page).hover()
        scrolled = box_of(page).evaluate_handle(SCROLL_ENDS)
        page.mouse.wheel(0, -2000)
        expect(follow).to_have_attribute("aria-pressed", "false")
        scrolled.evaluate("scrolled => scrolled.ends")
        there = box_of(page).locator(".log-line").nth(20).inner_text()
        counted = page.locator(".log-under").inner_text()
        expect(page.locator(".log-under")).not_to_have_text(counted)
        assert box_of(page).locator(".log-line").nth(20).inner_text() == there
        follow.click()
        expect(follow).to_have_attribute("aria-pressed", "true")
        expect(box_of(page).locator(".log-line").last).to_contain_text("new line")


def test_home_and_end_arrive_at_once_while_lines_come(
    chromium: Browser, site: Site, printing: tuple[str, Path]
):
    job, _ = printing
    with tab(chromium, site.at(f"job/{job}?tab=logs")) as watched:
        page = watched.page
        follow = page.get_by_role("button", name="Follow")
        expect(box_of(page).get_by_text("new line 3", exact=True)).to_be_visible()
        box_of(page).focus()
        page.keyboard.press("Home")
        assert box_of(page).evaluate("box => box.scrollTop") == 0
        expect(follow).to_have_attribute("aria-pressed", "false")
        expect(box_of(page).get_by_text("line 3 of many", exact=True)).to_be_visible()
        page.keyboard.press("End")
        expect(follow).to_have_attribute("aria-pressed", "true")
        expect(box_of(page).locator(".log-line").last).to_contain_text("new line")


def test_the_last_line_stays_in_view_when_the_window_changes(
    chromium: Browser, site: Site, printed: str
):
    with tab(chromium, site.at(f"job/{printed}?tab=logs")) as watched:
        page = watched.page
        last = box_of(page).get_by_text("line 2999 of many")
        expect(last).to_be_visible()
        for height in (900, 600, 1000):
            page.set_viewport_size({"width": 1280, "height": height})
            page.wait_for_function(LAST_IS_IN_BOX)
            pressed = page.get_by_role("button", name="Follow")
            expect(pressed).to_have_attribute("aria-pressed", "true")


@pytest.fixture(scope="module")
def million(site: Site) -> str:
    (site.folder / "lines.py").write_text(LINES)
    site.trackside("run", "lines.py", "--name", "million", "--wait", "--", str(MANY), "")
    return "million"


def test_a_million_lines_are_scrolled_and_searched(chromium: Browser, site: Site, million: str):
    with tab(chromium, site.at(f"job/{million}?tab=logs")) as watched:
        page = watched.page
        expect(box_of(page).get_by_text(f"line {MANY - 1} of many")).to_be_visible()
        box_of(page).focus()
        page.keyboard.press("Home")
        expect(box_of(page).get_by_text("line 3 of many")).to_be_visible()
        go_to(page, "500,000")
        expect(box_of(page).locator(".chosen")).to_contain_text("of many")
        assert box_of(page).locator(".log-line").count() < 200
        page.get_by_role("textbox", name="Search").fill("line 99999[89] of")
        expect(page.get_by_role("region", name="Hits")).to_contain_text("2 hits")
        page.get_by_role("button", name="Previous").click()
        expect(box_of(page).locator(".chosen")).to_contain_text("line 999999 of many")
        page.get_by_role("button", name="Wrap").click()
        expect(box_of(page).locator(".chosen")).to_contain_text("line 999999 of many")


@pytest.mark.parametrize(
    "options",
    [{}, {"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 800}}],
    ids=["wide", "dark", "phone"],
)
def test_nothing_hinders_reading(
    chromium: Browser, site: Site, printed: str, options: dict[str, Any]
):
    with tab(chromium, site.at(f"job/{printed}?tab=logs&line=1&search=line"), **options) as watched:
        expect(box_of(watched.page).locator(".chosen")).to_be_visible()
        expect(watched.page.get_by_role("region", name="Hits")).to_contain_text("hits")
        assert watched.violations() == []
        assert not watched.is_too_wide()
