"""What a job was made of, and how its code differs from another's."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.page.in_browser.chromium import tab
from tests.page.in_browser.site import TRAIN, Site


@pytest.fixture(scope="module")
def changed(site: Site) -> str:
    """A job whose code has one line changed, and a hyperparameter that looks like markup."""
    text = TRAIN.replace('"--steps", type=int, default=200', '"--steps", type=int, default=3')
    (site.folder / "train.py").write_text(text)
    site.train("changed", "-p", "note=<img src=x onerror=alert(1)>")
    (site.folder / "train.py").write_text(TRAIN)
    return "changed"


def test_it_says_how_to_run_the_job_again_and_what_it_was_made_of(chromium: Browser, site: Site):
    granted = {"permissions": ["clipboard-read", "clipboard-write"]}
    with tab(chromium, site.at("job/healthy-1?tab=setup"), **granted) as watched:
        page = watched.page
        expect(page.get_by_role("region", name="Hyperparameters")).to_contain_text("0.01")
        expect(page.get_by_role("region", name="Packages")).to_contain_text("numpy")
        expect(page.get_by_text("Completed", exact=True).last).to_be_visible()
        page.get_by_role("button", name="Copy", exact=True).click()
        expect(page.get_by_role("button", name="copied")).to_be_visible()
        assert "trackside run train.py" in page.evaluate("navigator.clipboard.readText()")


def test_code_is_read_and_compared_line_by_line(chromium: Browser, site: Site, changed: str):
    with tab(chromium, site.at("job/healthy-1?tab=setup")) as watched:
        page = watched.page
        text = page.get_by_role("region", name="Text of train.py")
        expect(text).to_contain_text("parser = argparse.ArgumentParser()")
        page.get_by_label("Differences from job").fill(changed)
        found = page.get_by_role("region", name="Differences in train.py")
        expect(found.locator(".removed")).to_contain_text("default=3)")
        expect(found.locator(".added")).to_contain_text("default=200)")
        page.reload()
        expect(found.locator(".added")).to_contain_text("default=200)")
        page.get_by_role("button", name="Show files").click()
        expect(text).to_be_visible()


def test_artifacts_are_downloaded(chromium: Browser, site: Site):
    with tab(chromium, site.at("job/healthy-1?tab=setup")) as watched:
        with watched.page.expect_download() as download:
            watched.page.get_by_role("link", name=re.compile("model.tar.gz")).click()
        assert download.value.suggested_filename == "model.tar.gz"


@pytest.mark.parametrize(
    "options",
    [{}, {"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 800}}],
    ids=["wide", "dark", "phone"],
)
def test_nothing_hinders_reading(
    chromium: Browser, site: Site, changed: str, options: dict[str, Any]
):
    place = f"job/{changed}?tab=setup&against=healthy-1"
    with tab(chromium, site.at(place), **options) as watched:
        page = watched.page
        expect(page.get_by_role("region", name="Differences in train.py")).to_be_visible()
        expect(page.get_by_text("<img src=x onerror=alert(1)>", exact=True)).to_be_visible()
        assert watched.violations() == []
        assert not watched.is_too_wide()
