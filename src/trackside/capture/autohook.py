"""Watches scripts without any capture code. Armed by `site/sitecustomize.py`, before torch.

No part of torch is imported here, and nothing happens until the script imports it; the hook is
created when a model is first called for training. docs/capture.md describes how to enable it.
"""

import logging
import sys
import warnings
import weakref
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from trackside.capture import other_frameworks
from trackside.capture.bare_training import BareTraining
from trackside.capture.environment import CaptureEnvironment
from trackside.capture.model import functional_losses

_QUIET_STEPS = 20
"""Training steps without a new model after which module calls are no longer watched, until an
optimizer makes its first step."""

logger = logging.getLogger(__name__)


def arm() -> None:
    """Wait for torch, if the environment enables capture and there is a configuration."""
    environment = CaptureEnvironment.load()
    if not (environment.auto and environment.enabled and environment.hook_config.is_file()):
        return
    other_frameworks.report_at_exit(environment)
    if "torch" in sys.modules:
        discover()
    else:
        sys.meta_path.insert(0, _AfterTorch())


def discover() -> None:
    """Watch every module call until the models are known, then only theirs."""
    from trackside.capture.model.loader_watch import note_made  # imports torch

    functional_losses.install()
    note_made()
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
        self._evaluated: dict[int, Any] = {}
        """Called with gradients enabled, in evaluation mode: models by their identity."""
        self._trained: set[int] = set()
        """Those of them that an optimizer has changed."""
        self._optimizers: dict[int, Any] = {}
        """Those that have made a step, weakly, by their identity."""
        self._quiet_since = -1
        self._handles: list[Any] = []
        self._updates: Any = None
        self._bare = BareTraining(self._make_hook)

    def install(self) -> None:
        optimizer = sys.modules["torch.optim.optimizer"]
        self._updates = optimizer.register_optimizer_step_post_hook(self._on_update)
        self._watch_calls()
        self._bare.install()
        # torch.compile warns about any global hook; ours are removed after a few steps.
        warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are")

    def remove(self) -> None:
        self._rest()
        self._updates.remove()
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

    def _on_call(self, module: Any, args: Any) -> None:
        self._depth += 1
        if id(module) in self._seen:
            if self._depth == 1 and self._hook is not None:
                self._give_up_when_quiet()
            return
        try:
            self._inspect(module, args)
        except Exception as error:
            logger.warning("Capture could not be set up; training continues.", exc_info=True)
            other_frameworks.report_failure(error)
            self.remove()

    def _on_return(self, module: Any, args: Any, output: Any) -> None:
        self._depth = max(0, self._depth - 1)

    def _on_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        known = self._optimizers.get(id(optimizer))
        if known is None or known() is not optimizer:
            self._optimizers[id(optimizer)] = weakref.ref(optimizer)
            if self._hook is not None and not self._handles:  # one for another model, perhaps
                self._quiet_since = self._hook.step
                self._watch_calls()
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

    def _inspect(self, module: Any, args: Any) -> None:
        torch = sys.modules["torch"]
        if isinstance(module, torch.nn.modules.loss._Loss):
            if self._depth == 1 and self._hook is not None and not _is_of_torch(module):
                self._seen.add(id(module))
                self._hook.register_loss(module)
            return
        if self._depth != 1 or not torch.is_grad_enabled() or not _may_train(module):
            if self._depth > 1 and self._hook is not None:
                self._hook.note_part(module)
            elif self._depth == 1 and any(True for _ in module.parameters()):
                self._bare.see_module(module)
            return
        if not module.training and id(module) not in self._trained:
            self._evaluated[id(module)] = module
            self._bare.see_module(module)
            return
        self._evaluated.pop(id(module), None)
        self._seen.add(id(module))
        if self._hook is None:
            self._bare.remove()  # before the hook wraps the same functions
            if self._make_hook() is None:  # the script created its own
                self.remove()
                return
        self._quiet_since = self._hook.step
        self._hook.register_module(module)
        self._hook.begin(module, (args, {}))  # its call is already running

    def _make_hook(self) -> Any:
        self._hook = _make_hook()
        return self._hook

    def _give_up_when_quiet(self) -> None:
        if self._hook.step - self._quiet_since > _QUIET_STEPS:
            self._rest()


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
                spec.loader = _ThenDiscover(spec.loader)
                return spec
        return None


class _ThenDiscover(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            discover()
        except Exception as error:
            logger.warning("Capture could not be set up; training continues.", exc_info=True)
            other_frameworks.report_failure(error)
