"""What a finding of a rule says about the training, by which `checkup/diagnosis` ranks it."""

from enum import Enum


class Kind(Enum):
    MISTAKE = "mistake"
    """Something the code does, observed directly: hardly anything else has the same effect."""
    CAUSE = "cause"
    """Inferred from figures."""
    OUTCOME = "outcome"
    """A consequence of one of the above. Alone, it is all that is known."""
    MACHINE = "machine"
    """Costs time, and does not change what is learnt."""
    SYMPTOM = "symptom"
    """Found by a limit that the user chose, as a consequence of any of the first three."""
    OTHER = "other"
    """Found by a limit that the user chose, with a cause of its own."""
