"""One problem that several jobs share."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.in_browser.chromium import tab
from tests.page.in_browser.site import Site


def open_issue(page: Page) -> None:
    """Of the learning rate that is 0, from a job that has it."""
    page.get_by_role("link", name="in other jobs, too?").first.click()
    expect(
        page.get_by_role("heading", level=1, name=re.compile("learning rate is 0"))
    ).to_be_visible()


def test_it_names_the_jobs_and_what_changed_before_the_first(chromium: Browser, site: Site):
    with tab(chromium, site.at("job/sick-2")) as watched:
        page = watched.page
        open_issue(page)
        expect(page.get_by_role("link", name="sick-1", exact=True).first).to_be_visible()
        expect(page.get_by_role("link", name="sick-2", exact=True).first).to_be_visible()
        changed = page.get_by_role("listitem").filter(has_text="hyperparameter lr")
        expect(changed).to_contain_text("0.01")
        page.get_by_role("link", name=re.compile("sick-1, step")).first.click()
        expect(page).to_have_title(re.compile("sick-1"))


def test_its_state_is_set_and_stays(chromium: Browser, site: Site):
    with tab(chromium, site.at("job/sick-2")) as watched:
        page = watched.page
        open_issue(page)
        state = page.locator(".issue-state")
        page.get_by_role("button", name="Mute…").click()
        more = page.get_by_label("Until so many more jobs have it")
        more.fill("3")
        more.press("Enter")
        expect(state).to_have_text("muted")
        expect(page.get_by_text("until 3 more jobs have it")).to_be_visible()
        page.get_by_role("button", name="Open again").click()
        expect(state).to_have_text("open")
        page.get_by_role("button", name="Mark as fixed").click()
        expect(state).to_have_text("fixed")
        page.reload()
        expect(state).to_have_text("fixed")
        page.get_by_role("button", name="Open again").click()
        expect(state).to_have_text("open")


@pytest.mark.parametrize(
    "options",
    [{}, {"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 800}}],
    ids=["wide", "dark", "phone"],
)
def test_nothing_hinders_reading(chromium: Browser, site: Site, options: dict[str, Any]):
    with tab(chromium, site.at("job/sick-2"), **options) as watched:
        open_issue(watched.page)
        assert watched.violations() == []
        assert not watched.is_too_wide()
        watched.page.get_by_role("button", name="Mute…").click()
        expect(watched.page.get_by_role("dialog")).to_be_visible()
        assert watched.violations() == []
