"""Compares what the ranks of a training recorded: which should be replicas of each other, the first
tensor and rank that differ, and why. Pure functions of what was read.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from trackside.capture.reading.rank_figures import ComparedTensor, Sample, WorkerFigures
from trackside.quick_dataclass import dataclass

Workers = Sequence[WorkerFigures]

ENOUGH_AVERAGED = 5
"""Steps with one gradient norm on ranks with different data, before it is no coincidence."""
ENOUGH_APART = 50
"""Training steps without any exchange: who averages now and then has done so by then."""
SAME_NORM = 1e-5
"""Relative difference of float32 norms of the same numbers."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first one that was seen."""

    number: int
    """Of the training step before which it was seen, from 0."""
    step: int
    """The same in the steps of the trial."""
    equal_at: int | None
    """The last number at which all were equal; None if they never were."""
    tensors: tuple[str, ...]
    """In the model's order."""
    num_compared: int
    workers: tuple[str, ...]
    """Those that differ from most; of two halves, those that differ from the first worker."""
    is_tie: bool
    """No majority shows which of them are right."""


def replica_groups(workers: Workers) -> list[Workers]:
    """Ranks that one DDP averages over; they are meant to be equal at every step.

    Not those whose code may differ on purpose: shards, communication hooks, updates under
    `no_sync`, and ranks that join with fewer steps.
    """
    groups: dict[tuple[int, ...], list[WorkerFigures]] = {}
    for worker in workers:
        if worker.facts.num_called and worker.facts.group:
            groups.setdefault(worker.facts.group, []).append(worker)
    return [
        group for ranks, group in groups.items() if len(group) == len(ranks) and _are_plain(group)
    ]


def groups_called_past(workers: Workers) -> list[Workers]:
    """All ranks, if each calls a module inside its DDP, and never DDP itself."""
    facts = [worker.facts for worker in workers]
    is_so = len(workers) > 1 and all(each.num_past and not each.num_called for each in facts)
    return [workers] if is_so else []


def groups_apart(workers: Workers) -> list[Workers]:
    """All ranks, if they began alike and have exchanged nothing since."""
    facts = [worker.facts for worker in workers]
    if len(workers) < 2 or not _are_plain(workers):
        return []
    is_so = all(
        each.num_collectives == 0 and each.num_steps >= ENOUGH_APART and not each.num_called
        for each in facts
    )
    begins = [worker.checks[0].digest for worker in workers if 0 in worker.checks]
    began_alike = len(begins) == len(workers) and len(set(begins)) == 1
    return [workers] if is_so and began_alike else []


def groups_never_synced(workers: Workers) -> list[Workers]:
    """All ranks, if each calls DDP under `no_sync` for every update and exchanges nothing: who
    averages weights now and then does exchange them."""
    facts = [worker.facts for worker in workers]
    is_so = len(workers) > 1 and all(
        each.num_called and each.num_unsynced == each.num_updates >= ENOUGH_APART for each in facts
    )
    is_quiet = all(each.num_collectives == 0 and not each.has_hook for each in facts)
    return [workers] if is_so and is_quiet else []


def groups_synced_too_early(workers: Workers) -> list[Workers]:
    """All ranks, if each makes every update after forwards of DDP of which an earlier one averages
    gradients, and the last does not."""
    facts = [worker.facts for worker in workers]
    is_so = len(workers) > 1 and all(
        each.num_called and each.num_synced_too_early == each.num_updates >= ENOUGH_APART
        for each in facts
    )
    is_plain = not any(each.is_sharded or each.has_hook or each.joins for each in facts)
    return [workers] if is_so and is_plain else []


def averaged_groups(workers: Workers) -> list[Workers]:
    """All ranks, if their gradients are averaged without DDP: each update used gradients of one
    norm, of different data."""
    facts = [worker.facts for worker in workers]
    if len(workers) < 2 or any(each.num_called or each.num_past for each in facts):
        return []
    if not _are_plain(workers):
        return []
    seen = [each for each in common_samples(workers) if _have_other_data(each) and _norms(each)]
    return [workers] if len(seen) >= ENOUGH_AVERAGED and all(map(_is_one_norm, seen)) else []


def partly_averaged(workers: Workers) -> tuple[int, Difference] | None:
    """How many parameters all ranks keep equal while they train on different data, and the others,
    if all began alike: what is exchanged for the ones is not for these."""
    facts = [worker.facts for worker in workers]
    if len(workers) < 2 or any(each.num_called or each.num_past for each in facts):
        return None
    apart = first_difference(workers, is_parameter)
    seen = [each for each in common_samples(workers) if _have_other_data(each)]
    if apart is None or apart.equal_at is None or not _are_plain(workers):
        return None
    numbers = sorted(set.intersection(*(set(worker.hashes) for worker in workers)))
    since = [number for number in numbers if number >= apart.number]
    if min(len(seen), len(since)) < ENOUGH_AVERAGED:
        return None
    kept = [
        place
        for place, tensor in enumerate(workers[0].tensors)
        if is_parameter(tensor)
        and all(len({w.hashes[n][place] for w in workers}) == 1 for n in since)
        and len({workers[0].hashes[n][place] for n in since}) == len(since)
    ]
    return (len(kept), apart) if kept else None


