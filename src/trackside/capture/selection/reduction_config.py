"""Which reductions of a tensor are saved, instead of or in addition to its values.

Constructor, errors and JSON are smdebug's, with `median` and the spellings `l1`, `abs_l1` added.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from trackside.capture.exceptions import SMDebugValueError

REDUCTIONS = ("min", "max", "mean", "std", "variance", "sum", "prod", "median")
NORMS = ("l1", "l2")


class ReductionConfig:
    def __init__(
        self,
        reductions: Iterable[str] | None = None,
        abs_reductions: Iterable[str] | None = None,
        norms: Iterable[str] | None = None,
        abs_norms: Iterable[str] | None = None,
        save_raw_tensor: bool = False,
        save_shape: bool = False,
    ) -> None:
        self.reductions = _checked("reductions", reductions, REDUCTIONS)
        self.abs_reductions = _checked("abs_reductions", abs_reductions, REDUCTIONS)
        self.norms = _checked("norms", norms, NORMS)
        self.abs_norms = _checked("abs_norms", abs_norms, NORMS)
        self.save_raw_tensor = _flag("save_raw_tensor", save_raw_tensor)
        self.save_shape = _flag("save_shape", save_shape)

    @property
    def columns(self) -> tuple[str, ...]:
        """The reductions under their stored names: "min", "l2", "abs_mean", "abs_l1"."""
        plain = [*self.reductions, *self.norms]
        absolute = [f"abs_{name}" for name in [*self.abs_reductions, *self.abs_norms]]
        return tuple(dict.fromkeys([*plain, *absolute]))

    def to_json_dict(self) -> dict[str, Any]:
        spelled = [
            *self.reductions,
            *(f"{norm}_norm" for norm in self.norms),
            *(f"abs_{name}" for name in self.abs_reductions),
            *(f"abs_{norm}_norm" for norm in self.abs_norms),
        ]
        return {
            "save_raw_tensor": self.save_raw_tensor,
            "reductions": ",".join(spelled),
            "save_shape": self.save_shape,
        }

    def to_json(self) -> str:
        return json.dumps(self.to_json_dict())

    @classmethod
    def from_dict(cls, params: Mapping[str, Any] | None) -> "ReductionConfig | None":
        """`reductions` as one comma list; the two flags as booleans or as the API's strings."""
        if params is None:
            return None
        if not isinstance(params, Mapping):
            raise SMDebugValueError(f"{params!r} is not a dict of reduction settings.")
        found: dict[tuple[bool, bool], list[str]] = {
            (absolute, norm): [] for absolute in (False, True) for norm in (False, True)
        }
        for word in str(params.get("reductions") or "").split(","):
            if not (word := word.strip()):
                continue
            absolute = word.startswith("abs_")
            name = word.removeprefix("abs_").removesuffix("_norm")
            if name not in (*REDUCTIONS, *NORMS) or (name in REDUCTIONS and "_norm" in word):
                raise SMDebugValueError(
                    f"Unknown reduction {word!r}. Known: {', '.join(REDUCTIONS)}, l1_norm, "
                    "l2_norm, and each of them with abs_ in front."
                )
            found[absolute, name in NORMS].append(name)
        return cls(
            reductions=found[False, False],
            abs_reductions=found[True, False],
            norms=found[False, True],
            abs_norms=found[True, True],
            save_raw_tensor=parse_flag("save_raw_tensor", params.get("save_raw_tensor", False)),
            save_shape=parse_flag("save_shape", params.get("save_shape", False)),
        )

    @classmethod
    def from_json(cls, json_str: str) -> "ReductionConfig | None":
        return cls.from_dict(json.loads(json_str))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReductionConfig):
            return NotImplemented
        return vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # mutable, as smdebug's

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={value!r}" for key, value in vars(self).items())
        return f"ReductionConfig({shown})"


def parse_flag(name: str, value: object) -> bool:
    """JSON's booleans, and strings, which are all the API can carry."""
    known: dict[object, bool] = {"True": True, "true": True, "False": False, "false": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip() in known:
        return known[value.strip()]
    raise SMDebugValueError(f"{name} = {value!r} is neither true nor false.")


def _checked(name: str, given: Iterable[str] | None, known: tuple[str, ...]) -> list[str]:
    names = list(given) if given is not None else []
    unknown = [each for each in names if each not in known]
    if isinstance(given, str) or unknown:
        raise SMDebugValueError(f"Unknown {name} {unknown or given!r}. Known: {', '.join(known)}.")
    return names


def _flag(name: str, value: bool) -> bool:
    if not isinstance(value, bool):
        raise SMDebugValueError(f"{name}={value!r} is not a boolean.")
    return value
