"""Learnt invariants on the zoo: what held in runs of a mended script, checked on its broken twin
(recall) and on runs of the mended script by other seeds (false alarms).

Twins are the scripts whose lines agree most. Runs are forked and captured as by `--rule all`; what
is read of each is kept in `benchmarks/.data/observed`, so that the series can be gone on with.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from random import Random

from zoo.specimen import Specimen, Variant, specimens

from benchmarks.report import Comparison, Target
from trackside.rules.saved.open_trial import open_trial
from trackside.storage.locate import locate
from trackside.views.learnt.invariants import Broken, Observed, check, infer
from trackside.views.learnt.observed_run import observe

DATA = Path(__file__).parent / ".data" / "observed"
ALIKE = 0.8
"""Lines that two scripts share, of all that they have: twins."""
GOOD_SEEDS = (0, 1)
OTHER_SEED = 2
MOST_FALSE = 0.02
_QUICK = 3


@dataclass(frozen=True, slots=True)
class Judged:
    key: str
    num_good: int
    """Runs that were learnt from."""
    is_sick: bool
    broken: tuple[Broken, ...]


def run(quick: bool) -> Iterator[Comparison]:
    pairs = twins()[:_QUICK] if quick else twins()
    others = [] if quick else single_healthy({healthy.key for _, healthy in pairs})
    judged = [each for sick, healthy in pairs for each in judge_pair(sick, healthy)]
    judged += [each for healthy in others for each in judge_healthy(healthy)]
    for num_good in range(1, len(GOOD_SEEDS) + 1):
        yield summary([each for each in judged if each.num_good == num_good], num_good)


def twins() -> list[tuple[Specimen, Specimen]]:
    """Broken and mended, in an order that mixes them."""
    chosen = [each for each in specimens() if "multiprocessing" not in each.path.read_text()]
    healthy = [each for each in chosen if each.is_healthy]
    found = []
    for sick in chosen:
        nearest = max(healthy, key=lambda each: _alike(sick, each))
        if not sick.is_healthy and _alike(sick, nearest) >= ALIKE:
            found.append((sick, nearest))
    Random(0).shuffle(found)
    return found


def single_healthy(known: set[str], count: int = 60) -> list[Specimen]:
    """Healthy scripts beside the twins."""
    chosen = [each for each in specimens() if each.is_healthy and each.key not in known]
    Random(0).shuffle(chosen)
    return [each for each in chosen if "multiprocessing" not in each.path.read_text()][:count]


def judge_pair(sick: Specimen, healthy: Specimen) -> Iterator[Judged]:
    yield from judge_healthy(healthy)
    found = observed(sick, GOOD_SEEDS[0])
    good = [observed(healthy, seed) for seed in GOOD_SEEDS]
    for number in range(1, len(good) + 1):
        runs = [each for each in good[:number] if each is not None]
        if found is not None and len(runs) == number:
            yield Judged(sick.key, number, True, tuple(check(infer(runs), found)))


def judge_healthy(healthy: Specimen) -> Iterator[Judged]:
    """Each of its runs by what the others have taught."""
    runs = {seed: observed(healthy, seed) for seed in (*GOOD_SEEDS, OTHER_SEED)}
    known = {seed: run for seed, run in runs.items() if run is not None}
    for seed, run in known.items():
        others = [other for other in known if other != seed]
        for number in range(1, len(others) + 1):
            for good in combinations(others, number):
                broken = check(infer([known[other] for other in good]), run)
                key = f"{healthy.key} by seed {seed}, after {good}"
                yield Judged(key, number, False, tuple(broken))


def observed(specimen: Specimen, seed: int) -> Observed | None:
    """None if nothing of it was captured."""
    source = specimen.source(Variant(seed=seed))
    kept = DATA / f"{sha256(source.encode()).hexdigest()[:16]}.json"
    if not kept.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        found = _captured(source)
        kept.write_text(json.dumps(None if found is None else asdict(found)))
    content = json.loads(kept.read_text())
    return None if content is None else Observed(**content)


def _captured(source: str) -> Observed | None:
    from benchmarks.same_numbers.forked import capture_forked  # imports torch

    with tempfile.TemporaryDirectory(prefix="trackside-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "train.py").write_text(source)
        trial = capture_forked(folder, folder / "train.py")
        opened = open_trial(locate(str(trial), home=folder), folder)
        return None if opened is None else observe(opened)


def summary(judged: Sequence[Judged], num_good: int) -> Comparison:
    sick = {each.key: each for each in judged if each.is_sick}
    healthy = {each.key: each for each in judged if not each.is_sick}
    caught = sum(bool(each.broken) for each in sick.values())
    alarms = [each for each in healthy.values() if each.broken]
    rate = len(alarms) / max(1, len(healthy))
    return Comparison(
        f"Learnt from {num_good} good runs: {caught} of {len(sick)} broken twins noticed, "
        f"{len(alarms)} of {len(healthy)} healthy runs with an alarm",
        "share of healthy runs without an alarm",
        {"trackside": 1 - rate, "needed": 1 - MOST_FALSE},
        higher_is_better=True,
        targets=(Target("needed", 1.0),),
        notes=(
            *(f"false alarm: {each.key}: {_shown(each)}" for each in alarms),
            *(f"missed: {each.key}" for each in sick.values() if not each.broken),
        ),
    )


def _shown(judged: Judged) -> str:
    first = judged.broken[0]
    return f"{len(judged.broken)}, first {first.invariant.text}: {first.found}"


def _alike(one: Specimen, other: Specimen) -> float:
    mine, theirs = _lines(one), _lines(other)
    return len(mine & theirs) / max(1, len(mine | theirs))


_KNOWN_LINES: dict[str, frozenset[str]] = {}


def _lines(specimen: Specimen) -> frozenset[str]:
    """Without the docstring."""
    if specimen.key not in _KNOWN_LINES:
        code = specimen.path.read_text().split('"""', 2)[2]
        _KNOWN_LINES[specimen.key] = frozenset(code.split("\n"))
    return _KNOWN_LINES[specimen.key]
