"""Trainings that are stopped and resumed: 16 that do not continue where they stopped, 8 that do.

Each is a small script that writes checkpoints to `checkpoints/`, and resumes when one is there. The
faults are edits of one right script, so that nothing else differs. They were written before the
audit that is measured on them.
"""

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
BASE = "full.py"


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    edits: tuple[tuple[str, str], ...]
    """Each old text occurs in the right script, once."""
    parts: tuple[str, ...]
    """What the audit must name first; any of these."""
    base: str = BASE

    def text(self) -> str:
        text = (HERE / self.base).read_text()
        for old, new in self.edits:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {old!r} occurs {text.count(old)} times")
            text = text.replace(old, new)
        return text


RIGHT = (
    "full.py",
    "middle_of_epoch.py",
    "seeded_epochs.py",
    "separate_files.py",
    "plain_descent.py",
    "with_accelerate.py",
    "with_trainer.py",
    "with_lightning.py",
)

_MODEL = '        "model": model.state_dict(),\n'
_LOADS_MODEL = '    model.load_state_dict(saved["model"])\n'
_LOADS_LOOSELY = '    model.load_state_dict(saved["model"], strict=False)\n'
_LOADS_OPTIMIZER = '    optimizer.load_state_dict(saved["optimizer"])\n'
_LOADS_SCHEDULER = '    scheduler.load_state_dict(saved["scheduler"])\n'
_SCHEDULER = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 12, gamma=0.3)\n"
_RATE = 'optimizer.param_groups[0]["lr"]'
_STEP = "        optimizer.step()\n"
_SAVES = (
    "        done = epoch * len(loader) + index + 1\n"
    "        if done % 7 == 0:\n"
    "            save(epoch, index)\n"
)

FAULTS = (
    Fault(
        "optimizer_not_saved",
        (
            ('        "optimizer": optimizer.state_dict(),\n', ""),
            (_LOADS_OPTIMIZER, ""),
            (
                _LOADS_SCHEDULER,
                f"{_LOADS_SCHEDULER}    {_RATE} = scheduler.get_last_lr()[0]\n",
            ),
        ),
        ("optimizer",),
    ),
    Fault(
        "optimizer_not_loaded",
        ((_LOADS_OPTIMIZER, f"    {_RATE} = saved['optimizer']['param_groups'][0]['lr']\n"),),
        ("optimizer",),
    ),
    Fault("scheduler_not_restored", ((_LOADS_SCHEDULER, ""),), ("schedule",)),
    Fault(
        "decayed_rate_is_the_base",
        (
            (_SCHEDULER, ""),
            (_LOADS_SCHEDULER, ""),
            (
                "for epoch in range(first_epoch",
                "for group in optimizer.param_groups:\n"
                '    group.pop("initial_lr", None)\n'
                f"{_SCHEDULER}for epoch in range(first_epoch",
            ),
        ),
        ("schedule",),
    ),
    Fault(
        "scaler_not_restored",
        (('    scaler.load_state_dict(saved["scaler"])\n', ""),),
        ("scaler",),
    ),
    Fault(
        "random_state_not_restored",
        (('    torch.set_rng_state(saved["torch_rng"])\n', ""),),
        ("rng", "data"),
    ),
    Fault(
        "numpy_state_not_restored",
        (('    np.random.set_state(saved["numpy_rng"])\n', ""),),
        ("rng", "data"),
    ),
    Fault(
        "data_from_the_beginning",
        (("        if epoch == first_epoch and index < first_batch:\n            continue\n", ""),),
        ("data",),
        "middle_of_epoch.py",
    ),
    Fault(
        "epoch_again",
        (
            (
                '    first_epoch = saved["epoch"] + 1\n',
                '    first_epoch = saved["epoch"]\n',
            ),
        ),
        ("data",),
        "seeded_epochs.py",
    ),
    Fault(
        "keys_with_a_prefix",
        (
            (
                _MODEL,
                '        "model": {f"module.{k}": v for k, v in model.state_dict().items()},\n',
            ),
            (_LOADS_MODEL, _LOADS_LOOSELY),
        ),
        ("parameters",),
    ),
    Fault(
        "head_not_loaded",
        (
            (
                _LOADS_MODEL,
                '    kept = {k: v for k, v in saved["model"].items() if not k.startswith("6.")}\n'
                "    model.load_state_dict(kept, strict=False)\n",
            ),
        ),
        ("parameters",),
    ),
    Fault(
        "saved_before_the_step",
        ((_STEP + _SAVES, _SAVES + _STEP),),
        ("update", "parameters"),
        "middle_of_epoch.py",
    ),
    Fault(
        "average_not_restored",
        (('    average.load_state_dict(saved["average"])\n', ""),),
        ("average",),
    ),
    Fault(
        "statistics_not_saved",
        (
            (_MODEL, '        "model": dict(model.named_parameters()),\n'),
            (_LOADS_MODEL, _LOADS_LOOSELY),
        ),
        ("buffers",),
    ),
    Fault(
        "wrong_model_saved",
        ((_MODEL, '        "model": average.module.state_dict(),\n'),),
        ("parameters",),
    ),
    Fault(
        "own_counter_begins_again",
        (('    num_steps = saved["num_steps"]\n', ""),),
        ("schedule",),
        "plain_descent.py",
    ),
)
"""Sixteen, by what people report."""
