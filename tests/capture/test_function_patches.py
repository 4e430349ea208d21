import functools
from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn
from torch.utils.data.dataloader import _BaseDataLoaderIter

from trackside.capture.hook import Hook
from trackside.capture.model.function_patches import FunctionPatch


def patched(owner: Any, seen: list[str], label: str) -> FunctionPatch:
    patch = FunctionPatch()
    patch.wrap(owner, "f", before=lambda: seen.append(label))
    return patch


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_patches_are_undone_in_any_order(order: tuple[int, ...]):
    def original() -> str:
        return "result"

    owner = SimpleNamespace(f=original)
    seen: list[str] = []
    patches = [patched(owner, seen, str(i)) for i in range(3)]
    active = {"0", "1", "2"}
    for i in order:
        seen.clear()
        assert owner.f() == "result"
        assert set(seen) == active
        patches[i].undo()
        active.remove(str(i))
    assert owner.f is original


def test_a_wrapper_of_other_code_stays_and_calls_nothing_of_ours():
    owner = SimpleNamespace(f=lambda: "result")
    seen: list[str] = []
    patch = patched(owner, seen, "ours")

    @functools.wraps(owner.f)
    def other() -> str:
        return "other's " + inner()

    inner, owner.f = owner.f, other
    patch.undo()
    assert owner.f is other
    assert owner.f() == "other's result"
    assert seen == []


def test_hooks_that_are_closed_in_the_order_in_which_they_were_made_leave_torch_as_it_was(tmp_path):
    original = _BaseDataLoaderIter.__next__
    hooks = [Hook(out_dir=str(tmp_path / name)) for name in "ab"]
    for hook in hooks:
        hook.register_module(nn.Linear(2, 1))
    for hook in hooks:
        hook.close()
    assert _BaseDataLoaderIter.__next__ is original
