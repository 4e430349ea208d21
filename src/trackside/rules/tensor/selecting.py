"""Rules whose tensors the user names, by collection and by pattern."""

from trackside.capture.selection.type_patterns import DEFAULT_PATTERNS
from trackside.quick_dataclass import dataclass
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.parameters import InvalidParameters, Pattern, parameter
from trackside.rules.saved.evidence import Selection


@dataclass
class SelectingRule(TensorRule):
    """Subclasses judge the tensors of `selection`."""

    collection_names: tuple[str, ...] = parameter((), "Collections whose tensors are judged.")
    tensor_regex: tuple[Pattern, ...] = parameter(
        (), "Patterns of names; with collection_names, the tensors of either are judged."
    )

    @property
    def selection(self) -> Selection:
        return Selection(self.collection_names, self.tensor_regex)

    def require_selection(self) -> None:
        """For rules that make no sense for all tensors at once."""
        if not self.collection_names and not self.tensor_regex:
            raise InvalidParameters(
                [f"{self.name()} needs collection_names or tensor_regex: which tensors to judge."]
            )

    def selected(self, *reductions: str) -> tuple[Need, ...]:
        """What was selected, as needs; everything that is saved when nothing was."""
        needs = [
            Need(name, DEFAULT_PATTERNS.get(name, ""), reductions) for name in self.collection_names
        ]
        if self.tensor_regex:
            pattern = "|".join(self.tensor_regex)
            needs.append(Need(f"{self.name()}_tensors", pattern, reductions))
        return tuple(needs)
