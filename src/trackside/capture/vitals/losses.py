"""What vitals want to know of a loss that is computed."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from types import FrameType
from typing import Any

from torch import Tensor
from torch.nn import functional
from torch.nn.modules.loss import _Loss

from trackside.capture.model.functional_losses import caller_in, listen, stop_listening
from trackside.capture.model.taps import Switch
from trackside.capture.model.values import readable

OVER_CLASSES = ("cross_entropy", "nll_loss")
BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
ELEMENTWISE = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div")
_ARGUMENTS = {
    name: signature(getattr(functional, name)) for name in (*OVER_CLASSES, *BINARY, *ELEMENTWISE)
}


@dataclass(frozen=True, slots=True)
class LossCall:
    function: str
    module: str | None
    """Class of the loss module that called it; None when the script did."""
    prediction: Tensor
    target: Tensor
    ignored: int
    reduction: str
    value: Tensor | None
    """The loss itself; None when it is no single number."""
    is_target_trained: bool = False
    """Whether the target, too, is a model's work that gradients go back to."""
    bend: float = 1.0
    """The error at which a smooth loss turns from squared to absolute: its beta or delta."""


class LossCalls:
    """Listens while installed, and looks at arguments while the switch is on."""

    def __init__(self, switch: Switch, take: Callable[[LossCall], None]) -> None:
        self._switch = switch
        self._take = take

    def install(self) -> None:
        listen(self._on_call)

    def remove(self) -> None:
        stop_listening(self._on_call)

    def _on_call(self, name: str, args: Any, kwargs: Any, frame: FrameType, result: Any) -> None:
        if not self._switch.on or name not in _ARGUMENTS:
            return
        given = _ARGUMENTS[name].bind(*args, **kwargs).arguments
        prediction, target = _tensor(given["input"]), _tensor(given["target"])
        if prediction is None or target is None or not prediction.numel():
            return
        caller = caller_in(frame)
        self._take(
            LossCall(
                function=name,
                module=type(caller).__name__ if isinstance(caller, _Loss) else None,
                prediction=prediction,
                target=target,
                ignored=int(given.get("ignore_index", -100)),
                reduction=str(given.get("reduction", "mean")),
                value=_tensor(result) if getattr(result, "ndim", -1) == 0 else None,
                is_target_trained=bool(given["target"].requires_grad),
                bend=float(given.get("beta", given.get("delta", 1.0))),
            )
        )


def _tensor(value: Any) -> Tensor | None:
    return readable(value.detach()) if isinstance(value, Tensor) else None
