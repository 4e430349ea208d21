"""Records facts about each computed loss for vitals."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from types import CodeType, FrameType
from typing import Any

from torch import Tensor
from torch.nn import functional
from torch.nn.modules.loss import _Loss

from trackside.capture.model.functional_losses import caller_in, listen, stop_listening
from trackside.capture.model.module_hooks import Switch
from trackside.capture.model.values import readable

OVER_CLASSES = ("cross_entropy", "nll_loss")
BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
ELEMENTWISE = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div")
ALIGNING = "ctc_loss"
_ARGUMENTS = {
    name: signature(getattr(functional, name))
    for name in (*OVER_CLASSES, *BINARY, *ELEMENTWISE, ALIGNING)
}
_VIEWS = ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0")


@dataclass(frozen=True, slots=True)
class LossCall:
    function: str
    module: str | None
    """Class of the loss module that called it; None if the script did."""
    prediction: Tensor
    target: Tensor
    ignored: int
    reduction: str
    value: Tensor | None
    """The loss itself; None if it is not a single number."""
    is_target_trained: bool = False
    """Whether the target is also computed by a model that gradients flow back to."""
    is_inside: bool = False
    """Whether the model that started the step computes it, and so is given the targets."""
    flattened: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """Shapes from which rows of scores and the row of targets were made; None if unknown."""
    bend: float = 1.0
    """The error at which a smooth loss changes from squared to absolute: its beta or delta."""
    weights: Tensor | None = None
    """Of its classes; of a binary loss, that of the positive one."""
    smoothing: float = 0.0
    """Of its labels."""
    graphs: tuple[Any, Any] | None = None
    """Of the prediction and of the target, where gradients flow back to both."""


class LossCalls:
    """Listens while installed, and reads arguments while the switch is on."""

    def __init__(self, switch: Switch, take: Callable[[LossCall], None]) -> None:
        self.forward: CodeType | None = None
        """That of the model that began the step."""
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
        first, second = list(given.values())[:2]  # however the function calls them
        prediction, target = _tensor(first), _tensor(second)
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
                is_target_trained=bool(second.requires_grad),
                is_inside=_is_below(frame, self.forward),
                flattened=_flattened(first, second),
                bend=float(given.get("beta", given.get("delta", 1.0))),
                weights=_tensor(given.get("weight" if name in OVER_CLASSES else "pos_weight")),
                smoothing=float(given.get("label_smoothing", 0.0)),
                graphs=_graphs(first, second),
            )
        )


def _is_below(frame: FrameType | None, code: CodeType | None) -> bool:
    while frame is not None and code is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False


def _flattened(scores: Tensor, target: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    node, base = scores.grad_fn, target._base
    if scores.dim() != 2 or target.dim() != 1 or node is None or base is None:
        return None
    below = node.next_functions[0][0] if node.name() in _VIEWS else None
    metadata: Any = getattr(below, "_input_metadata", ())
    return (tuple(metadata[0].shape), tuple(base.shape)) if metadata else None


def _graphs(prediction: Tensor, target: Tensor) -> tuple[Any, Any] | None:
    both = (prediction.grad_fn, target.grad_fn)
    return None if None in both else both


def _tensor(value: Any) -> Tensor | None:
    return readable(value.detach()) if isinstance(value, Tensor) else None
