"""What a target of temporal differences is worth where an episode ends: the reward alone.

By the script's names for rewards and ends. With the same reward at its end, an episode's target
must not depend on when it is computed: if it does, the value of a state after the end is in it.
"""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trackside.capture.vitals.anatomy_facts import AnatomyFacts
from trackside.capture.vitals.losses import LossCall
from trackside.capture.vitals.script_names import script_variables

_LOSSES = ("mse_loss", "smooth_l1_loss", "huber_loss")
_REWARD = re.compile(r"(\w+_)?(r|rew|rews|rewards?)(_\w+)?", re.IGNORECASE)
_END = re.compile(r"(\w+_)?(d|dones?|terminals?|terminated|terminations?)(_\w+)?", re.IGNORECASE)
_OTHERWISE = re.compile(r"not|non|mask|trunc|ret|adv|next_d", re.IGNORECASE)
"""Names that mean the opposite, or sums over an episode."""
_MOST_KNOWN = 256
_DIFFERENT = 1e-3
"""Of the target's size: rounding is less."""


class Endings:
    def __init__(self, facts: AnatomyFacts) -> None:
        self._facts = facts
        self._worth: dict[float, float] = {}
        """The first target that was seen at the end of an episode, by its reward."""

    def see_loss(self, call: LossCall) -> None:
        if call.function not in _LOSSES or call.target.numel() < 2:
            return
        known = script_variables()
        if not _is_plain_target(call.target, known):
            return
        size = call.target.numel()
        reward, ends = _named(known, _REWARD, size), _named(known, _END, size)
        if reward is not None and ends is not None and bool(((ends == 0) | (ends == 1)).all()):
            self._compare(call.target.reshape(-1)[ends == 1], reward[ends == 1])

    def _compare(self, targets: Tensor, rewards: Tensor) -> None:
        num_changed = 0
        for target, reward in zip(targets.tolist(), rewards.tolist(), strict=True):
            key = round(reward, 6)
            if key not in self._worth and len(self._worth) >= _MOST_KNOWN:
                continue
            first = self._worth.setdefault(key, target)
            num_changed += abs(target - first) > _DIFFERENT * max(abs(target), abs(first))
        self._facts.count_objective_fact("num_ends", len(targets))
        self._facts.count_objective_fact("num_ends_changed", num_changed)


def _is_plain_target(target: Tensor, known: Mapping[str, Any]) -> bool:
    """Not returns or advantages, which are sums over an episode."""
    names = [
        name
        for name, value in known.items()
        if isinstance(value, Tensor) and value.data_ptr() == target.data_ptr()
    ]
    return not any(_OTHERWISE.search(name) for name in names)


def _named(known: Mapping[str, Any], pattern: re.Pattern[str], size: int) -> Tensor | None:
    for name, value in known.items():
        is_one = isinstance(value, Tensor) and value.numel() == size and not value.requires_grad
        if is_one and pattern.fullmatch(name) and not _OTHERWISE.search(name):
            found: Tensor = value.detach().reshape(-1).to(torch.float64).cpu()
            return found
    return None
