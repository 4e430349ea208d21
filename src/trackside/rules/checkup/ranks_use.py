"""Rules that compare the ranks of a distributed training: weights, data, updates and time."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, pairwise

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.reading.rank_figures import ComparedTensor, Sample, WorkerFigures
from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.replicas import (
    Difference,
    Workers,
    averaged_groups,
    common_samples,
    first_difference,
    groups_apart,
    groups_called_past,
    groups_never_synced,
    groups_synced_too_early,
    is_parameter,
    odd_ones,
    other_gradients,
    other_rates,
    partly_averaged,
    replica_groups,
    same_batches,
    unequal_updates,
)
from trackside.rules.saved.vital_signs import VitalSigns

_MOST_NAMED = 4
"""A message of one line has room for these."""
_PATIENCE = 2
"""Updates by which ranks must differ: one may be in the middle of its step."""
_SETTLED = 64
"""Training steps after which times are judged: before, compilation, caches and the dense sampling
of the first worker make ranks different."""
_LEAST_SECONDS = 0.25
"""Of a stretch of steps: in less, the machine may have given one rank a processor and let another
wait, and balances that after tenths of a second."""
_MOST_SPANS = 0.8
"""Of the stretches of steps: a rank that is behind now and then is not slow."""
_PAST_DDP = (
    "the loop calls the module inside DistributedDataParallel, not the DDP object, so no gradients "
    "are averaged and each rank trains alone"
)
_NO_DDP = (
    "the data are split over the ranks by a DistributedSampler, but the model is in no DDP and the "
    "ranks exchanged nothing while they trained, so each trains alone"
)
_NO_SYNC = (
    "every update uses gradients of a forward under no_sync, so they are never averaged and each "
    "rank trains alone; leave the last small batch of each update outside of no_sync"
)
_TOO_EARLY = (
    "in every update DDP averages the gradients of an earlier forward, and the last one is under "
    "no_sync, so its gradients, and those in between, are never averaged; leave the last small "
    "batch of each update outside of no_sync instead of the first"
)
_CLOCKS = (
    *("clock_seconds", "own_seconds", "data_seconds", "cpu_seconds"),
    *("disk_bytes", "network_bytes", "queued_seconds"),
)
_MUCH = 64 * 1024
"""Bytes a step: what a rank writes to its log, and a heartbeat, is less."""


@dataclass
class UnequalSteps(VitalsRule):
    """Ranks that hold replicas of one model make different numbers of optimizer steps.

    Fires when ranks of one DistributedDataParallel have made the same number of training steps and
    numbers of updates that differ by at least two, up to the newest of them. Ranks under join, and
    updates under no_sync, are left alone.
    """

    kind = Kind.MISTAKE
    explains = ("ReplicasDiffer", "OptimizerNotStepping", "UpdatesStop", "UpdateLost")
    advice = (
        "Call optimizer.step() on every rank: DDP averages gradients, and sends no weights around. "
        "Look for a condition on the rank, on the loss or on the batch around the step."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for group in replica_groups(vitals.ranks):
            samples = unequal_updates(group)
            newest = _newest(group) if samples else None
            if samples is None or newest is None:
                continue
            counts = [sample.num_updates for sample in newest]
            if max(counts) - min(counts) >= _PATIENCE:
                odd, _ = odd_ones(group, counts)
                made = _each(group, [str(count) for count in counts])
                yield Sign(
                    max(0, samples[0].step - 1),
                    f"After {newest[0].number} training steps the ranks have made different "
                    f"numbers of optimizer steps ({made}), so their weights differ.",
                    value=min(counts),
                    threshold=max(counts),
                    worker=odd[0],
                )


@dataclass
class ReplicasDiffer(VitalsRule):
    """Ranks that should hold the same weights do not.

    Fires when hashes of a parameter differ between ranks that are meant to be replicas: those of
    one DistributedDataParallel, those that call the module inside it instead, and, at the end,
    those that split the data by a DistributedSampler or make every update under no_sync, and
    exchanged nothing, or make every update after a last forward under no_sync and an earlier one
    outside of it. Names the first tensor and rank, and the cause where what the ranks did shows
    it. Left alone are shards, different models, other updates under no_sync, join, communication
    hooks, buffers, and ranks that average their weights now and then (local SGD). If the ranks run
    on different kinds of devices, a difference without a visible cause is not reported.
    """

    kind = Kind.MISTAKE
    explains = ("OptimizerNotStepping", "Overfitting")
    advice = (
        "Do the same on every rank: call the DDP object itself, clip and step on all of them, and "
        "give each the same learning rate. If nothing differs in the code and one tensor of one "
        "rank has changed by itself, suspect that machine's memory or device, and go back to a "
        "checkpoint from before."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if self._reported or len(vitals.ranks) < 2:
            return
        ranks = vitals.ranks
        for group in replica_groups(ranks):
            if unequal_updates(group) is None:
                yield from _drift(group, _is_shared)
        for group in groups_called_past(ranks):
            yield from _alone(group, _PAST_DDP)
        for group in groups_never_synced(ranks) if vitals.is_all else ():
            yield from _alone(group, _NO_SYNC)
        for group in groups_synced_too_early(ranks):
            yield from _alone(group, _TOO_EARLY)
        if vitals.is_all and _is_data_split(vitals):
            for group in groups_apart(ranks):
                yield from _alone(group, _NO_DDP)


@dataclass
class AveragedRanksDiffer(VitalsRule):
    """Ranks whose gradients are averaged without DistributedDataParallel hold different weights.

    Fires when all updates of all ranks use gradients of one norm, of different data, and hashes of
    a parameter differ. That they are meant to be replicas is inferred from the norms. Also fires
    when ranks that began alike keep some parameters equal while these are trained on different
    data, and others differ: gradients of the former are averaged, and those of the latter are not.
    """

    kind = Kind.CAUSE
    explains = ("OptimizerNotStepping", "Overfitting")
    advice = (
        "Send the weights of one rank to all before the first step (torch.distributed.broadcast), "
        "and do the same on every rank: clip, step, learning rate. DistributedDataParallel does "
        "the former by itself."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if self._reported or len(vitals.ranks) < 2:
            return
        for group in averaged_groups(vitals.ranks):
            yield from _drift(group, is_parameter)
        if (found := partly_averaged(vitals.ranks)) is not None:
            num_kept, apart = found
            yield _sign(
                apart,
                f"{num_kept} parameters stay equal while all train on data of their own, so "
                "gradients are averaged, but not those of the others; look for a condition on the "
                "parameter where they are sent",
            )


@dataclass
class BuffersNotShared(VitalsRule):
    """Each rank has its own batch-norm statistics, and the model is evaluated with them.

    Fires when DistributedDataParallel was made with broadcast_buffers=False, running statistics
    differ between its ranks, and there is evaluation. The weights are equal: this is no drift of
    replicas. SyncBatchNorm is not reported, nor are trainings that do not evaluate.
    """

    kind = Kind.OUTCOME
    is_independent = True
    leaves_training_loss = True
    advice = (
        "The checkpoint has the statistics of the rank that writes it, of its part of the data "
        "alone. Leave broadcast_buffers on, use SyncBatchNorm, or average the statistics before "
        "evaluation. If every rank evaluates its part, their results are of different models."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if not len(vitals.vital("batch_size", training=False)):
            return
        for group in replica_groups(vitals.ranks):
            found = first_difference(group, _is_statistic)
            if found is not None and all(worker.facts.keeps_buffers for worker in group):
                more = len(found.tensors) - 1
                others = f" and {more} more buffers" if more else ""
                yield Sign(
                    found.step,
                    f"{found.tensors[0]}{others} differ between the ranks: DDP was made with "
                    "broadcast_buffers=False, so each rank has the statistics of its own data. "
                    "The weights are not affected.",
                    value=len(found.tensors),
                    worker=found.workers[0],
                )


@dataclass
class SameDataOnRanks(VitalsRule):
    """Several ranks train on the same batches.

    Fires when two ranks of one DistributedDataParallel had equal first inputs in all sampled
    training steps, at least `num_batches` different ones. A single batch that is learnt by heart,
    and ranks that share no DDP (tensor or pipeline parallelism), are left alone.
    """

    kind = Kind.MISTAKE
    advice = (
        "Give the loader a torch.utils.data.DistributedSampler of all ranks (rank and number of "
        "replicas of the whole job, not of one machine) and call its set_epoch, or seed the data "
        "of each rank by its rank."
    )
    rests_on = ("input/fingerprint",)

    num_batches: int = parameter(12, "Different batches that are equal on two ranks.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for group in replica_groups(vitals.ranks):
            twins = [pair for pair in combinations(group, 2) if self._are_equal(*pair)]
            if twins:
                first, second = twins[0]
                *_, num_different = same_batches(first, second)
                yield Sign(
                    0,
                    f"{first.worker} and {second.worker}{_more_pairs(len(twins) - 1)} were given "
                    f"the same batches: all {num_different} that were compared are equal. "
                    "Averaging over these ranks gains nothing.",
                    value=num_different,
                    threshold=self.num_batches,
                    worker=second.worker,
                )

    def _are_equal(self, first: WorkerFigures, second: WorkerFigures) -> bool:
        num_pairs, num_equal, num_different = same_batches(first, second)
        return num_equal == num_pairs and num_different >= self.num_batches


@dataclass
class SlowRank(VitalsRule):
    """One rank takes longer than the others, which wait for it.

    Fires when, after 64 training steps, one rank's own time from an update to the next backward
    (data, forward, loss: before anything waits for other ranks) is more than `ratio` times the
    median of the others in most stretches of steps, and that is more than `share` of the step.
    Stretches last at least a quarter of a second. Where all ranks share one host, a rank that only
    waits for a processor is not reported: other work takes it from any of them.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    advice = (
        "Look at that rank's host and at what only this rank does: validation, logging, "
        "checkpoints, a slower disk, other processes on its machine. The Ranks tab shows the times "
        "of every rank."
    )

    ratio: float = parameter(1.5, "Times the median of the other ranks.", at_least=1)
    share: float = parameter(0.2, "Of the step time.", at_least=0)
    stretches: int = parameter(3, "Stretches of steps that are compared.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for group in replica_groups(vitals.ranks):
            spans = _spans(group)
            if len(spans.step) < self.stretches:
                continue
            for place, worker in enumerate(group):
                more, others = spans.surplus("own", place)
                is_slow = more > np.maximum((self.ratio - 1) * others, self.share * spans.step)
                if is_slow.mean() > _MOST_SPANS and not _is_crowded_out(group, spans, place):
                    yield self._sign(worker, spans, place, _step_of(group, _SETTLED))

    def _sign(self, worker: WorkerFigures, spans: "_Spans", place: int, step: int) -> Sign:
        more, others = (float(np.median(each)) for each in spans.surplus("own", place))
        host = f" on {worker.host}" if worker.host else ""
        return Sign(
            step,
            f"{worker.worker}{host} takes {_ms(more)} longer per step than the others, which wait "
            f"for it: {_slow_cause(spans, place)}.",
            value=more + others,
            threshold=self.ratio * others,
            worker=worker.worker,
        )


@dataclass(frozen=True, slots=True)
class _Spans:
    """Seconds per step between settled samples: a row for each span, a column for each worker."""

    step: Array
    """Of the whole step, of the first worker."""
    own: Array
    data: Array
    cpu: Array
    disk: Array
    """Bytes, likewise; and over the network."""
    network: Array
    queued: Array

    def surplus(self, figure: str, place: int) -> tuple[Array, Array]:
        """Of one worker over the median of the others, and that median."""
        seconds = getattr(self, figure)
        others = np.median(np.delete(seconds, place, 1), axis=1)
        return seconds[:, place] - others, others


def _drift(group: Workers, is_compared: Callable[[ComparedTensor], bool]) -> Iterable[Sign]:
    found = first_difference(group, is_compared)
    if found is None:
        return
    cause = _cause(group, found)
    if not cause and len({worker.facts.hardware for worker in group}) > 1:
        return  # other devices may round differently
    yield _sign(found, cause or _unknown_cause(found))


def _alone(group: Workers, cause: str) -> Iterable[Sign]:
    found = first_difference(group, is_parameter)
    if found is not None:
        yield _sign(found, cause)


def _is_data_split(vitals: VitalSigns) -> bool:
    """A loader gives each rank its part of the data: one model is meant to learn from all."""
    return any(
        loader.sampler == "DistributedSampler" and loader.num_trained
        for loader in vitals.anatomy.loaders
    )


def _sign(found: Difference, cause: str) -> Sign:
    first, more = found.tensors[0], len(found.tensors) - 1
    others = f" and {more} more of {found.num_compared}" if more else ""
    since = "from the start"
    if found.equal_at is not None:
        since = f"since training step {found.equal_at} at the earliest, before which all were equal"
    return Sign(
        found.step,
        f"{first}{others} of {_named(found.workers)} differ from the other ranks {since}: {cause}.",
        tensor=first,
        value=len(found.tensors),
        worker=found.workers[0],
    )


def _cause(group: Workers, found: Difference) -> str:
    """As far as it shows; "" if it does not."""
    since = found.equal_at or 0
    rates = other_rates(group, since)
    if rates is not None and found.equal_at is not None:
        named = _each(group, [", ".join(f"{rate:g}" for rate in s.rates) for s in rates])
        return f"their learning rates differ ({named})"
    gradients = other_gradients(group, since)
    if gradients is not None:
        return _gradient_cause(group, gradients)
    if found.equal_at is None:
        return (
            "they start from different weights, and averaged gradients never make them equal; "
            "send those of one rank to all before training"
        )
    return ""


def _gradient_cause(group: Workers, samples: Sequence[Sample]) -> str:
    norms = [sample.gradient_norm or 0.0 for sample in samples]
    named = _each(group, [f"{norm:.4g}" for norm in norms])
    lowest = group[int(np.argmin(norms))].worker
    return (
        f"the same averaged gradients were changed before the update, on some ranks only (norms "
        f"as used: {named}); look for clipping on {lowest} alone"
    )


def _unknown_cause(found: Difference) -> str:
    if len(found.tensors) == 1:
        which = "one of them" if found.is_tie else _named(found.workers)
        return (
            "gradients, learning rates and numbers of updates are equal, so this one tensor was "
            f"changed outside the updates on {which}: a flipped bit, or code that writes to it"
        )
    return (
        "gradients, learning rates and numbers of updates are equal, so something else changes "
        "weights on some ranks: a checkpoint loaded by one rank only, a different optimizer, or "
        "an optimizer state that was restored on some"
    )


def _slow_cause(spans: _Spans, place: int) -> str:
    more, of_data, of_cpu = (
        float(np.median(spans.surplus(figure, place)[0])) for figure in ("own", "data", "cpu")
    )
    if of_data > more / 2:
        return f"{_ms(of_data)} of it are spent waiting for its data loader"
    if of_cpu > more / 2:
        return f"it computes more, {_ms(of_cpu)} of processor time"
    return _blocked_cause(spans, place, more)


def _is_crowded_out(group: Workers, spans: _Spans, place: int) -> bool:
    """Whether it is late because it has no processor, on the host that all of them use."""
    more, queued, cpu = (
        float(np.median(spans.surplus(figure, place)[0])) for figure in ("own", "queued", "cpu")
    )
    is_queued = queued > more / 2 and cpu <= more / 2
    return is_queued and len({worker.host for worker in group}) == 1


def _blocked_cause(spans: _Spans, place: int, more: float) -> str:
    """Of a rank that needs no more processor time."""
    of_disk, of_network, of_queue = (
        float(np.median(spans.surplus(figure, place)[0]))
        for figure in ("disk", "network", "queued")
    )
    if of_queue > more / 2:
        return f"it is ready for {_ms(of_queue)} of it and has no processor, which others use"
    if max(of_disk, of_network) > _MUCH:
        what = "its disk" if of_disk >= of_network else "the network of its host"
        return (
            f"it waits, and moves {max(of_disk, of_network) / 1024:.3g} KB a step more than the "
            f"others over {what}"
        )
    return (
        "it needs no more processor time and moves no more data, so it is blocked (a sleep, a "
        "lock, a device, an answer that it waits for)"
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _spans(group: Workers) -> _Spans:
    rows = []
    for start, end in pairwise(_bounds(group)):
        count = end[0].number - start[0].number
        pairs = list(zip(start, end, strict=True))
        rows.append(
            [[(getattr(b, name) - getattr(a, name)) / count for a, b in pairs] for name in _CLOCKS]
        )
    table = np.array(rows, np.float64).reshape(len(rows), len(_CLOCKS), len(group))
    return _Spans(table[:, 0, 0], *(table[:, place] for place in range(1, len(_CLOCKS))))


def _bounds(group: Workers) -> list[tuple[Sample, ...]]:
    """Of the stretches of steps whose times are compared."""
    chosen: list[tuple[Sample, ...]] = []
    for each in common_samples(group):
        seconds = each[0].clock_seconds - chosen[-1][0].clock_seconds if chosen else math.inf
        if each[0].number >= _SETTLED and seconds >= _LEAST_SECONDS:
            chosen.append(each)
    return chosen


def _newest(group: Workers) -> tuple[Sample, ...] | None:
    return next(reversed(common_samples(group)), None)


def _step_of(group: Workers, number: int) -> int:
    known = [sample.step for sample in group[0].samples.values() if sample.number >= number]
    return min(known, default=0)


def _is_shared(tensor: ComparedTensor) -> bool:
    return tensor.role in ("shared", "synced")


def _is_statistic(tensor: ComparedTensor) -> bool:
    return tensor.role == "buffer" and tensor.name.endswith(("running_mean", "running_var"))


def _each(group: Workers, texts: Sequence[str]) -> str:
    said = [f"{w.worker} {text}" for w, text in zip(group, texts, strict=True)]
    more = f" and {len(said) - _MOST_NAMED} more" if len(said) > _MOST_NAMED else ""
    return ", ".join(said[:_MOST_NAMED]) + more


def _named(workers: Sequence[str]) -> str:
    more = f" and {len(workers) - _MOST_NAMED} more" if len(workers) > _MOST_NAMED else ""
    return ", ".join(workers[:_MOST_NAMED]) + more


def _more_pairs(count: int) -> str:
    return f" (and {count} more {'pair' if count == 1 else 'pairs'} of ranks)" if count else ""
