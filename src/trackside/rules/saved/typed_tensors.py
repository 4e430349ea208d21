"""Finds tensors that a rule's default pattern should match but does not, by module type.

The hook knows the types of modules and records them as patterns of the rules' collections
(`capture/selection/type_patterns.py`); here they are looked up.
"""

from trackside.capture.selection.type_patterns import DEFAULT_PATTERNS
from trackside.quick_dataclass import dataclass
from trackside.rules.saved.evidence import Evidence, Selection


@dataclass(frozen=True, slots=True)
class Meant:
    names: tuple[str, ...]
    note: str = ""
    """For the finding: how they were found, if not by name."""


def meant_by(evidence: Evidence, pattern: str, collection: str) -> Meant:
    """By name; if the pattern is the default and matches nothing, by module type."""
    names = evidence.names(Selection(patterns=(pattern,)))
    if names or pattern != DEFAULT_PATTERNS[collection]:
        return Meant(names)
    by_type = evidence.names(Selection((collection,)))
    return Meant(by_type, f" (Found by module type: no saved name matches {pattern!r}.)")
