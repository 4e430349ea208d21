"""`watch`: the hook on a model, and the rules that judge what it saves. Imports torch."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn
from torch.nn.modules.loss import _Loss

from trackside.capture.environment import CaptureEnvironment
from trackside.capture.hook import Hook, get_hook
from trackside.capture.model import functional_losses, script_calls
from trackside.capture.model.loader_watch import note_made
from trackside.capture.selection.configuration import parse_configuration
from trackside.inside.values import shown
from trackside.records.layout import HostFolder, JobKeys
from trackside.records.spec import DebugHook, RuleConfiguration
from trackside.rules import capture_plan
from trackside.rules.tensor.progress import StalledTrainingRule
from trackside.sdk.debug_request import needed
from trackside.sdk.debugger import DebuggerHookConfig
from trackside.sdk.rule import Rule, built_in

AGE_SECONDS = 0.25
"""How long a saved step waits to share a file with others: rules are waiting for it."""


def check_modules(modules: Sequence[Any]) -> None:
    for module in modules:
        if not isinstance(module, nn.Module):
            raise TypeError(
                f"watch({shown(module)}) is not a torch.nn.Module; only those are watched."
            )
    if not modules:
        raise TypeError("watch() names no model. Give it: trackside.watch(model).")


def default_rules(*, is_interactive: bool) -> list[Rule]:
    """As `trackside run --rule all`. Without stall rules where a person reads between two cells."""
    unfit = [StalledTrainingRule.name()] if is_interactive else []
    return [built_in(name) for name in capture_plan.all_rules() if name not in unfit]


def configurations(rules: Sequence[Rule], keys: JobKeys) -> list[RuleConfiguration]:
    """In the evaluator's format."""
    return [
        RuleConfiguration(
            name=rule.name, image=rule.image_uri, parameters=rule.to_request(keys)["RuleParameters"]
        )
        for rule in rules
    ]


def make_hook(rules: Sequence[Rule], hook: DebugHook, folder: HostFolder) -> Hook:
    """Saves, in the run's own folder, what these rules read."""
    config = DebuggerHookConfig(collection_configs=needed(rules, "WATCHFUL", ()))
    request = {**config.to_request(hook.uri), "LocalPath": str(folder.inside(hook.local_path))}
    nowhere = folder.ml / "input" / "config"  # a run of its own has neither of these files
    made = Hook.create_from_configuration(
        parse_configuration(request),
        gradients_at="optimizer",
        environment=CaptureEnvironment(
            checkpoint_config=nowhere / "checkpointconfig.json",
            profiler_config=nowhere / "profilerconfig.json",
            age_seconds=AGE_SECONDS,
        ),
    )
    made.follow_training(loss_modules=True)
    return made


def watch_in_job(modules: Sequence[Any], notify: Callable[[str], None]) -> None:
    """Inside a job, the job configures what is saved and judged; most need no call for it."""
    check_modules(modules)
    if CaptureEnvironment.load().auto:
        return
    hook = get_hook()
    if hook is None:
        notify("watch() does nothing here: this job has no rules. `trackside run --rule all` has.")
        return
    register(hook, modules)


def prepare() -> None:
    """Losses and others that are functions, and loaders created later, are seen from here on."""
    functional_losses.install()
    script_calls.install()
    note_made()


def register(hook: Hook, modules: Sequence[nn.Module]) -> None:
    for module in modules:
        if isinstance(module, _Loss):
            hook.register_loss(module)
        else:
            hook.register_module(module)
