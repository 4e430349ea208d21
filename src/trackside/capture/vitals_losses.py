"""Sees the calls of `torch.nn.functional`'s losses, by scripts and by torch's own loss modules."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.modules.loss import _Loss

from trackside.capture.taps import Switch
from trackside.capture.values import readable

OVER_CLASSES = ("cross_entropy", "nll_loss")
BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
_OTHERS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "gaussian_nll_loss")


@dataclass(frozen=True, slots=True)
class LossCall:
    function: str
    module: str | None
    """Class of the loss module that called it; None when the script did."""
    prediction: Tensor
    target: Tensor
    ignored: int
    reduction: str


class LossCalls:
    """Wraps the functions while installed; looks at their arguments while the switch is on."""

    def __init__(self, switch: Switch, take: Callable[[LossCall], None]) -> None:
        self._switch = switch
        self._take = take
        self._originals: list[tuple[str, Any, Any]] = []

    def install(self) -> None:
        for name in (*OVER_CLASSES, *BINARY, *_OTHERS):
            original = getattr(functional, name)
            wrapped = self._wrapped(name, original)
            self._originals.append((name, original, wrapped))
            setattr(functional, name, wrapped)

    def remove(self) -> None:
        for name, original, wrapped in self._originals:
            if getattr(functional, name) is wrapped:  # else somebody has wrapped it again
                setattr(functional, name, original)
        self._originals = []

    def _wrapped(self, name: str, original: Any) -> Any:
        switch, look = self._switch, self._look
        parameters = signature(original)

        @wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():  # asked first: a graph then knows of no switch
                return original(*args, **kwargs)
            result = original(*args, **kwargs)
            if switch.on:
                look(name, parameters, args, kwargs, sys._getframe(1).f_locals.get("self"))
            return result

        return call

    def _look(self, name: str, parameters: Any, args: Any, kwargs: Any, caller: Any) -> None:
        try:
            given = parameters.bind(*args, **kwargs).arguments
            prediction, target = _tensor(given["input"]), _tensor(given["target"])
        except (KeyError, TypeError):
            return
        if prediction is None or target is None or not prediction.numel():
            return
        self._take(
            LossCall(
                function=name,
                module=type(caller).__name__ if isinstance(caller, _Loss) else None,
                prediction=prediction,
                target=target,
                ignored=int(given.get("ignore_index", -100)),
                reduction=str(given.get("reduction", "mean")),
            )
        )


def _tensor(value: Any) -> Tensor | None:
    return readable(value.detach()) if isinstance(value, Tensor) else None
