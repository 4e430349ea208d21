"""What a language model is trained on, marked in its first texts."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.page.in_browser.chromium import tab
from tests.page.in_browser.site import Site
from tests.page.in_browser.test_views import SCHEMES

HOSTILE = "<img src=x onerror=alert(1)>"
ROW = [
    ["special", "<s>"],
    ["given", f"which way? {HOSTILE}\n"],
    ["trained", " to the left"],
    ["special trained", "</s>"],
    ["padding", "<pad><pad>"],
    ["of a later version", "more"],
]
TEXT = {"model": "TinyForCausalLM", "num_tokens": 1200, "num_trained": 300, "shown": [ROW]}


@pytest.fixture
def tuned(site: Site) -> Iterator[str]:
    """A job whose hook has seen a language model, as its file of facts says."""
    (file,) = _facts(site, "healthy-1")
    before = file.read_bytes()
    file.write_text(json.dumps({**json.loads(before), "text": TEXT}))
    yield "healthy-1"
    file.write_bytes(before)


def _facts(site: Site, job: str) -> list[Path]:
    # `walk` passes over what is removed meanwhile, as the folders of a job that has ended are.
    return [
        Path(folder, name)
        for folder, _, names in os.walk(site.folder)
        for name in names
        if name.endswith(".json") and Path(folder).name == "anatomy" and job in Path(folder).parts
    ]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_trained_on_is_marked(chromium: Browser, site: Site, tuned: str, scheme: str):
    with tab(chromium, site.at(f"job/{tuned}"), **SCHEMES[scheme]) as watched:
        page = watched.page
        page.get_by_role("button", name="300 of 1,200 tokens are trained on").click()
        row = page.locator(".first-texts li")
        expect(row).to_have_text("".join(text for _, text in ROW))
        expect(row.locator("mark")).to_have_text([" to the left", "</s>"])
        expect(row.locator(".special")).to_have_text(["<s>", "</s>"])
        expect(row.locator(".padding")).to_have_text("<pad><pad>")
        assert watched.violations() == []
        assert not watched.is_too_wide()
        page.reload()  # the address has it
        expect(row).to_be_visible()


def test_a_job_without_texts_has_no_place_for_them(chromium: Browser, site: Site):
    with tab(chromium, site.at("job/sick-1")) as watched:
        expect(watched.page.get_by_label("Log lines of that second")).to_contain_text("step 0")
        watched.page.wait_for_load_state("networkidle")
        expect(watched.page.locator(".verdict")).not_to_contain_text("First texts")
