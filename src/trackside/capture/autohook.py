"""Watches scripts without any capture code. Armed by `site/sitecustomize.py`, before torch.

No part of torch is imported here, and nothing happens until the script imports it; the hook is
created when a model is first called for training. docs/capture.md describes how to enable it.
"""

import logging
import sys
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from trackside.capture import other_frameworks
from trackside.capture.bare_training import BareTraining
from trackside.capture.environment import CaptureEnvironment
from trackside.capture.hangs.early import watch_from_start
from trackside.capture.model import functional_losses, script_calls

_QUIET_STEPS = 20
"""Training steps without a new model after which module calls are no longer watched, until an
optimizer makes its first step."""

_FRAMES_TO_CALL = 6
"""From a hook for all modules up to the call of the module."""

logger = logging.getLogger(__name__)


def arm() -> None:
    """Wait for torch, if the environment enables capture and there is a configuration."""
    environment = CaptureEnvironment.load()
    if environment.audit_plan is not None:
        sys.meta_path.insert(0, _AfterTorch(partial(_audit, environment.audit_plan)))
        return
    if not (environment.auto and environment.enabled and environment.hook_config.is_file()):
        return
    other_frameworks.report_at_exit(environment)
    if "torch" in sys.modules:
        discover()
    else:
        sys.meta_path.insert(0, _AfterTorch(discover))


def _audit(plan: Path) -> None:
    from trackside.capture.checkpoints.audit_recorder import install  # imports torch

    install(plan)


def discover() -> None:
    """Watch every module call until the models are known, then only theirs."""
    # These import torch.
    from trackside.capture.checkpoints import checkpoint_watch
    from trackside.capture.model.loader_watch import note_made
    from trackside.capture.model.replicas import note_wrapped

    watch_from_start(CaptureEnvironment.load())
    functional_losses.install()
    script_calls.install()
    note_made()
    note_wrapped()
    checkpoint_watch.install()
    Discovery().install()


