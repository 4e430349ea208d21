"""Mistakes of fine-tuning by the real libraries that the check-up names within three steps: 24
trainings by TRL, PEFT, Accelerate, Lightning and Trainer, the same ones mended, and 18 healthy
ones of other kinds (`finetuning_libraries_set/train.py`).

It needs TRL and PEFT, which are in an environment of their own: `.ci/finetuning` makes it, then
`.venv-finetuning/bin/python -m benchmarks finetuning_libraries`.
"""

import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.finetuning import TrainingSet, examine, examine_all, prepared
from benchmarks.report import Comparison, Target

TARGET = 22
_QUICK = ("sft_prompt_in_loss", "peft_both_zero")
EXPECTED = {
    "sft_prompt_in_loss": "PromptTrained",
    "sft_user_turns_trained": "PromptTrained",
    "sft_template_without_generation": "NothingSupervised",
    "sft_end_never_target": "EndNeverTrained",
    "peft_pad_is_eos": "EndNeverTrained",
    "sft_two_bos": "TemplateMisused",
    "lightning_shifted_twice": "TargetsShiftedWrongly",
    "sft_cut_off": "AnswersCutOff",
    "dpo_cut_off": "AnswersCutOff",
    "sft_template_of_another_model": "TemplateMisused",
    "sft_packing_bleeds": "PackedTextsMixed",
    "sft_evaluated_on_training_data": "EvaluationOnTrainingData",
    "peft_reentrant_checkpointing": "AdaptersNotTrained",
    "accelerate_everything_frozen": "AdaptersNotTrained",
    "peft_adapter_not_active": "AdaptersNotTrained",
    "peft_both_zero": "AdaptersNotTrained",
    "lightning_base_not_frozen": "BaseNotFrozen",
    "accelerate_optimizer_before_peft": "OptimizerOfAnotherModel or AdaptersNotTrained",
    "peft_adapter_not_loaded": "WeightsNotLoaded",
    "peft_new_tokens_not_trained": "NewTokensNotTrained",
    "sft_rate_too_low_for_lora": "FineTuningRate",
    "sft_rate_of_pretraining": "FineTuningRate",
    "trainer_loss_not_divided": "LossScaledWrongly",
    "lightning_divided_twice": "LossScaledWrongly",
}
"""The right cause of each."""
LIBRARIES = TrainingSet(Path(__file__).with_name("finetuning_libraries_set"), EXPECTED)


def run(quick: bool = False) -> Iterator[Comparison]:
    if missing := [name for name in ("peft", "trl", "datasets") if find_spec(name) is None]:
        print(f"finetuning_libraries is left out: {', '.join(missing)} missing, see its docstring")
        return
    names, healthy = LIBRARIES.names(), LIBRARIES.names("healthy")
    if quick:
        names, healthy = _QUICK, healthy[:1]
    with tempfile.TemporaryDirectory() as folder:
        base = prepared(LIBRARIES, Path(folder))
        import_libraries()
        named, silent = examine_all(LIBRARIES, names, base, Path(folder))
        alarms = _alarms(healthy, base, Path(folder))
    yield Comparison(
        title=f"Mistakes of fine-tuning by libraries, named within 3 steps, of {len(names)}",
        unit="named",
        figures={"trackside": named, "the target": TARGET * len(names) / len(EXPECTED)},
        higher_is_better=True,
        targets=(Target("the target", 1.0),),
        notes=(
            f"Of {len(names)} mended trainings {silent} had no finding, of {len(healthy)} healthy "
            f"ones {len(healthy) - alarms}.",
        ),
    )


def import_libraries() -> None:
    """Once, before the processes of the trainings are forked."""
    import lightning  # noqa: F401
    import peft  # noqa: F401
    from trl import DPOTrainer, GRPOTrainer, RewardTrainer, SFTTrainer  # noqa: F401


def _alarms(names: tuple[str, ...], base: Path, folder: Path) -> int:
    """How many of these healthy trainings have a finding; prints a table."""
    print("\n| healthy training | findings |\n|---|---|")
    found = {name: examine(LIBRARIES, name, base, folder) for name in names}
    for name, findings in found.items():
        print(f"| {name} | {', '.join(each.cause for each in findings) or 'none'} |", flush=True)
    return sum(map(bool, found.values()))
