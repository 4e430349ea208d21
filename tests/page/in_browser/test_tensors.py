"""The heat map of tensors, and one tensor."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.in_browser.chromium import tab
from tests.page.in_browser.site import Site


def heat_of(page: Page):
    return page.get_by_role("application", name=re.compile("Heat map"))


def test_keys_move_over_the_cells_and_open_a_tensor(chromium: Browser, site: Site):
    with tab(chromium, site.at("job/healthy-1?tab=tensors&kind=gradients")) as watched:
        page = watched.page
        heat_of(page).focus()
        for key in ("Home", "ArrowDown", "ArrowRight"):
            page.keyboard.press(key)
        reading = page.locator(".heat-reading")
        expect(reading).to_have_text(re.compile(r"^gradient/.+, step [1-9]\d*: .*\d"))
        name = reading.inner_text().partition(",")[0]
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_focused()
        expect(page.get_by_role("slider", name=re.compile("Step"))).to_be_visible()
        page.reload()
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        page.get_by_role("button", name="Close").click()
        expect(page.get_by_role("heading", name=name, exact=True)).to_have_count(0)
        assert "tensor=" not in page.url


def test_dragging_zooms_over_the_steps_and_the_address_keeps_it(chromium: Browser, site: Site):
    with tab(chromium, site.at("job/healthy-1?tab=tensors")) as watched:
        page = watched.page
        heat_of(page).scroll_into_view_if_needed()
        box = heat_of(page).bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 0.5 * box["width"], middle)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.75 * box["width"], middle, steps=4)
        page.mouse.up()
        expect(page).to_have_url(re.compile(r"steps=\d+-\d+"))
        all_steps = page.get_by_role("button", name="Show all steps")
        expect(all_steps).to_be_visible()
        page.reload()
        expect(heat_of(page)).to_have_accessible_name(re.compile(r"over steps (?!0 )\d+ to \d+"))
        all_steps.click()
        expect(heat_of(page)).to_have_accessible_name(re.compile(r"over steps 0 to"))


def test_names_are_filtered_by_a_pattern(chromium: Browser, site: Site):
    with tab(chromium, site.at("job/healthy-1?tab=tensors&kind=gradients")) as watched:
        page = watched.page
        expect(heat_of(page)).to_have_accessible_name(re.compile("6 tensors"))
        page.get_by_label("Names").fill("bias$")
        expect(heat_of(page)).to_have_accessible_name(re.compile("3 tensors"))
        assert "names=bias" in page.url


def test_the_heat_map_is_a_table_too(chromium: Browser, site: Site):
    with tab(chromium, site.at("job/healthy-1?tab=tensors&kind=gradients")) as watched:
        watched.page.get_by_text("As a table").click()
        table = watched.page.get_by_role("region", name="The heat map as a table")
        expect(table.get_by_role("row")).to_have_count(7)
        expect(table.get_by_role("row").nth(1)).to_contain_text("gradient/")


def test_a_link_of_the_diagnosis_leads_to_the_map(chromium: Browser, site: Site):
    with tab(chromium, site.at("job/sick-1")) as watched:
        watched.page.get_by_role("tab", name="Tensors").click()
        expect(heat_of(watched.page)).to_be_visible()
        assert "tab=tensors" in watched.page.url


@pytest.mark.parametrize(
    "options",
    [{}, {"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 800}}],
    ids=["wide", "dark", "phone"],
)
def test_nothing_hinders_reading(chromium: Browser, site: Site, options: dict[str, Any]):
    place = "job/healthy-1?tab=tensors&kind=gradients&tensor=gradient/Sequential_0.weight&step=20"
    with tab(chromium, site.at(place), **options) as watched:
        expect(heat_of(watched.page)).to_be_visible()
        expect(watched.page.get_by_role("slider", name=re.compile("Step"))).to_be_visible()
        assert watched.violations() == []
        assert not watched.is_too_wide()
