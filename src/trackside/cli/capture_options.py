"""What `trackside run` saves: the collections named, and those that its rules need."""

from collections.abc import Sequence

import click

from trackside.sdk.debug_request import PaceName, needed
from trackside.sdk.debugger import CollectionConfig, DebuggerHookConfig
from trackside.sdk.rule import AnyRule, Rule


def hook_config(
    names: str | None, every: int | None, ring: int | None, rules: Sequence[AnyRule]
) -> DebuggerHookConfig | bool:
    """False when nothing is to be saved. `click.UsageError` for contradictory options."""
    if ring is not None and names is None:
        raise click.UsageError("--ring needs --capture.")
    if ring is not None and rules:
        raise click.UsageError("--ring keeps tensors in memory, where no --rule sees them.")
    if names is None and not any(isinstance(rule, Rule) for rule in rules):
        if every is not None:
            raise click.UsageError("--every needs --capture or --rule.")
        return False
    parameters = {"save_interval": every, "ring": ring}
    return DebuggerHookConfig(
        hook_parameters={name: value for name, value in parameters.items() if value is not None},
        collection_configs=_collections(named(names), every, rules),
    )


def named(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",")] if text else []


def warnings(names: Sequence[str]) -> list[str]:
    """A sentence for each name without a collection, unless the script creates it."""
    known = _known()
    return [
        f"No collection is called {name!r} unless the script makes it. There are "
        f"{', '.join(known)}."
        for name in names
        if name not in known
    ]


def check(names: Sequence[str]) -> None:
    """`click.UsageError` for a misspelled collection, which would save nothing."""
    known = _known()
    unknown = [name for name in names if name not in known]
    if not unknown:
        return
    from difflib import get_close_matches  # only for names that are wrong

    for name in unknown:
        if near := get_close_matches(name, known, n=1):
            raise click.UsageError(
                f"--capture: no collection is called {name!r}. Did you mean {near[0]!r}? There are "
                f"{', '.join(known)}."
            )


def _known() -> list[str]:
    from trackside.capture.selection.collection import CollectionKeys

    return sorted(value for key, value in vars(CollectionKeys).items() if key.isupper())


def _collections(
    names: Sequence[str], every: int | None, rules: Sequence[AnyRule]
) -> list[CollectionConfig]:
    """Named collections are saved completely; those that rules need too, at their steps."""
    pace: PaceName = "WATCHFUL" if every is None else "HOOK"
    planned = {each.name: each for each in needed(rules, pace, ())}
    asked = [CollectionConfig(name, _whole(planned.get(name))) for name in names]
    return [*asked, *(each for name, each in planned.items() if name not in names)]


def _whole(planned: CollectionConfig | None) -> dict[str, str]:
    parameters = dict((planned.parameters if planned else None) or {})
    parameters.pop("reductions", None)
    return parameters
