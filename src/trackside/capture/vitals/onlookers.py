"""Watches models that are called and not trained: teachers and target networks.

Whether their weights ever change is seen at calls 1, 2, 4, 8, …, by a few numbers of some
parameters.
"""

import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from trackside.capture.failures import Failures, guarded
from trackside.capture.vitals.measures import sample_parameter
from trackside.capture.vitals.script_names import script_variables

MOST = 16
_NOT_HOOKED = (
    nn.TransformerEncoder,
    nn.TransformerEncoderLayer,
    nn.MultiheadAttention,
    torch.jit.ScriptModule,
)
_FEW_PARAMETERS = 8
_MOST_NAME = 100


class Onlooker:
    """One model, as long as it is only looked at."""

    def __init__(self, root: nn.Module, *, is_copy: bool) -> None:
        known = script_variables()
        names = [name for name, value in known.items() if value is root]
        self.facts: dict[str, Any] = {
            "name": next(iter(names), "")[:_MOST_NAME],
            "type": type(root).__name__,
            "num_calls": 0,
            "num_evaluated": 0,
            "num_checked": 0,
            "is_changed": False,
            "is_copy": is_copy,
            "drops": False,
        }
        self._before: Tensor | None = None
        self._shapes = _shapes(root)
        self._first = _sample(root)

    def see_trained(self, trained: nn.Module) -> None:
        """Another model, before its first call with gradients, and so before it is updated."""
        if not self.facts["is_copy"] and _shapes(trained) == self._shapes:
            self.facts["is_copy"] = torch.equal(_sample(trained), self._first)

    def see(self, root: nn.Module) -> None:
        facts = self.facts
        facts["num_calls"] += 1
        facts["num_evaluated"] += not root.training
        count = facts["num_calls"]
        if count & (count - 1):
            return
        now = _sample(root)
        facts["is_changed"] |= self._before is not None and not torch.equal(now, self._before)
        facts["num_checked"] = count
        facts["drops"] |= any(
            isinstance(part, _DropoutNd) and part.p > 0 and part.training for part in root.modules()
        )
        self._before = now

    @torch.no_grad()
    def compare(self, root: nn.Module) -> None:
        """With the last call that was looked at: it may have changed since."""
        if self._before is not None and not self.facts["is_changed"]:
            self.facts["is_changed"] = not torch.equal(_sample(root), self._before)


class Onlookers:
    def __init__(self, failures: Failures) -> None:
        self.failures = failures
        self._seen: weakref.WeakKeyDictionary[nn.Module, Onlooker] = weakref.WeakKeyDictionary()
        self._trained: weakref.WeakKeyDictionary[nn.Module, Tensor] = weakref.WeakKeyDictionary()
        """With a few of their numbers before they were updated."""
        self._watched: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._handles: list[Any] = []

    @guarded
    def watch(self, root: nn.Module) -> None:
        """One that is not registered: its calls are seen by a hook of its own. A layer that torch
        may fuse gets none, which would change its last digits."""
        if root in self._watched or len(self._watched) >= MOST or isinstance(root, _NOT_HOOKED):
            return
        self._watched.add(root)
        self._handles.append(root.register_forward_pre_hook(self._on_call))
        self.see(root, torch.is_grad_enabled())

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _on_call(self, root: nn.Module, _: Any) -> None:
        if not torch.compiler.is_compiling():
            self.see(root, torch.is_grad_enabled())

    @guarded
    @torch.no_grad()
    def see(self, root: nn.Module, grad: bool) -> None:
        """A call of a model, before it runs."""
        if grad and any(p.requires_grad for p in root.parameters()):
            if root not in self._trained:
                self._trained[root] = _sample(root)
                for other, each in list(self._seen.items()):
                    if other is not root:
                        each.see_trained(root)
        elif root in self._seen or len(self._seen) < MOST:
            if root not in self._seen:
                self._seen[root] = Onlooker(root, is_copy=self._is_copy(root))
            self._seen[root].see(root)

    def to_json(self) -> list[dict[str, Any]]:
        """With whether each is trained as well."""
        for root, each in list(self._seen.items()):
            each.compare(root)
        return [
            each.facts | {"is_trained": root in self._trained}
            for root, each in list(self._seen.items())
        ]

    def _is_copy(self, root: nn.Module) -> bool:
        """Of one that is trained, as it is or as it was before its first update: calls are seen
        only once something is trained."""
        shapes, now = _shapes(root), _sample(root)
        return any(
            torch.equal(now, begun) or torch.equal(now, _sample(each))
            for each, begun in list(self._trained.items())
            if each is not root and _shapes(each) == shapes
        )


def _shapes(root: nn.Module) -> list[torch.Size]:
    return [p.shape for p in root.parameters()]


def _sample(root: nn.Module) -> Tensor:
    few = [p for p in root.parameters() if p.is_floating_point()][:_FEW_PARAMETERS]
    return torch.cat([sample_parameter(p).float().cpu() for p in few]) if few else torch.empty(0)
