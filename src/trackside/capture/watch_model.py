"""`watch`: the hook as a context manager, for the user's own scripts, inside a job or outside."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import nn
from torch.nn.modules.loss import _Loss

from trackside.capture.hook import Hook
from trackside.capture.selection.collection import CollectionKeys
from trackside.capture.selection.reduction_config import ReductionConfig
from trackside.capture.selection.save_config import SaveConfig
from trackside.capture.steps.stepper import GradientsAt


@contextmanager
def watch(
    *modules: nn.Module,
    out_dir: str | Path,
    collections: Iterable[str] = (CollectionKeys.LOSSES,),
    every: int = 100,
    reductions: Iterable[str] = (),
    ring: int = 0,
    gradients_at: GradientsAt = "optimizer",
    tensorboard: str | Path | None = None,
    vitals: bool = True,
) -> Iterator[Hook]:
    """Save what is named in `collections`, every so many steps, while the block runs.

    Models and loss modules are distinguished. A loss that is no module is found where `backward` is
    called on it. `reductions` ("min", "l2", "abs_mean", ...) are saved instead of the values.
    `vitals` are taken beside it, by themselves. Modes follow `model.training`; `hook.set_mode`
    overrides them.
    """
    wanted = ",".join(reductions)
    hook = Hook(
        out_dir,
        include_collections=list(collections),
        save_config=SaveConfig(save_interval=every),
        reduction_config=ReductionConfig.from_dict({"reductions": wanted}) if wanted else None,
        tensorboard_dir=None if tensorboard is None else str(tensorboard),
        ring=ring,
        gradients_at=gradients_at,
        vitals="on" if vitals else "off",
    )
    try:
        hook.follow_training()
        for module in modules:
            if isinstance(module, _Loss):
                hook.register_loss(module)
            else:
                hook.register_module(module)
        yield hook
    except BaseException as error:
        hook.dump(f"exception: {type(error).__name__}: {error}")
        raise
    finally:
        hook.close()
