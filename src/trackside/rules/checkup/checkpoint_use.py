"""Rules about checkpoints: what was loaded and matched nothing, what was saved and not restored,
and what jumps where a training was resumed.
"""

import posixpath
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from trackside.capture.reading.anatomy import (
    Anatomy,
    CheckpointFacts,
    ContinuedFacts,
    SchedulerFacts,
)
from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.vitals_rule import Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import EPSILON, Series, VitalSigns

_TRAINED_ON = 3
"""Training steps after a load, by which the script has restored whatever it restores; without them
it was loaded to be evaluated."""
_CHECKPOINTS = "/opt/ml/checkpoints"
_RESTORED = {
    "optimizer": "optimizer",
    "scheduler": "learning-rate schedule",
    "scaler": "gradient scaler",
    "random": "random generators",
}
"""States that a file may hold, as the reader knows them."""
_STATELESS = ("SGD", "ASGD")
"""Optimizers that keep nothing without momentum."""
_ALIKE = 1.1
"""Rates whose ratio is lower count as equal: the first one of a schedule is sampled in its first
steps."""
_OWN_CHANGE = 1.5
"""By which a rate must change more at the seam than elsewhere."""


@dataclass
class WeightsNotLoaded(VitalsRule):
    """A checkpoint was loaded with strict=False, and none of its keys is one of the model's.

    Fires when the model that is trained was given a state of which it has no key, and is trained
    from there.
    """

    kind = Kind.MISTAKE
    is_independent = True
    advice = (
        "Load with strict=True, which names the keys; remove a prefix such as `module.` (by DDP) "
        "or `_orig_mod.` (by torch.compile) from them, and look whether the file holds the state "
        'under a key of its own, such as ["model"].'
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for load in _loads_of_model(vitals):
            if load.num_keys and not load.num_matched:
                yield Sign(
                    max(load.step, 0),
                    f"load_state_dict gave {load.type} {load.num_keys} tensors, and it has none of "
                    f"them: {_examples(load)}. The model is as it was before.",
                    value=0.0,
                    threshold=float(load.num_keys),
                )


@dataclass
class WeightsPartlyLoaded(VitalsRule):
    """Some weights were not loaded because their keys differ by a prefix.

    Fires when the model that is trained has missing keys that were given under a name with another
    prefix, and when a script loads a file that it writes itself and some of the model's keys are
    missing in it. A new head on a model that was trained elsewhere or has another one in its place,
    and weights that are frozen, are not reported.
    """

    kind = Kind.CAUSE
    is_independent = True
    advice = (
        "Load with strict=True, or compare the result of load_state_dict with what you expect; "
        "save and load the state of the same object, both with the wrapper or both without."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        resumed = [load for load, _ in _resumptions(vitals)]
        for load in _loads_of_model(vitals):
            if not load.num_matched or not load.num_learnt_missing:
                continue
            is_resumed = any(_follows(load, each, vitals.anatomy) for each in resumed)
            if load.prefix or (is_resumed and not load.num_unexpected):
                yield Sign(
                    max(load.step, 0),
                    f"{load.num_missing} keys of {load.type} are missing in what it was given, "
                    f"{load.num_matched} were loaded: {_examples(load)}.",
                    value=float(load.num_matched),
                    threshold=float(load.num_matched + load.num_missing),
                )


@dataclass
class StateNotRestored(VitalsRule):
    """The checkpoint holds the state of an optimizer, a schedule, a scaler or random generators,
    and the script that resumes from it does not restore it.

    Fires when a script loads a file in a folder to which it saves such states itself, or one of an
    earlier job that trained by the same script on the same data, restores the model, trains on, and
    never gives the state to an object that it uses. An optimizer that is given its state and makes
    no step since, because another one was made in its place, is not used. Weights of another
    training, and files that are loaded for evaluation only, are not reported.
    """

    kind = Kind.CAUSE
    is_independent = True
    explains = ("LossJumpsAtResume", "RateJumpsAtResume", "GradientJumpsAtResume")
    advice = (
        "After model.load_state_dict, call load_state_dict of the optimizer, the scheduler and the "
        "scaler with what the checkpoint holds for them, and set the states of the random "
        "generators. `trackside audit-resume` compares a resumed run with an unbroken one."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for load, later in _resumptions(vitals):
            restored = {each.what for each in later if not each.is_idle}
            is_replaced = any(each.is_idle for each in later)
            lost = [
                kind
                for kind in _RESTORED
                if kind in load.holds and kind not in restored and _uses(vitals.anatomy, kind, load)
            ]
            if lost and "model" in restored:
                named = ", ".join(_RESTORED[kind] for kind in lost)
                why = ""
                if is_replaced and "optimizer" in lost:
                    why = (
                        " The optimizer that was given its state has made no step: another one, "
                        "made later, updates the weights, and begins anew."
                    )
                yield Sign(
                    max(load.step, 0),
                    f"{load.path} holds the state of: {named}. It was loaded, the model got its "
                    f"weights, and training goes on without that state.{why}",
                    tensor=lost[0],
                    value=float(len(lost)),
                    threshold=0.0,
                )


@dataclass
class OptimizerNotSaved(VitalsRule):
    """A script resumes from its own checkpoints, which do not hold the optimizer's state.

    Fires when the file that is loaded before the first step is one that the script writes itself,
    or of an earlier job that trained by the same script on the same data, neither it nor any other
    file of that folder holds an optimizer's state, and the optimizer has one: moments, or momentum.
    """

    kind = Kind.CAUSE
    is_independent = True
    advice = (
        "Save optimizer.state_dict() (and the scheduler's) beside the model's, and load it after "
        "the optimizer is made: without its moments the first updates after a resume are too large."
    )

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        saves = [each for each in vitals.anatomy.checkpoints if each.action == "save"]
        for load, later in _resumptions(vitals, is_same_file=True):
            files = [each for each in later if each.what == "file"]
            holds = {kind for each in (load, *files, *saves) for kind in each.holds}
            is_restored = any(each.what == "optimizer" for each in later)
            if load.step >= 0 or "model" not in holds or "optimizer" in holds or is_restored:
                continue
            if stateful := _stateful(vitals.anatomy):
                yield Sign(
                    0,
                    f"Training resumes from {load.path}, which the script writes itself, and no "
                    f"checkpoint holds the state of {stateful}.",
                )


@dataclass
class BestWeightsNotCopied(VitalsRule):
    """The best weights were kept by reference: what is loaded at the end are the newest ones.

    Fires when the model that is trained is given a state that lies in its own memory, after at
    least one update: state_dict() returns the tensors themselves, which training goes on to change.
    """

    kind = Kind.MISTAKE
    is_independent = True
    advice = "Keep copy.deepcopy(model.state_dict()), or save it to a file."

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for load in vitals.anatomy.checkpoints:
            if load.is_own and load.is_trained and load.step > 0:
                yield Sign(
                    load.step,
                    f"load_state_dict gives {load.type} its own tensors: the state that was kept "
                    "has changed with every update since, and loading it changes nothing.",
                )


@dataclass
class LossJumpsAtResume(VitalsRule):
    """The loss is several times higher right after a resume than right before it.

    Fires when the median of the first losses after a resume is at least `factor` times that of the
    last ones before it, and more than the loss varied in between. A resume is a new attempt of the
    job, a file of this run that is loaded into the model that is trained, or a checkpoint of an
    earlier job that trained by the same script on the same data.
    """

    kind = Kind.CAUSE
    rests_on = ("loss_value",)
    explains = ("LossRising", "NothingLearnt", "Overfitting", "GradientJumpsAtResume")
    advice = (
        "Compare what the checkpoint holds with what the script restores: weights (also those of a "
        "wrapper), optimizer, schedule. `trackside audit-resume` names what differs."
    )

    factor: float = parameter(3.0, "How many times higher.", at_least=1)
    num_losses: int = parameter(5, "Losses on either side.", at_least=3)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for seam in _seams(vitals):
            if len(vitals.anatomy.losses) > 1:
                return  # one after the other, as in stages
            before, after = _losses_at(vitals, seam)
            before, after = before.last(self.num_losses), after.first(self.num_losses)
            if min(len(before), len(after)) < self.num_losses or not before.median > 0:
                continue
            highest = float(np.max(before.values))
            if after.median > self.factor * before.median and np.min(after.values) > highest:
                yield Sign(
                    seam.step,
                    f"The loss was {before.median:.4g} before the {seam}, and is "
                    f"{after.median:.4g} after it.",
                    value=after.median / before.median,
                    threshold=self.factor,
                )


@dataclass
class GradientJumpsAtResume(VitalsRule):
    """The gradient norm is many times higher or lower right after a resume than right before it.

    Fires when the medians of the norms on either side of a resume differ by at least `factor`, and
    no norm of the one side is within the range of the other. Norms before clipping are compared,
    where they are known.
    """

    kind = Kind.CAUSE
    rests_on = ("gradient_norm",)
    explains = ("ExplodingGradient", "FadingGradient")
    advice = (
        "The weights or what is computed from them are not those of the checkpoint: compare what "
        "it holds with what the script restores (statistics of batch norm, loss scale, frozen "
        "parameters, accumulation). `trackside audit-resume` names what differs."
    )

    factor: float = parameter(5.0, "How many times higher or lower.", at_least=1)
    num_norms: int = parameter(5, "Norms after the resume; up to four times as many before.")

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for seam in _seams(vitals):
            before, after = _norms_at(vitals, seam)
            before, after = before.last(4 * self.num_norms), after.first(self.num_norms)
            if min(len(before), len(after)) < self.num_norms or not before.median > 0:
                continue
            change = _change(before.median, after.median)
            if change >= self.factor and _are_apart(before.values, after.values):
                yield Sign(
                    seam.step,
                    f"The gradient norm was {before.median:.3g} before the {seam}, and is "
                    f"{after.median:.3g} after it.",
                    value=after.median / before.median,
                    threshold=self.factor,
                )


@dataclass
class RateJumpsAtResume(VitalsRule):
    """The schedule of the learning rate starts again after a resume.

    Fires when the rate is at least `factor` times higher or lower than before, changes nowhere else
    as much in that direction, and is the run's first one again, or rises in a new warm-up. A rate
    that is lowered on purpose is not reported.
    """

    kind = Kind.CAUSE
    rests_on = ("learning_rate/*",)
    is_independent = True
    explains = ("LossJumpsAtResume",)
    advice = (
        "Save scheduler.state_dict() and load it after the scheduler was made; make the scheduler "
        "before optimizer.load_state_dict, which brings the rate of the checkpoint."
    )

    factor: float = parameter(2.0, "How many times higher or lower.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        for seam in _seams(vitals):
            first, before, after = _rates_at(vitals, seam)
            if min(len(before), len(after)) < _TRAINED_ON:
                continue
            old = float(before.values[-1])
            if after.values[0] == old:  # a schedule that was made before sets it when it steps
                after = after.last(len(after) - 1)
            new = float(after.values[0])
            change = _change(old, new)
            sides = (before.values, after.values)
            usual = max(_largest_change(each, upwards=new > old) for each in sides)
            is_large = change >= self.factor and change > _OWN_CHANGE * usual
            if is_large and _starts_again(first, old, after.values):
                yield Sign(
                    seam.step,
                    f"The learning rate was {old:.3g} before the {seam}, and is {new:.3g} after "
                    "it.",
                    value=new / max(old, EPSILON),
                    threshold=self.factor,
                )


@dataclass
class OldRateBroughtBack(VitalsRule):
    """A resumed optimizer brings its decayed learning rate, and a new schedule goes down from it.

    Fires when optimizer.load_state_dict lowers the rate that the script has set at least `factor`
    times, a schedule that begins anew is stepped, none was restored, and the rate is never higher
    again. A schedule that is made with `last_epoch` goes on, and ReduceLROnPlateau has no
    beginning: these are not reported.
    """

    kind = Kind.CAUSE
    rests_on = ("learning_rate/*",)
    is_independent = True
    explains = ("LearningRateTooLow", "NothingLearnt")
    advice = (
        "Save scheduler.state_dict() and load it after the scheduler was made, so that it goes on. "
        "If the schedule is meant to begin anew, set the rate of every group after "
        "optimizer.load_state_dict, and `initial_lr` with it, before the scheduler is made."
    )

    factor: float = parameter(2.0, "How many times lower.", at_least=1)
    num_rates: int = parameter(10, "Rates that are seen after it.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        events = vitals.anatomy.checkpoints
        fresh = [each.name for each in vitals.anatomy.schedulers if _is_fresh(each)]
        is_restored = any((e.action, e.what) == ("load", "scheduler") for e in events)
        if is_restored or not fresh:
            return
        for load in events:
            if load.what != "optimizer" or len(load.rates) < 2:
                continue
            step = max(load.step + 1, vitals.anatomy.first_step)
            rates = _rates(vitals).since(step)
            own, brought = load.rates
            is_low = own >= self.factor * brought > 0 and len(rates) >= self.num_rates
            if is_low and np.max(rates.values) <= _ALIKE * brought:
                yield Sign(
                    step,
                    f"The script sets a learning rate of {own:.3g}; load_state_dict of {load.type} "
                    f"brings that of the checkpoint, {brought:.3g}, and a new {fresh[0]} starts "
                    "from it.",
                    value=brought,
                    threshold=own,
                )


@dataclass
class DataRepeatedAtResume(VitalsRule):
    """After a resume the data start from the beginning again, in the same random order.

    Fires when the first `num_batches` batches after a resume are those of the run's first steps, in
    the same order, although a sampler draws them at random.
    """

    kind = Kind.CAUSE
    rests_on = ("input/fingerprint",)
    is_independent = True
    advice = (
        "Continue where the data stopped: restore the state of the random generator or call "
        "sampler.set_epoch, and skip the batches of the epoch that were used. A seed at the top of "
        "the script gives each attempt the order of the first."
    )

    num_batches: int = parameter(5, "Batches in a row.", at_least=3)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        if not any(each.sampler == "RandomSampler" for each in vitals.anatomy.loaders):
            return
        for seam in _seams(vitals):
            before, after = _batches_at(vitals, seam)
            after = after.first(self.num_batches)
            first = _found_again(before, after) if len(after) == self.num_batches else None
            if first is not None:
                of_job = " of the job that it continues" if seam.continued else ""
                yield Sign(
                    seam.step,
                    f"The {len(after)} batches from step {seam.step} on, after the resume, are "
                    f"those from step {int(first.steps[0])} on{of_job}.",
                    value=float(len(after)),
                    threshold=float(self.num_batches),
                )


def _found_again(before: Series, after: Series) -> Series | None:
    """The first batches before the seam that are those after it. A model that is new may be called
    once before its steps are counted, so they may be found from the second on."""
    for start in (0, 1):
        first = Series(before.steps[start:], before.values[start:]).first(len(after))
        is_varied = len(set(first.values.tolist())) == len(after)
        if is_varied and first.span == after.span and bool((first.values == after.values).all()):
            return first
    return None


def _loads_of_model(vitals: VitalSigns) -> Iterator[CheckpointFacts]:
    """Of the model that is trained from there."""
    for each in vitals.anatomy.checkpoints:
        is_model = each.what == "model" and each.action == "load" and each.is_trained
        if is_model and vitals.last_step >= each.step + _TRAINED_ON:
            yield each


def _resumptions(
    vitals: VitalSigns, *, is_same_file: bool = False
) -> Iterator[tuple[CheckpointFacts, list[CheckpointFacts]]]:
    """Files that the script loads where it saves its own, to train on; and what follows them."""
    events = vitals.anatomy.checkpoints
    continued = _continued(vitals.anatomy)
    # What was saved before the first step is no checkpoint of this training.
    saved = {e.path for e in events if e.action == "save" and e.path and e.step >= 0}
    folders = {posixpath.dirname(path) for path in saved}
    for number, load in enumerate(events):
        if load.action != "load" or load.what != "file" or not load.path:
            continue
        is_own = load.path in saved or load.path.startswith(_CHECKPOINTS)
        is_own = is_own or (continued is not None and continued.path == load.path)
        is_own = is_own or (not is_same_file and posixpath.dirname(load.path) in folders)
        if is_own and vitals.last_step >= load.step + _TRAINED_ON:
            yield load, [each for each in events[number + 1 :] if each.action == "load"]


def _follows(load: CheckpointFacts, file: CheckpointFacts, anatomy: Anatomy) -> bool:
    """Whether that file is the last that was loaded before the model was given its state."""
    events = anatomy.checkpoints
    files = [e for e in events[: events.index(load)] if (e.action, e.what) == ("load", "file")]
    return bool(files) and files[-1] == file


def _uses(anatomy: Anatomy, kind: str, load: CheckpointFacts) -> bool:
    """Whether the training has such an object, without the state: one that was made before the file
    was loaded, by the same process, has it still."""
    is_new = load.step < 0 or anatomy.num_remade > 0 or len(anatomy.optimizers) > 1
    if kind == "optimizer":
        return is_new and bool(_stateful(anatomy))
    if kind == "scheduler":
        return is_new and bool(anatomy.schedulers)
    if kind == "scaler":
        return is_new and anatomy.grad_scaler is not None
    return load.step < 0


def _stateful(anatomy: Anatomy) -> str:
    """An optimizer that keeps more than its settings; "" if there is none."""
    for each in anatomy.optimizers:
        has_momentum = any(group.get("momentum") for group in each.groups)
        if each.num_steps and (each.type not in _STATELESS or has_momentum):
            return each.type
    return ""


@dataclass(frozen=True, slots=True)
class _Seam:
    """The step with which a training goes on."""

    step: int
    continued: ContinuedFacts | None = None
    """What went before, where that was another job."""

    def __str__(self) -> str:
        if self.continued is None:
            return f"resume at step {self.step}"
        return f"resume from {self.continued.path}, which an earlier job wrote,"


def _seams(vitals: VitalSigns) -> list[_Seam]:
    """Of a new attempt, of a job that continues another one, and after a file of this run, which
    was saved after its first step, was loaded into the model."""
    anatomy = vitals.anatomy
    first = anatomy.first_step
    has_before = len(vitals.vital("batch_size")) and vitals.vital("batch_size").steps[0] < first
    continued = None if has_before else _continued(anatomy)
    found = [first] if first > 0 and continued is None else []
    saves = [e for e in anatomy.checkpoints if e.action == "save" and e.step > 0]
    saved = {e.path: e.step for e in reversed(saves)}
    """The first save of each file: those after a load are written over it."""
    path = ""
    for each in anatomy.checkpoints:
        if each.action == "load" and each.what == "file":
            path = each.path
        is_other = bool(each.num_missing and each.num_unexpected)  # with another head, say
        is_model = each.action == "load" and each.what == "model" and not is_other
        is_own = is_model and path in saved and saved[path] <= each.step
        if is_own and not _is_other_stage(anatomy, each.step + 1):
            found.append(each.step + 1)
    others = [_Seam(step) for step in sorted(set(found))]
    return others if continued is None else [_Seam(first, continued), *others]


def _is_other_stage(anatomy: Anatomy, step: int) -> bool:
    """Whether something else is trained from this step on, as when a model is fine-tuned that the
    same script has pretrained: on other data, by another optimizer, or with other parts frozen."""
    sizes = {each.num_samples for each in anatomy.loaders if each.num_trained}
    ended = {each.type for each in anatomy.optimizers if each.num_steps and each.last_step < step}
    running = {each.type for each in anatomy.optimizers if each.last_step >= step}
    is_other_kind = bool(ended and running) and not ended & running
    is_frozen = any(p.ever_had_gradient and not p.requires_grad for p in anatomy.parameters)
    return len(sizes) > 1 or is_other_kind or is_frozen


def _continued(anatomy: Anatomy) -> ContinuedFacts | None:
    """The training of an earlier job, if this one goes on with it: by the same script and on the
    same data, or, where the data are unknown, by the checkpoints' own place."""
    found = anatomy.continued
    if found is None or not found.is_same_script:
        return None
    data = tuple(sorted(each.num_samples or 0 for each in anatomy.loaders if each.num_trained))
    is_known = bool(data) or found.path.startswith(_CHECKPOINTS)
    return found if is_known and data == found.data else None


def _at(vitals: VitalSigns, seam: _Seam, name: str) -> tuple[Series, Series]:
    """A vital before and after the seam."""
    series = vitals.vital(name)
    after = series.since(seam.step)
    if seam.continued is None:
        return series.where(series.steps < seam.step), after
    return _rows((seam.continued.last or {}).get(name, ())), after


def _rows(rows: Sequence[tuple[int, float]]) -> Series:
    table = np.array(rows, np.float64).reshape(len(rows), 2)
    return Series(table[:, 0].astype(int), table[:, 1])


def _losses_at(vitals: VitalSigns, seam: _Seam) -> tuple[Series, Series]:
    if seam.continued is None:
        loss = vitals.loss
        return loss.where(loss.steps < seam.step), loss.since(seam.step)
    names = [name for name in seam.continued.last or {} if name.startswith("loss_term/")]
    return _at(vitals, seam, names[0]) if names else (Series(), Series())


def _norms_at(vitals: VitalSigns, seam: _Seam) -> tuple[Series, Series]:
    unclipped = _at(vitals, seam, "gradient_norm_unclipped")
    return unclipped if all(map(len, unclipped)) else _at(vitals, seam, "gradient_norm")


def _batches_at(vitals: VitalSigns, seam: _Seam) -> tuple[Series, Series]:
    """Fingerprints from the very first on, and from the seam on."""
    prints = vitals.vital("input/fingerprint")
    if seam.continued is None:
        return prints.where(prints.steps < seam.step), prints.since(seam.step)
    first = _rows((seam.continued.first or {}).get("input/fingerprint", ()))
    return first, prints.since(seam.step)


def _rates_at(vitals: VitalSigns, seam: _Seam) -> tuple[float, Series, Series]:
    """The run's first rate, and those before and after the seam."""
    if seam.continued is not None:
        before, after = _at(vitals, seam, "learning_rate/0")
        first = _rows((seam.continued.first or {}).get("learning_rate/0", ()))
        return float(first.values[0]) if len(first) else 0.0, before, after
    rates = _rates(vitals)
    first_rate = float(rates.values[0]) if len(rates) else 0.0
    return first_rate, rates.where(rates.steps < seam.step), rates.since(seam.step)


def _are_apart(before: np.ndarray, after: np.ndarray) -> bool:
    """All of the one are above all of the other."""
    return bool(np.min(after) > np.max(before) or np.max(after) < np.min(before))


def _is_fresh(schedule: SchedulerFacts) -> bool:
    is_new = schedule.first_epoch is not None and schedule.first_epoch <= 0
    return is_new and schedule.name != "ReduceLROnPlateau"


def _rates(vitals: VitalSigns) -> Series:
    """Of the first group of each optimizer; empty if several are used at the same steps."""
    rates = vitals.series_by_name("learning_rate/")
    chosen = [series for name, series in rates.items() if name == "0" or name.endswith(".0")]
    if not chosen:
        return Series()
    steps = np.concatenate([each.steps for each in chosen])
    values = np.concatenate([each.values for each in chosen])
    order = np.argsort(steps, kind="stable")
    if len(np.unique(steps)) < len(steps):
        return Series()
    return Series(steps[order], values[order])


def _starts_again(first: float, old: float, after: np.ndarray) -> bool:
    is_first = _change(first, float(after[0])) <= _ALIKE
    is_rising = float(after[0]) < old and float(np.max(after)) > _ALIKE * float(after[0])
    return is_first or is_rising


def _change(old: float, new: float) -> float:
    return max(new / max(old, EPSILON), old / max(new, EPSILON))


def _largest_change(values: np.ndarray, *, upwards: bool) -> float:
    """Of those in one direction: a rate that decays ever faster does not rise by itself."""
    pairs = zip(values[:-1].tolist(), values[1:].tolist(), strict=True)
    return max((_change(a, b) for a, b in pairs if (b > a) is upwards), default=1.0)


def _examples(load: CheckpointFacts) -> str:
    found = []
    if load.unexpected:
        found.append(f"given was {load.unexpected[0]!r}")
    if load.missing:
        found.append(f"missing is {load.missing[0]!r}")
    return ", ".join(found)