class Discovery:
    """Finds outermost modules in training, creates the hook, and registers them.

    A module in evaluation mode counts as training if an optimizer changes it: then it is registered
    at its next call.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._hook: Any = None
        self._seen: set[int] = set()
        self._parts: set[int] = set()
        """Modules that were called within others, since there is a hook, which knows them."""
        self._evaluated: dict[int, Any] = {}
        """Called with gradients enabled, in evaluation mode: models by their identity."""
        self._frozen: dict[int, Any] = {}
        """In training mode, with nothing that requires a gradient: models by their identity."""
        self._trained: set[int] = set()
        """Those of them that an optimizer has changed."""
        self._num_early: Counter[int] = Counter()
        """Calls of models in evaluation mode before any training, by their identity."""
        self._optimizers: dict[int, Any] = {}
        """Those that have made a step, weakly, by their identity."""
        self._quiet_since = -1
        self._handles: list[Any] = []
        self._updates: Any = None
        self._bare = BareTraining(self._make_hook)
        self._is_compiling: Callable[[], bool] = bool
        self._compiling: Any = None
        """Wraps `Module.compile`."""

    def install(self) -> None:
        from trackside.capture.model.function_patches import FunctionPatch  # imports torch

        torch = sys.modules["torch"]
        compiling, tracing = torch.compiler.is_compiling, torch.jit.is_tracing
        self._is_compiling = lambda: compiling() or tracing()
        self._compiling = FunctionPatch()
        self._compiling.wrap(torch.nn.Module, "compile", after=self._on_compiled)
        optimizer = sys.modules["torch.optim.optimizer"]
        self._updates = optimizer.register_optimizer_step_post_hook(self._on_update)
        self._watch_calls()
        self._bare.install()
        # torch.compile warns about any global hook; ours are removed after a few steps.
        warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are")

    def remove(self) -> None:
        self._rest()
        self._updates.remove()
        self._compiling.undo()
        self._bare.remove()

    def _watch_calls(self) -> None:
        module = sys.modules["torch"].nn.modules.module
        self._depth = 0
        self._handles = [
            module.register_module_forward_pre_hook(self._on_call),
            module.register_module_forward_hook(self._on_return, always_call=True),
        ]

    def _rest(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._evaluated.clear()
        self._frozen.clear()

    def _on_compiled(self, _: Any, module: Any, *__: Any, **___: Any) -> None:
        """A module compiled in place is called as a graph, which has no hooks of ours: they would
        break it, and one that must be whole would fail. So its calls are seen around the graph."""
        compiled, is_compiling = module._compiled_call_impl, self._is_compiling

        def call(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not self._handles:
                return compiled(*args, **kwargs)
            self._on_call(module, args, kwargs)
            try:
                return compiled(*args, **kwargs)
            finally:
                self._on_return(module, args, None)

        module._compiled_call_impl = call

    def _on_call(self, module: Any, args: Any, keywords: dict[str, Any] | None = None) -> None:
        if self._is_compiling():
            return
        self._depth += 1
        if id(module) in self._seen:
            if self._depth == 1 and self._hook is not None:
                self._give_up_when_quiet()
            return
        if self._depth > 1 and id(module) in self._parts:
            return
        if sys.modules["torch"]._C._current_graph_task_id() != -1:
            return  # checkpointing runs a part again, in backward
        try:
            self._inspect(module, args, keywords)
        except Exception as error:
            logger.warning("Capture could not be set up; training continues.", exc_info=True)
            other_frameworks.report_failure(error)
            self.remove()

    def _on_return(self, module: Any, args: Any, output: Any) -> None:
        if self._is_compiling():
            return
        self._depth = max(0, self._depth - 1)

    def _on_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        known = self._optimizers.get(id(optimizer))
        if known is None or known() is not optimizer:
            self._optimizers[id(optimizer)] = weakref.ref(optimizer)
            if self._hook is not None and not self._handles:  # one for another model, perhaps
                self._quiet_since = self._hook.step
                self._watch_calls()
        self._thaw(optimizer)
        if not self._evaluated:
            return
        changed = {
            id(parameter)
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        }
        for key, module in list(self._evaluated.items()):
            if any(id(parameter) in changed for parameter in module.parameters()):
                self._trained.add(key)
                del self._evaluated[key]

    def _thaw(self, optimizer: Any) -> None:
        """One that is frozen as a whole was meant to train, if an optimizer holds any of it."""
        if not self._frozen:
            return
        held = {id(each) for group in optimizer.param_groups for each in group["params"]}
        for key, module in list(self._frozen.items()):
            if any(id(parameter) in held for parameter in module.parameters()):
                self._trained.add(key)
                del self._frozen[key]

    def _inspect(self, module: Any, args: Any, keywords: dict[str, Any] | None) -> None:
        torch = sys.modules["torch"]
        if isinstance(module, torch.nn.modules.loss._Loss):
            if self._depth == 1 and self._hook is not None and not _is_of_torch(module):
                self._seen.add(id(module))
                self._hook.register_loss(module)
            return
        if self._depth != 1:  # most calls: whether a part may train does not matter
            if self._hook is not None:
                self._hook.note_part(module)
                self._parts.add(id(module))
            return
        is_frozen = id(module) not in self._trained and not _may_train(module)
        if is_frozen and module.training:
            self._frozen[id(module)] = module
        if not torch.is_grad_enabled() or is_frozen:
            if any(True for _ in module.parameters()):
                self._bare.see_module(module)
                self._see_untrained(module)
            return
        if not module.training and id(module) not in self._trained:
            self._evaluated[id(module)] = module
            self._bare.see_module(module)
            return
        self._watch(module, args, _keywords(module) if keywords is None else keywords)

    def _see_untrained(self, module: Any) -> None:
        """A model that is called beside those in training, or before any training."""
        if self._hook is not None:
            self._hook.note_onlooker(module)
        elif not module.training:
            self._num_early[id(module)] += 1

    def _watch(self, module: Any, args: Any, keywords: dict[str, Any]) -> None:
        """A model that trains, at a call of it."""
        self._evaluated.pop(id(module), None)
        self._seen.add(id(module))
        if self._hook is None:
            self._bare.remove()  # before the hook wraps the same functions
            if self._make_hook() is None:  # the script created its own
                self.remove()
                return
        self._quiet_since = self._hook.step
        if self._hook.watches_part_of(module):
            return  # one that was trained before, say, whose calls are steps
        self._hook.register_module(module)
        self._hook.note_early_evaluation(self._num_early.pop(id(module), 0))
        self._hook.begin(module, (args, keywords))  # its call is already running

    def _make_hook(self) -> Any:
        self._hook = _make_hook()
        return self._hook

    def _give_up_when_quiet(self) -> None:
        if self._hook.step - self._quiet_since > _QUIET_STEPS:
            self._rest()


def _keywords(module: Any) -> dict[str, Any]:
    """Of the call that is running: hooks for all modules are given positional arguments only."""
    frame = sys._getframe(1)
    for _ in range(_FRAMES_TO_CALL):
        if frame.f_back is None:
            break
        frame = frame.f_back
        if frame.f_code.co_name == "_call_impl" and frame.f_locals.get("self") is module:
            return dict(frame.f_locals.get("kwargs", {}))
    return {}


def _is_of_torch(loss: Any) -> bool:
    """The hook recognises those by the function they call."""
    return type(loss).__module__.startswith("torch.")


def _may_train(module: Any) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())


def _make_hook() -> Any:
    # Not before a model trains: this loads most of torch.
    from trackside.capture.hook import Hook, get_hook
    from trackside.capture.selection.configuration import read_configuration

    if get_hook() is not None:
        return None
    environment = CaptureEnvironment.load()
    configuration = read_configuration(environment.hook_config, environment)
    hook = Hook.create_from_configuration(configuration, gradients_at="optimizer")
    hook.follow_training(loss_modules=True)
    return hook


class _AfterTorch(MetaPathFinder):
    """Ignores all imports but torch's, and torch's after the first time."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Then(spec.loader, self._then)
                return spec
        return None


class _Then(Loader):
    def __init__(self, loader: Loader, then: Callable[[], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            self._then()
        except Exception as error:
            logger.warning("Capture could not be set up; training continues.", exc_info=True)
            other_frameworks.report_failure(error)
