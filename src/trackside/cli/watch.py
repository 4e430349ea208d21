"""`trackside watch`: a job live in the terminal, with what is wrong first."""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING

import click

from trackside.cli.failures import EXPECTED
from trackside.cli.full_screen import FullScreen, opened
from trackside.cli.job_names import job_argument
from trackside.cli.terminal import Terminal, is_unicode
from trackside.cli.watch_frame import Ui, frame, update_line
from trackside.errors import InputError
from trackside.records.status import Status
from trackside.sdk.known_jobs import known_jobs
from trackside.texts.shown_names import shown_name
from trackside.views.job.live_job import LiveJob, Snapshot

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader, JobService

REFRESH_SECONDS = 0.5
JUDGED_SECONDS = 30.0
"""How long its rules are waited for after a job has ended."""
_KEY_SECONDS = 0.1
_PLAIN_SECONDS = 10.0
"""Between lines for a file or a pipe, unless the sentence or the status changes."""
_PLAIN_COLUMNS = 100


@click.command(short_help="Watch a job live: what is wrong, curves, machine, log.")
@job_argument(required=False)
@click.option("--once", is_flag=True, help="Print the view once, and return.")
def watch(job: str | None, once: bool) -> None:
    """Watch a job live: what is wrong with it and what to try, its curves, the machine, its log.

    Without JOB, the newest running job. Ends when the job ends; `q` ends it before that, and the
    job runs on. `?` shows all keys. Not at a terminal, a line is printed at every change.

    \b
    Examples:
      trackside watch
      trackside watch last --once
    """
    known = known_jobs()
    name = job or newest_running(known)
    if not is_unicode():
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # as for `metrics`
    ui, terminal = Ui(is_ascii=not is_unicode()), Terminal.of_stdout()
    if once:
        seen = LiveJob(known, name).refresh()
    elif terminal.is_terminal and sys.stdout.isatty():
        seen = _on_screen(known, name, ui, terminal)
    else:
        seen = _in_lines(LiveJob(known, name))
    columns = min(terminal.width, _PLAIN_COLUMNS) if not terminal.is_terminal else terminal.width
    for line in frame(seen, ui, columns, None, keys=False):
        terminal.print(line)


def newest_running(known: "JobReader") -> str:
    """`InputError` when no job runs."""
    for status in (Status.IN_PROGRESS, Status.STOPPING):
        if running := known.list(status=status, limit=1):
            return running[0].name
    raise InputError(
        "No job is running. `trackside watch JOB` shows one that has finished; `trackside jobs` "
        "lists them."
    )


def _on_screen(known: "JobService", name: str, ui: Ui, terminal: Terminal) -> Snapshot:
    """Until the job has ended, or the user quits; returns what was seen last."""
    first = LiveJob(known, name)
    seen = first.refresh()
    if seen.is_over and seen.is_judged:
        return seen
    with _Refresher(known, first, name) as refresher, opened(terminal) as screen:
        return _Watch(screen, refresher, ui, seen).run()


class _Watch:
    def __init__(self, screen: FullScreen, refresher: "_Refresher", ui: Ui, seen: Snapshot) -> None:
        self._screen = screen
        self._refresher = refresher
        self._ui = ui
        self._seen = seen

    def run(self) -> Snapshot:
        is_done, end = False, _End()
        while not is_done:
            self._screen.show(frame(self._seen, self._ui, *self._screen.size, keys=True))
            is_done = self._take(self._screen.key(_KEY_SECONDS))
            for news in self._refresher.news():
                if isinstance(news, Snapshot):
                    self._seen = news
                else:
                    self._ui = replace(self._ui, note=news)
            is_done = is_done or end.is_reached(self._seen)
        return self._seen

    def _take(self, key: str) -> bool:
        """Whether the user quits."""
        if not key:
            return False
        if self._ui.asks_to_stop:
            self._ui = replace(self._ui, asks_to_stop=False)
            if key == "y":
                self._refresher.stop_job()
            return False
        if key == "s":
            self._ui = replace(self._ui, asks_to_stop=True, note="")
        else:
            self._ui = self._ui.pressed(key)
        return key == "q"


class _Refresher:
    """Reads the job in a thread of its own, so that keys respond while a server does not."""

    def __init__(self, known: "JobService", live: LiveJob, name: str) -> None:
        self._known = known
        self._live = live
        self._name = name
        self._news: SimpleQueue[Snapshot | str] = SimpleQueue()
        self._is_stop_wanted = Event()
        self._woken = Event()
        self._is_over = False
        self._failure: Exception | None = None
        self._thread = Thread(target=self._run, name="trackside-watch", daemon=True)

    def __enter__(self) -> "_Refresher":
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        """Does not wait for a server that does not respond."""
        self._is_over = True
        self._woken.set()

    def news(self) -> list[Snapshot | str]:
        """What was read meanwhile: snapshots, and texts for the user."""
        if self._failure is not None:
            raise self._failure
        found: list[Snapshot | str] = []
        while True:
            try:
                found.append(self._news.get_nowait())
            except Empty:
                return found

    def stop_job(self) -> None:
        self._is_stop_wanted.set()
        self._woken.set()

    def _run(self) -> None:
        try:
            self._read_on()
        except Exception as failure:  # noqa: BLE001 raised again by news()
            self._failure = failure

    def _read_on(self) -> None:
        while not self._is_over:
            if self._is_stop_wanted.is_set():
                self._is_stop_wanted.clear()
                self._attempt(self._stop)
            self._attempt(self._refresh)
            self._woken.wait(REFRESH_SECONDS)
            self._woken.clear()

    def _attempt(self, action: "Callable[[], None]") -> None:
        try:
            action()
        except EXPECTED as error:
            self._news.put(str(error))

    def _refresh(self) -> None:
        self._news.put(self._live.refresh())

    def _stop(self) -> None:
        history = self._known.stop(self._name)
        self._news.put(f"{shown_name(self._name)} is {history.state.secondary}")


class _End:
    """When a job has ended and its rules have read the rest, or were waited for long enough."""

    def __init__(self) -> None:
        self._over_since: float | None = None

    def is_reached(self, seen: Snapshot) -> bool:
        if not seen.is_over:
            return False
        if self._over_since is None:
            self._over_since = time.monotonic()
        return seen.is_judged or time.monotonic() - self._over_since > JUDGED_SECONDS


def _in_lines(live: LiveJob) -> Snapshot:
    """A line now and then, and at every change of the sentence or the status, until it ends."""
    said, printed, end = ("", ""), -_PLAIN_SECONDS, _End()
    while True:
        seen = live.refresh()
        if end.is_reached(seen):
            return seen
        now = (seen.view.secondary, seen.view.sentence)
        if now != said or time.monotonic() - printed >= _PLAIN_SECONDS:
            said, printed = now, time.monotonic()
            print(
                f"{time.strftime('%H:%M:%S')} {seen.view.secondary} {update_line(seen)}", flush=True
            )
        time.sleep(REFRESH_SECONDS)
