"""The rule about exceptions that end a training."""

from collections.abc import Iterable

from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.crash_causes import explain
from trackside.rules.checkup.vitals_rule import Sign, VitalsRule
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.vital_signs import VitalSigns


@dataclass
class Crash(VitalsRule):
    """An exception of PyTorch ended the training, and its cause is known.

    Fires when the job has ended by an exception whose message is known: shapes, types or devices
    that do not fit, labels and tokens out of range, a graph that is missing or used twice, memory.
    It names the line of the script, the layer, and the shapes and values that do not fit.
    """

    kind = Kind.MISTAKE
    is_independent = True
    leaves_training_loss = True
    explains_failure = True
    advice = "Compare the shapes, types and values that the message names."

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        crash = vitals.anatomy.crash
        explained = None if crash is None else explain(crash.message, crash.calls)
        if explained is not None:
            yield Sign(
                vitals.last_step,
                explained.message,
                tensor=explained.layer,
                advice=explained.advice,
            )
