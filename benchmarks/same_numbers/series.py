"""The series over the scripts of the zoo: its order, its runs, and what came out."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random

from zoo.specimen import Specimen, specimens

from benchmarks.report import Comparison
from benchmarks.same_numbers.compare import MODES, Compared, as_line, compare
from benchmarks.same_numbers.kept import DEFAULT, KeptResults

_QUICK = 5


def run(quick: bool) -> Iterator[Comparison]:
    """Goes on with the kept series, one run after the other."""
    kept = KeptResults(DEFAULT)
    runs = islice(series(), _QUICK) if quick else series()
    for specimen, mode in kept.missing(runs):
        print(as_line(compare_and_keep(kept, specimen, mode)), flush=True)
    yield summary(kept.results(specimens()))


def series(num_scripts: int | None = None) -> Iterator[tuple[Specimen, str]]:
    """Scripts in an order that mixes them, each in another mode than the one before, until each
    had all modes: whatever part of it has run is spread over scripts and modes.

    Scripts that start processes have one mode, their own.
    """
    scripts = specimens()
    Random(0).shuffle(scripts)
    for turn in range(len(MODES)):
        for number, specimen in enumerate(scripts[:num_scripts]):
            if not starts_processes(specimen):
                yield specimen, MODES[(number + turn) % len(MODES)]
            elif turn == 0:
                yield specimen, MODES[0]


def compare_and_keep(kept: KeptResults, specimen: Specimen, mode: str) -> Compared:
    """Those that start processes as jobs, the others in forks of this process: cheaper."""
    from benchmarks.same_numbers.forked import compare_forked  # imports torch

    result = (compare if starts_processes(specimen) else compare_forked)(specimen, mode)
    kept.add(specimen, result)
    return result


def starts_processes(specimen: Specimen) -> bool:
    return "multiprocessing" in specimen.path.read_text()


def summary(results: Sequence[Compared]) -> Comparison:
    verdicts = Counter((each.way, each.mode, each.verdict) for each in results)
    rows = [f"{' '.join(kind)}: {count}" for kind, count in sorted(verdicts.items())]
    judged = [each for each in results if each.verdict in ("same", "differs")]
    same = sum(each.verdict == "same" for each in judged)
    num_scripts = len({each.key for each in judged})
    return Comparison(
        f"Same numbers with `--rule all` as without: {same} of {len(judged)} runs "
        f"of {num_scripts} scripts",
        "runs",
        {"trackside": float(same), "all": float(max(1, len(judged)))},
        higher_is_better=True,
        notes=(*rows, *(as_line(each) for each in results if each.verdict != "same")),
    )
