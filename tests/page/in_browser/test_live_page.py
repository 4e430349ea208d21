"""A job that runs: its page follows without a reload, and its buttons work."""

import re
import uuid

from playwright.sync_api import Browser, expect

from tests.page.in_browser.chromium import tab
from tests.page.in_browser.site import Site


def steps_shown(text: str) -> int:
    found = re.search(r"step ([\d,]+)", text)
    return int(found[1].replace(",", "")) if found else 0


def test_a_running_job_moves_and_is_stopped_by_its_button(chromium: Browser, busy_site: Site):
    busy_site.train(
        "running-1", "-p", "steps=20", "-p", f"wait-for={busy_site.folder}/go", wait=False
    )
    with tab(chromium, busy_site.at("job/running-1?tab=logs")) as watched:
        page = watched.page
        log = page.locator(".log-view")
        expect(log).to_contain_text("waiting at step 25")
        first = steps_shown(page.locator("main").inner_text())
        expect(log).to_contain_text("waiting at step 40")
        page.wait_for_function(
            "before => Number((document.querySelector('main').innerText"
            ".match(/step ([\\d,]+)/) ?? ['', '0'])[1].replace(/,/g, '')) > before",
            arg=first,
        )
        page.get_by_role("button", name="Stop", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("running-1")
        dialog.get_by_role("button", name="Stop").click()
        expect(page.locator("main")).to_contain_text("Stopped")
    assert "Stopped" in busy_site.trackside("show", "running-1").stdout


def test_machine_and_tensors_follow_and_ask_only_for_what_is_new(
    chromium: Browser, busy_site: Site
):
    name = f"growing-{uuid.uuid4().hex[:8]}"
    go = busy_site.folder / name
    saved = ("--capture", "gradients", "--every", "1")
    busy_site.train(name, "-p", "steps=20", "-p", f"wait-for={go}", *saved, wait=False)
    with tab(chromium, busy_site.at(f"job/{name}?tab=machine")) as watched:
        page = watched.page
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        lasts = page.get_by_label("Phases").get_by_role("listitem").filter(has_text="Training")
        shown: set[str] = set()
        while len(shown) < 6:  # a new point each second moves the end of the axis
            before = lasts.inner_text()
            expect(lasts).not_to_have_text(before)
            shown.add(before)
        # First, and whenever it connects; not for each point.
        assert sum("api/series" in url for url in asked) < len(shown)
        asked.clear()
        page.get_by_role("tab", name="Tensors").click()
        heat = page.get_by_role("application", name=re.compile("Heat map"))
        for _ in range(3):
            label = heat.get_attribute("aria-label") or ""
            expect(heat).not_to_have_attribute("aria-label", label)
        assert any("/heat?" in url and "dark=" in url for url in asked)
        go.touch()
        expect(page.locator("main")).to_contain_text("Completed")


def test_tags_and_notes_are_written_and_several_jobs_are_chosen(chromium: Browser, busy_site: Site):
    busy_site.train("tagged-1", "-p", "steps=5")
    busy_site.train("tagged-2", "-p", "steps=5")
    with tab(chromium, busy_site.at("?q=tagged")) as watched:
        page = watched.page
        page.get_by_label("Select tagged-1").click()
        page.get_by_label("Select tagged-2").click()
        tools = page.get_by_role("toolbar", name="Selected jobs")
        tools.get_by_role("button", name="Tag").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("textbox").first.fill("stage")
        dialog.get_by_role("textbox").nth(1).fill("trial <b>1</b>")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog).to_have_count(0)  # they are saved
        page.get_by_label("Query", exact=True).fill("tag.stage:*")
        expect(page.get_by_role("link", name="tagged-2", exact=True).last).to_be_visible()
    assert "trial <b>1</b>" in busy_site.trackside("show", "tagged-1").stdout
    with tab(chromium, busy_site.at("job/tagged-1")) as watched:
        page = watched.page
        page.get_by_role("button", name="Note").click()
        page.get_by_label("Note", exact=True).fill("Learning rate from the paper.")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("dialog")).to_have_count(0)  # it is saved
        page.reload()
        expect(page.locator("main")).to_contain_text("Learning rate from the paper.")


def test_a_job_is_run_again_with_a_change_and_deleted(chromium: Browser, busy_site: Site):
    busy_site.train("first-try", "-p", "steps=5", "-p", "lr=0.5")
    with tab(chromium, busy_site.at("job/first-try")) as watched:
        page = watched.page
        page.get_by_role("button", name="Run again…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("lr", exact=True).fill("0.25")
        dialog.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("first-try-20", timeout=90_000)
        expect(page.locator("main")).to_contain_text("Completed", timeout=120_000)
    assert "0.25" in busy_site.trackside("jobs", "--where", "lr=0.25", "--column", "lr").stdout
    with tab(chromium, busy_site.at("job/first-try")) as watched:
        page = watched.page
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_role("region", name="Jobs")).to_be_visible()
    assert '"first-try"' not in busy_site.trackside("jobs", "--json").stdout


def test_a_job_that_somebody_deletes_is_gone_from_the_page(chromium: Browser, busy_site: Site):
    name, other = (f"{word}-{uuid.uuid4().hex[:8]}" for word in ("gone", "kept"))
    for each in (name, other):
        busy_site.train(each, "-p", "steps=5")
    with (
        tab(chromium, busy_site.at(f"?selected={name},{other}")) as table,
        tab(chromium, busy_site.at(f"job/{name}")) as opened,
    ):
        rows = table.page.get_by_role("table", name="Jobs")
        expect(rows.get_by_role("link", name=name)).to_be_visible()
        expect(table.page.locator("main")).to_contain_text("2 jobs selected")
        expect(opened.page.get_by_role("button", name="Delete")).to_be_visible()
        busy_site.trackside("delete", name, "--yes")
        expect(rows.get_by_role("link", name=name)).to_have_count(0)
        expect(rows.get_by_role("link", name=other)).to_be_visible()
        expect(table.page.locator("main")).to_contain_text("1 job selected")
        expect(opened.page.locator("main")).to_contain_text(f"The job {name} was deleted.")
        opened.complaints[:] = [each for each in opened.complaints if "404" not in each]


def test_a_comparison_goes_on_without_the_jobs_that_are_gone(chromium: Browser, busy_site: Site):
    names = [f"compared-{word}-{uuid.uuid4().hex[:8]}" for word in ("one", "two")]
    for name in names:
        busy_site.train(name, "-p", "steps=5")
    with tab(chromium, busy_site.at(f"compare?jobs={','.join(names)},was-here")) as watched:
        page = watched.page
        expect(page.get_by_role("alert")).to_contain_text("was-here")
        expect(page.locator("main")).not_to_contain_text("jobs read…")
        page.get_by_role("button", name="Leave out the jobs that are gone").click()
        expect(page.get_by_role("heading", name="Compare 2 jobs")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_role("heading", name="loss/train")).to_be_visible()
        watched.complaints[:] = [each for each in watched.complaints if "404" not in each]


def test_what_goes_wrong_in_a_dialog_is_said_in_it(chromium: Browser, busy_site: Site):
    name = f"asked-{uuid.uuid4().hex[:8]}"
    busy_site.train(name, "-p", "steps=5")
    with tab(chromium, busy_site.at(f"job/{name}")) as watched:
        page = watched.page
        page.get_by_role("button", name="Run again…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name", exact=True).fill("no name!")
        dialog.get_by_role("button", name="Run", exact=True).click()
        expect(dialog.get_by_role("status")).to_contain_text("cannot be called 'no name!'")
        watched.complaints[:] = [each for each in watched.complaints if "400" not in each]
