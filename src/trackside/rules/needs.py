"""What a rule wants saved. Without numpy and the rules themselves: a command that starts a job
reads the needs of rules from the catalog."""

from typing import TYPE_CHECKING

from trackside.quick_dataclass import dataclass

if TYPE_CHECKING:
    from trackside.rules.saved.evidence import Selection


@dataclass(frozen=True, slots=True)
class Need:
    """Tensors a rule wants saved: a collection, and what of it."""

    collection: str
    include_regex: str = ""
    """For a collection that is not one of the hook's own."""
    reductions: tuple[str, ...] = ()
    """The stored figures that are enough ("abs_mean"); none: the values themselves."""
    save_interval: int = 500
    is_optional: bool = False
    """The rule sees more with it, and works without."""

    @property
    def selection(self) -> "Selection":
        from trackside.rules.saved.evidence import Selection  # imports numpy

        if self.include_regex:
            return Selection((self.collection,), (self.include_regex,))
        return Selection((self.collection,))
