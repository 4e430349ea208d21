"""`python -m benchmarks.drill`: break a running installation on purpose, and count what is lost.

One line for each case as it ends. Exit code 1 when one broke. Ctrl-C leaves nothing behind.
"""

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.drill.case import Broke, Case, NotShown, Result, Verdict, not_shown
from benchmarks.drill.ground import Ground, fresh_ground
from benchmarks.drill.report import Outcome, as_line, as_markdown, as_summary

MODULES = (
    "deaths",
    "stops",
    "watchers",
    "store_faults",
    "gang",
    "followers",
    "small_disks",
    "hostile_input",
    "access",
    "kill_loop",
    "write_points",
    "simulation",
    "soak",
    "clocks",
    "clusters",
    "elsewhere",
)
CI_SECONDS = 300.0
_INTERRUPTED = 130


def all_cases() -> list[Case]:
    """In the order of their numbers, those without one last."""
    cases: list[Case] = []
    for name in MODULES:
        cases.extend(import_module(f"benchmarks.drill.{name}").CASES)
    return sorted(cases, key=lambda case: (case.number is None, case.number or 0))


def chosen(cases: Sequence[Case], wanted: Sequence[str], part: str) -> list[Case]:
    """Those asked for by number or name, of any part; else those of the part."""
    if wanted:
        unknown = [each for each in wanted if not any(_is_called(case, each) for case in cases)]
        if unknown:
            raise SystemExit(f"no case is called {', '.join(unknown)}; `--list` shows all")
        return [case for case in cases if any(_is_called(case, each) for each in wanted)]
    if part == "ci":
        return ci_part(cases)
    return [case for case in cases if part == "nightly" or not case.nightly]


def ci_part(cases: Sequence[Case]) -> list[Case]:
    """The shortest ones, as many as fit: what takes longest is for the whole drill."""
    taken: list[Case] = []
    seconds = 0.0
    for case in sorted((case for case in cases if not case.nightly), key=lambda case: case.seconds):
        if (seconds := seconds + case.seconds) > CI_SECONDS:
            break
        taken.append(case)
    return [case for case in cases if case in taken]


def run_case(case: Case, *, keep: bool = False) -> Outcome:
    begun = time.monotonic()
    try:
        with fresh_ground(keep=keep, tell=_progress(case)) as ground:
            result = _result(case, ground)
            if keep:
                print(f"      kept: {ground.folder}", flush=True)
    except Broke as error:  # something could not be ended
        result = Result(Verdict.BROKE, "", str(error))
    return Outcome(case, result, time.monotonic() - begun)


def _result(case: Case, ground: Ground) -> Result:
    try:
        return case.run(ground)
    except NotShown as error:
        return not_shown(str(error))
    except Broke as error:
        path = ground.evidence("traceback.txt", traceback.format_exc())
        return Result(Verdict.BROKE, "", f"{error} ({path})")
    except Exception as error:  # noqa: BLE001 - a case that cannot be run has shown nothing good
        path = ground.evidence("traceback.txt", traceback.format_exc())
        return Result(Verdict.BROKE, "", f"{type(error).__name__}: {error} ({path})")


def _progress(case: Case) -> Callable[[str], None]:
    begun = time.monotonic()

    def tell(text: str) -> None:
        if sys.stderr.isatty():
            reported = f"{case.name}: {text} [{time.monotonic() - begun:.0f} s]"
            print(f"\r\x1b[K{reported}", end="", file=sys.stderr, flush=True)

    return tell


def run(cases: Sequence[Case], *, keep: bool = False, markdown: Path | None = None) -> int:
    outcomes = []
    code = 0
    try:
        for case in cases:
            outcomes.append(run_case(case, keep=keep))
            if sys.stderr.isatty():
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            print(as_line(outcomes[-1]), flush=True)
    except KeyboardInterrupt:
        print("interrupted; nothing was left behind", file=sys.stderr)
        code = _INTERRUPTED
    print(as_summary(outcomes), flush=True)
    if markdown:
        markdown.write_text(as_markdown(outcomes))
    broke = any(outcome.result.verdict is Verdict.BROKE for outcome in outcomes)
    return code or int(broke)


def _is_called(case: Case, wanted: str) -> bool:
    return wanted in (str(case.number), case.name, case.name.replace(" ", "-"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="trackside-drill", description=__doc__)
    parser.add_argument(
        "--case", action="append", default=[], help="a number or a name; repeatable"
    )
    parser.add_argument("--part", choices=("ci", "all", "nightly"), default="all")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there")
    parser.add_argument("--keep", action="store_true", help="leave every case's folder")
    parser.add_argument("--list", action="store_true", help="show the cases and run none")
    options = parser.parse_args(arguments)
    cases = chosen(all_cases(), options.case, options.part)
    if options.list:
        for case in cases:
            print(f"{case.number or '–':>4}  {case.name} (about {case.seconds:.0f} s)")
        return 0
    _take_signals()
    return run(cases, keep=options.keep, markdown=options.markdown)


def _take_signals() -> None:
    """SIGTERM is taken as Ctrl-C, which is not ignored even where the shell has it so."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


if __name__ == "__main__":
    sys.exit(main())