def is_parameter(tensor: ComparedTensor) -> bool:
    return tensor.role in ("shared", "own", "synced")


def common_samples(workers: Workers) -> list[tuple[Sample, ...]]:
    """The samples of the steps that all of them have, in order; one of each worker."""
    numbers = set.intersection(*(set(worker.samples) for worker in workers))
    return [tuple(worker.samples[number] for worker in workers) for number in sorted(numbers)]


def first_difference(
    workers: Workers, is_compared: Callable[[ComparedTensor], bool]
) -> Difference | None:
    """None if all are equal, or if their models are different ones."""
    first = workers[0]
    if any(_layout(worker) != _layout(first) for worker in workers) or not first.tensors:
        return None
    places = [place for place, tensor in enumerate(first.tensors) if is_compared(tensor)]
    for number in sorted(set.intersection(*(set(worker.hashes) for worker in workers))):
        rows = [worker.hashes[number] for worker in workers]
        odd = [place for place in places if len({row[place] for row in rows}) > 1]
        if odd:
            return _difference(workers, number, odd, len(places))
    return None


def odd_ones(workers: Workers, values: Sequence[object]) -> tuple[tuple[str, ...], bool]:
    """Workers whose value is not that of the majority, and whether there is no majority; then those
    whose value is not the first worker's."""
    (common, count), *_ = Counter(values).most_common(1)
    is_tie = 2 * count <= len(values)
    usual = values[0] if is_tie else common
    odd = tuple(w.worker for w, value in zip(workers, values, strict=True) if value != usual)
    return odd, is_tie


def unequal_updates(workers: Workers) -> tuple[Sample, ...] | None:
    """The first samples at which the numbers of updates differ, if they do to the end."""
    found = None
    for samples in common_samples(workers):
        differ = len({sample.num_updates for sample in samples}) > 1
        found = (found or samples) if differ else None
    return found


def other_rates(workers: Workers, since: int) -> tuple[Sample, ...] | None:
    """The first samples from that number on whose learning rates differ."""
    return next(
        (
            each
            for each in common_samples(workers)
            if each[0].number >= since
            and all(sample.rates for sample in each)
            and len({sample.rates for sample in each}) > 1
        ),
        None,
    )


def other_gradients(workers: Workers, since: int) -> tuple[Sample, ...] | None:
    """The first samples from that number on whose gradients had different norms."""
    known = (each for each in common_samples(workers) if each[0].number >= since and _norms(each))
    return next((each for each in known if not _is_one_norm(each)), None)


def same_batches(first: WorkerFigures, second: WorkerFigures) -> tuple[int, int, int]:
    """How many sampled batches both have, how many of these are equal, and how many of the equal
    ones are different batches."""
    pairs = [
        (a.fingerprint, b.fingerprint)
        for a, b in common_samples([first, second])
        if a.fingerprint is not None and b.fingerprint is not None
    ]
    equal = [a for a, b in pairs if a == b]
    return len(pairs), len(equal), len(set(equal))


def _difference(workers: Workers, number: int, odd: Sequence[int], num_compared: int) -> Difference:
    first = workers[0]
    hashes = [worker.hashes[number][odd[0]] for worker in workers]
    names, is_tie = odd_ones(workers, hashes)
    equal = [each for each in _common_checks(workers) if each < number and _is_equal(workers, each)]
    known = {**{n: check.step for n, check in first.checks.items()}}
    return Difference(
        number,
        known.get(number, number),
        max(equal, default=None),
        tuple(first.tensors[place].name for place in odd),
        num_compared,
        names,
        is_tie,
    )


def _common_checks(workers: Workers) -> Iterable[int]:
    return set.intersection(*(set(worker.checks) for worker in workers))


def _is_equal(workers: Workers, number: int) -> bool:
    return len({worker.checks[number].digest for worker in workers}) == 1


def _layout(worker: WorkerFigures) -> tuple[tuple[str, int, str], ...]:
    return tuple((each.name, each.numel, each.dtype) for each in worker.tensors)


def _are_plain(workers: Workers) -> bool:
    facts = [worker.facts for worker in workers]
    return not any(
        each.is_sharded or each.has_hook or each.joins or each.num_unsynced for each in facts
    )


def _have_other_data(samples: Sequence[Sample]) -> bool:
    prints = {sample.fingerprint for sample in samples}
    return None not in prints and len(prints) > 1


def _norms(samples: Sequence[Sample]) -> list[float]:
    """Empty unless all have one."""
    known = [sample.gradient_norm for sample in samples if sample.gradient_norm is not None]
    return known if len(known) == len(samples) else []


def _is_one_norm(samples: Sequence[Sample]) -> bool:
    norms = _norms(samples)
    return max(norms) - min(norms) <= SAME_NORM * max(norms) and max(norms) > 0
