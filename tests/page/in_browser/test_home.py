"""Home: problems first, then the jobs."""

import re

from playwright.sync_api import Browser, expect

from tests.page.in_browser.chromium import tab
from tests.page.in_browser.site import Site


def test_problems_come_first_and_lead_to_the_step(chromium: Browser, site: Site):
    with tab(chromium, site.url) as watched:
        page = watched.page
        problem = page.get_by_text(re.compile("learning rate is 0")).first
        expect(problem).to_be_visible()
        expect(page.get_by_role("link", name="sick-2", exact=True).first).to_be_visible()
        page.get_by_role("link", name="sick-1", exact=True).first.click()
        expect(page.get_by_role("heading", name=re.compile("learning rate is 0"))).to_be_visible()
        expect(page.get_by_role("link", name="step 0")).to_be_visible()
