"""Takes values while a step is open: parameters, activations, losses, gradients.

`plan.py` decides which values. The hook owns the counters and the boundary; every
method here is called from inside it.
"""

import re
import time
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Literal

from torch import Tensor, nn

from trackside.capture.copying.backward_gradients import BackwardGradients, Came
from trackside.capture.copying.host_copy import HostCopies
from trackside.capture.copying.open_step import OpenStep
from trackside.capture.exceptions import SMDebugValueError
from trackside.capture.failures import Failures, guarded
from trackside.capture.model.module_hooks import (
    ModuleHooks,
    add_graph_listener,
    remove_graph_listener,
)
from trackside.capture.model.names import Names, loss_name
from trackside.capture.model.values import in_backward, tensors_in
from trackside.capture.modes import ModeKeys
from trackside.capture.selection.collection import Collection, CollectionManager
from trackside.capture.selection.plan import CapturePlan, Origin, Treatment
from trackside.capture.selection.type_patterns import widen_by_type
from trackside.capture.steps.watched import WatchedModel

GradientsAt = Literal["backward", "optimizer"]
"""`backward`: of each backward alone, as smdebug; `optimizer`: as the optimizer will use them,
accumulated, averaged over ranks, unscaled and clipped."""

_RAW = Treatment(raw=True, columns=(), shape=False)
_WITH_BACKWARD = (ModeKeys.TRAIN, ModeKeys.GLOBAL)


