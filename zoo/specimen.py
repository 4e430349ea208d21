"""The scripts of the zoo, and the findings that their headers expect."""

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
_CONSTANTS = re.compile(r"^SEED, WIDTH, LR = (.+), (.+), (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Variant:
    """The same mistake in another run: what the constants of a script are multiplied by."""

    seed: int | None = None
    width: float = 1.0
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class Specimen:
    path: Path

    @property
    def key(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def is_healthy(self) -> bool:
        return self.path.parent.name == "healthy"

    @property
    def causes(self) -> tuple[str, ...]:
        """Any of these is the right one."""
        return tuple(part.strip() for part in self._field("cause").split(",") if part.strip())

    @property
    def looks_like(self) -> tuple[str, ...]:
        """The rules that a healthy one gives a reason to report something, and that must not."""
        return tuple(part.strip() for part in self._field("looks like").split(",") if part.strip())

    @property
    def where(self) -> str:
        """A pattern that the named layer or tensor must have."""
        return self._field("where") or ".*"

    @property
    def begins(self) -> tuple[int, int]:
        """The step at which it goes wrong: the first and the last one it may be."""
        first, _, last = (self._field("step") or "0").partition("-")
        return int(first), int(last or first)

    def source(self, variant: Variant) -> str:
        text = self.path.read_text()
        found = _CONSTANTS.search(text)
        assert found, f"{self.path} has no line SEED, WIDTH, LR"
        seed = found[1] if variant.seed is None else variant.seed
        width = max(2, round(int(found[2]) * variant.width))
        return text.replace(
            found[0], f"SEED, WIDTH, LR = {seed}, {width}, {float(found[3]) * variant.rate}"
        )

    def _field(self, name: str) -> str:
        found = re.search(rf"^{name}: (.+)$", self.path.read_text(), re.MULTILINE)
        return found[1] if found else ""


def specimens() -> list[Specimen]:
    return [Specimen(path) for path in sorted(HERE.glob("*/*.py"))]
