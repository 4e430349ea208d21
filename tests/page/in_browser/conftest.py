"""The page in a real browser, on real jobs. One worker runs these tests: a browser takes a core."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.page.in_browser.chromium import chromium_started
from tests.page.in_browser.site import Site, site_started
from tests.wait import until

WATCHED = ("--rule", "all", "--capture", "gradients,weights,losses")
JOBS = {
    "healthy-1": ("-p", "lr=0.01", "--tag", "team=vision"),
    "sick-1": ("-p", "lr=0"),
    "sick-2": ("-p", "lr=0", "-p", "seed=2"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Not for the session: Playwright keeps an event loop running in this thread until it ends,
    and tests of other folders have loops of their own."""
    with chromium_started() as browser:
        yield browser


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """With one healthy job, and two with the same fault."""
    with site_started(tmp_path_factory.mktemp("site")) as site:
        train_all(site)
        yield site


def train_all(site: Site) -> None:
    """At the same time, each submitted when the one before it is."""
    with ThreadPoolExecutor(len(JOBS)) as pool:
        trained = []
        for name, words in JOBS.items():
            trained.append(pool.submit(site.train, name, *words, *WATCHED))
            until(partial(_is_submitted, site.folder / "home" / "jobs" / name, trained[-1]))
        for each in trained:
            each.result()


def _is_submitted(folder: Path, run: "Future[None]") -> bool:
    return folder.exists() or run.done()


@pytest.fixture(scope="package")
def busy_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """For tests that make jobs of their own."""
    with site_started(tmp_path_factory.mktemp("busy")) as site:
        yield site
