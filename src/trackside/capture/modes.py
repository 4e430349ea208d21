"""The modes of a step. Light on purpose: no numpy, no torch."""

from enum import Enum


class ModeKeys(Enum):
    """Names and numbers are smdebug's; GLOBAL means any mode in queries."""

    TRAIN = 1
    EVAL = 2
    PREDICT = 3
    GLOBAL = 4

    __hash__ = object.__hash__  # by identity, as they compare; Enum's own is many times slower


modes = ModeKeys
"""The spelling scripts use: `modes.TRAIN`."""

TRAIN, EVAL, PREDICT, GLOBAL = ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT, ModeKeys.GLOBAL
# So that the module may be used like the class: `from trackside.capture import modes`.