class Stepper:
    def __init__(
        self,
        failures: Failures,
        *,
        gradients_at: GradientsAt,
        keep_gradients: bool,
        takes_modules: bool = True,
        takes_gradients: bool = True,
    ) -> None:
        """Without `takes_modules`, module and loss inputs and outputs are left to callers of
        `take_all`; without `takes_gradients`, gradients to callers of `take_one`.
        """
        self.failures = failures
        self.plan: CapturePlan | None = None
        self.open: OpenStep | None = None
        self.models: dict[int, WatchedModel] = {}
        self.losses: list[tuple[nn.Module, ModuleHooks]] = []
        self._gradients_at = gradients_at
        self._take = self.take_module if takes_modules else None
        self._takes_gradients = takes_gradients
        self._loss_mask = 0
        self._is_off = False
        """Nothing is tapped, so that a step of which nothing is saved has nothing to switch."""
        self._gradients = BackwardGradients(
            failures,
            keep_all=keep_gradients,
            current=lambda: self.open,
            take=self.take_gradients,
        )
        self._copies = HostCopies()

    def add_model(self, root: nn.Module, names: Names) -> WatchedModel:
        self._is_off = False
        watched = self.models[id(root)] = WatchedModel(root, names)
        if self.plan is not None:  # a second model, after the first has run
            watched.prepare(self.plan, self._take)
            if self.open is not None:
                watched.begin(self.open.mask)
        return watched

    def add_loss(self, loss: nn.Module) -> None:
        self._is_off = False
        taps = ModuleHooks()
        if self._take is not None:
            taps.add(loss, loss_name(loss), Origin.LOSS, self._take)
        self.losses.append((loss, taps))
        if self.plan is not None:
            self._loss_mask |= self.plan.wanted_of_module(loss_name(loss), Origin.LOSS)
        taps.turn(self.open is not None and bool(self.open.mask & self._loss_mask))

    def has_loss(self, module: nn.Module) -> bool:
        return any(module is known for known, _ in self.losses)

    def prepare(self, manager: CollectionManager, included: Iterable[str]) -> CapturePlan:
        """At the first forward: collections are final, and each tensor's treatment is decided."""
        self._resolve_modules(manager.get_collections().values())
        modules = [list(watched.names.modules()) for watched in self.models.values()]
        widen_by_type(manager, included, modules)
        plan = self.plan = CapturePlan(manager.get_collections(), included)
        for problem in plan.problems:
            self.failures.report("preparing collections", problem)
        for loss, _ in self.losses:
            self._loss_mask |= plan.wanted_of_module(loss_name(loss), Origin.LOSS)
        for watched in self.models.values():
            watched.prepare(plan, self._take)
            for name, _ in watched.parameters:  # so that the file lists them from the start
                plan.members(name, Origin.PARAMETER)
        return plan

    def begin(self, root: nn.Module, step: int, mode: ModeKeys, mode_step: int) -> None:
        plan = self.plan
        assert plan is not None
        add_graph_listener(self._expect_graph)
        mask = plan.due(mode, mode_step)
        if not mask and self._is_off:
            return
        self._is_off = not mask
        for watched in self.models.values():
            watched.begin(mask)
        if self._gradients_at == "backward" and self._takes_gradients:
            self._tap_gradients(plan, mask if mode in _WITH_BACKWARD else 0)
        for _, taps in self.losses:
            taps.turn(bool(mask & self._loss_mask))
        if mask:
            self.models[id(root)].take_parameters(plan, self.start(step, mode, mode_step, mask))

    def join(self, root: nn.Module) -> None:
        """Another model in the open step."""
        if self.open is not None and self.plan is not None:
            self.models[id(root)].take_parameters(self.plan, self.open)

    def start(self, step: int, mode: ModeKeys, mode_step: int, mask: int = 0) -> OpenStep:
        self.open = OpenStep(step, mode.name, mode_step, time.time(), mask, self._copies)
        return self.open

    def finish(self) -> OpenStep | None:
        step, self.open = self.open, None
        return step

    @guarded
    def take_module(
        self,
        name: str,
        origin: Origin,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,
    ) -> None:
        if not in_backward():  # otherwise it is recomputed for a checkpoint, and was taken before
            given = tensors_in(args, kwargs) if kwargs else tensors_in(*args)
            self.take_all(f"{name}_input", origin, given)
            self.take_all(f"{name}_output", origin, tensors_in(output))

    def take_all(self, stem: str, origin: Origin, tensors: Iterable[Tensor]) -> None:
        step, plan = self.open, self.plan
        if step is None or plan is None:
            return
        for tensor in tensors:
            name = f"{stem}_{step.next_index(stem)}"
            treatment = plan.treatment(name, origin, step.mask)
            if treatment is not None:
                step.take(name, tensor, treatment)

    def take_one(self, name: str, origin: Origin, tensor: Tensor) -> None:
        """Under exactly this name, if a due collection contains it."""
        if self.open is not None and self.plan is not None:
            treatment = self.plan.treatment(name, origin, self.open.mask)
            if treatment is not None:
                self.open.take(name, tensor, treatment)

    def take_as_is(self, name: str, tensor: Tensor, collection: Collection) -> None:
        assert self.open is not None
        self.open.take(name, tensor, _RAW)
        if not collection.has_tensor_name(name):
            collection.add_tensor_name(name)
            if self.plan is not None:
                self.plan.is_changed = True

    def take_final_gradients(self) -> None:
        """Current values, if the optimizer is about to use them."""
        if self.open is not None and self.plan is not None:
            for watched in self.models.values():
                if self._gradients_at == "optimizer" or watched.has_flat_gradients:
                    watched.take_gradients(self.plan, self.open, attrgetter("grad"))

    def take_gradients(self, gradient: Came) -> None:
        """Those of one backward, of all models together."""
        if self.open is not None and self.plan is not None:
            for watched in self.models.values():
                watched.take_gradients(self.plan, self.open, gradient)

    def remove(self) -> None:
        remove_graph_listener(self._expect_graph)
        self._gradients.remove()
        for watched in self.models.values():
            watched.remove()
        for _, taps in self.losses:
            taps.remove()

    @guarded
    def _expect_graph(self, compilation: Any) -> None:
        """`torch.compile` is about to trace something: the taps must be part of it."""
        self._is_off = False
        for watched in self.models.values():
            watched.expect_graph()
        for _, taps in self.losses:
            taps.install()

    def _tap_gradients(self, plan: CapturePlan, mask: int) -> None:
        self._gradients.begin()
        for key, watched in self.models.items():
            is_wanted = not watched.has_flat_gradients and watched.wants_gradients(plan, mask)
            self._gradients.switch(key, watched.gradients if is_wanted else ())

    def _resolve_modules(self, collections: Iterable[Collection]) -> None:
        paths = {id(m): name for w in self.models.values() for name, m in w.names.modules()}
        paths |= {id(loss): loss_name(loss) for loss, _ in self.losses}
        for collection in collections:
            for module, inputs, outputs in collection.modules:
                path = paths.get(id(module))
                if path is None:
                    problem = f"{type(module).__name__} in {collection.name!r} is not registered."
                    self.failures.report("preparing collections", SMDebugValueError(problem))
                    continue
                sides = [side for side, on in (("input", inputs), ("output", outputs)) if on]
                collection.include([f"^{re.escape(path)}_{side}_" for side in sides])
