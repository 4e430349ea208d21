"""Rules that join what the script's text says with what was seen when it ran."""

from collections.abc import Iterable

from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.reading_results import remarks, sign
from trackside.rules.checkup.vitals_rule import HALVED, Sign, VitalsRule
from trackside.rules.parameters import parameter
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import FAIR_STEPS, VitalSigns


@dataclass
class LabelsShuffledApart(VitalsRule):
    """Samples and labels are shuffled separately, and nothing is learnt.

    Fires at the end when the script shuffles the two one after the other, each in an order of its
    own, and uses them together, and the loss stays at the level of chance; or when its collate
    function sorts one of them by itself, or its loop reads rows by the place of the batch while the
    loader shuffles, and the loss has not fallen to half. Fires as well when the nodes of a graph
    are put into another order, and the edges keep the old numbers.
    """

    kind = Kind.CAUSE
    explains = ("NothingLearnt", "LearningRateTooLow", "Overfitting")
    advice = "Draw one order for both: order = rng.permutation(n); x, y = x[order], y[order]."

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        is_poor = vitals.is_all and vitals.last_step >= FAIR_STEPS and vitals.fall < HALVED
        for remark in remarks(vitals, self):
            is_sorted = "sorted by itself" in remark.message
            is_by_place = "by the place of the batch" in remark.message
            is_of_graph = "old numbers" in remark.message and vitals.num_updates > 0
            if is_of_graph or vitals.is_stuck or ((is_sorted or is_by_place) and is_poor):
                yield sign(remark, f"The loss is at {vitals.late_loss:.3g}.")


@dataclass
class FreezeNeverCalled(VitalsRule):
    """A model is told to be frozen in part, and all of it is trained.

    Fires when a method of the model that freezes is never called in the script, although an
    argument asks for it, and after `num_steps` optimizer steps every parameter is trained.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    advice = (
        "Call the method where the model is made, before the optimizer, and again after anything "
        "that sets requires_grad back. Print which parameters require a gradient."
    )

    num_steps: int = parameter(10, "Optimizer steps before the rule may fire.", at_least=1)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        every = vitals.anatomy.parameters
        if vitals.num_updates >= self.num_steps and all(each.is_trained for each in every):
            for remark in remarks(vitals, self):
                yield sign(remark, f"All {len(every)} parameters are trained.")


@dataclass
class WorkersSeededAlike(VitalsRule):
    """The loader's workers draw the same random numbers in every epoch.

    Fires when the script's worker_init_fn seeds by a constant, or by the worker's number alone,
    other code of the script draws from the same generator, and batches of training came from
    workers in at least `num_passes` passes.
    """

    kind = Kind.CAUSE
    leaves_training_loss = True
    explains = ("RepeatedBatches", "Overfitting")
    advice = (
        "Seed by torch.initial_seed() % 2**32 in worker_init_fn: it differs by worker and by "
        "epoch. torch seeds numpy and random in its workers by itself."
    )

    num_passes: int = parameter(2, "Passes over the data.", at_least=2)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        loaders = [each for each in vitals.anatomy.loaders if each.num_workers and each.num_trained]
        passes = max((each.num_passes for each in loaders), default=0)
        if passes >= self.num_passes:
            for remark in remarks(vitals, self):
                yield sign(remark, f"There were {passes} passes over the data.")
