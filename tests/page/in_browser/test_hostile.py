"""Text of jobs stays text: in names of metrics, hyperparameters, tags, logs and failures."""

from playwright.sync_api import Browser, Dialog, expect

from tests.page.in_browser.chromium import tab
from tests.page.in_browser.site import Site

IMG = "<img src=x onerror=alert(1)>"
CORPUS = (
    IMG,
    "<script>alert(1)</script>",
    "javascript:alert(1)",
    "'\"><svg onload=alert(1)>",
    "{{7*7}}${7*7}",
    "\u202eright to left",
    "a" * 2000,
)
TRAIN = f"""
import sys
from trackside.curves.event_writer import SummaryWriter
CORPUS = {CORPUS!r}
with SummaryWriter("runs") as writer:
    for step in range(20):
        for text in CORPUS:
            writer.add_scalar("x/" + text[:200], step, step)
        writer.add_scalar("loss", 1 / (1 + step), step)
for text in CORPUS:
    print(text)
print("\\x1b]0;title\\x07\\x1b[31mred\\x1b[0m\\x1b[2J\\x1b[H\\x00\\x07")
sys.stdout.buffer.write(b"\\xff\\xfe broken \\xc3\\n")
raise RuntimeError("<b>died</b> " + CORPUS[0])
"""


def test_hostile_text_is_shown_and_never_run(chromium: Browser, busy_site: Site):
    (busy_site.folder / "hostile.py").write_text(TRAIN)
    busy_site.train("other-1", "-p", "steps=5")
    parameters = [
        word for number, text in enumerate(CORPUS) for word in ("-p", f"p{number}={text}")
    ]
    tags = ["--tag", f"team={IMG}"]
    busy_site.trackside(
        "run", "hostile.py", "--name", "hostile-1", "--wait", *parameters, *tags, check=False
    )
    for place in (
        "?q=hostile&columns=name,tag.team,param.p0,param.p6",
        "job/hostile-1",
        "job/hostile-1?tab=curves",
        "job/hostile-1?tab=logs",
        "job/hostile-1?tab=setup",
        "compare?jobs=hostile-1,other-1",
        f"job/{IMG}",
        f"?q={IMG}",
    ):
        with tab(chromium, busy_site.at(place), viewport={"width": 390, "height": 800}) as watched:
            page = watched.page
            dialogs: list[Dialog] = []

            def heed(dialog: Dialog, seen: list[Dialog] = dialogs) -> None:
                seen.append(dialog)

            page.on("dialog", heed)
            page.wait_for_load_state("networkidle") if "?q" in place else None
            expect(page.locator("main")).to_be_visible()
            page.wait_for_timeout(500)
            assert dialogs == []
            assert page.locator("img[src='x']").count() == 0
            assert not watched.is_too_wide()
            if "job/<" in place or "q=<" in place:
                watched.complaints.clear()  # 404 and 400, as the browser reports them
    with tab(chromium, busy_site.at("job/hostile-1?tab=logs")) as watched:
        expect(watched.page.locator(".log-view")).to_contain_text(IMG)
        expect(watched.page.locator(".log-view")).to_contain_text("red")
