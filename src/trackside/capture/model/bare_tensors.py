"""Stands in for a model: the tensors that a script trains without one."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

_MOST_NODES = 100_000
_LEAF = "torch::autograd::AccumulateGrad"


class BareTensors(nn.Module):
    """Tensors that optimizers hold, named by their positions there, and others that get gradients.

    It is never called, and none of them becomes its parameter: it only names them.
    """

    def __init__(
        self, optimizers: Iterable[Optimizer], leaves: Sequence[Tensor], *, without: set[int]
    ) -> None:
        super().__init__()
        self._named: dict[int, tuple[str, Tensor]] = {}
        for number, optimizer in enumerate(optimizers):
            stem = "optimizer" if number == 0 else f"optimizer{number}"
            for group, settings in enumerate(optimizer.param_groups):
                for index, tensor in enumerate(settings["params"]):
                    if id(tensor) not in without:
                        name = f"{stem}.group{group}.param{index}"
                        self._named.setdefault(id(tensor), (name, tensor))
        left_out = [leaf for leaf in leaves if id(leaf) not in self._named]
        self.is_optimized = len(left_out) < len(leaves)
        """Whether an optimizer holds any of the leaves."""
        self._named |= {id(t): (f"tensor{n}", t) for n, t in enumerate(left_out)}

    def named_parameters(self, *_: Any, **__: Any) -> Iterator[tuple[str, Any]]:
        yield from self._named.values()


def leaves_of(loss: Any) -> list[Tensor]:
    """The leaf tensors of the graph, which a backward would give gradients to."""
    start = getattr(loss, "grad_fn", None)
    waiting, seen = [start] if start is not None else [], {start}
    leaves: list[Tensor] = []
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if node.name() == _LEAF:
            leaves.append(node.variable)
        for arm, _ in node.next_functions:
            if arm is not None and arm not in seen:
                seen.add(arm)
                waiting.append(arm)
    return leaves
