"""Fine-tunings by the real libraries, each with one mistake: `train.py NAME --base FOLDER`.

TRL's SFTTrainer and DPOTrainer, PEFT, Accelerate, Lightning and transformers' Trainer. With
`--mended`, the same training without it; names of `HEALTHY` have none. Nothing here imports
Trackside.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1")

import torch
from datasets import Dataset
from parts import pairs, talks
from peft import (
    IA3Config,
    LoraConfig,
    PeftModel,
    PromptTuningConfig,
    TaskType,
    get_peft_model,
)
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
)
from trl import (
    DPOConfig,
    DPOTrainer,
    GRPOConfig,
    GRPOTrainer,
    RewardConfig,
    RewardTrainer,
    SFTConfig,
    SFTTrainer,
)

parser = argparse.ArgumentParser()
parser.add_argument("name")
parser.add_argument("--base", required=True)
parser.add_argument("--mended", action="store_true")
parser.add_argument("--steps", type=int, default=3)
OPTIONS = parser.parse_args()
SICK, STEPS = not OPTIONS.mended, OPTIONS.steps
torch.set_num_threads(1)
torch.manual_seed(0)
Row = dict[str, Any]
CASES: dict[str, Callable[[], None]] = {}
HEALTHY: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


def healthy(function: Callable[[], None]) -> Callable[[], None]:
    HEALTHY[function.__name__] = function
    return function


# Models, tokenizers, rows


def loaded(kind: str = "chatml") -> tuple[Any, Any]:
    folder = Path(OPTIONS.base) / kind
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def lora(**more: Any) -> LoraConfig:
    how = {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"], **more}
    return LoraConfig(task_type=TaskType.CAUSAL_LM, **how)


def token_rows(tokens: Any, count: int = 240, *, end: bool = True) -> list[Row]:
    """The question is not trained on; the answer ends with EOS."""
    rows = []
    for question, answer in pairs(count):
        prompt = tokens(f"Q: {question}\nA:")["input_ids"]
        reply = tokens(f" {answer}", add_special_tokens=False)["input_ids"]
        reply += [tokens.eos_token_id] * end
        rows.append({"input_ids": prompt + reply, "labels": [-100] * len(prompt) + reply})
    return rows


def prompt_completion(count: int = 240, first: int = 0) -> Dataset:
    made = [{"prompt": f"Q: {q}\nA:", "completion": f" {a}"} for q, a in pairs(count, first)]
    return Dataset.from_list(made)


def loader(tokens: Any, rows: list[Row], size: int = 8) -> DataLoader:
    collate = DataCollatorForSeq2Seq(tokens, label_pad_token_id=-100)
    return DataLoader(rows, batch_size=size, shuffle=True, collate_fn=collate, drop_last=True)


# Trainers


def common(**more: Any) -> dict[str, Any]:
    return {
        "output_dir": "out",
        "max_steps": STEPS,
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
        "per_device_train_batch_size": 8,
        "gradient_checkpointing": False,
        **more,
    }


def sft(model: Any, tokens: Any, data: Any, **more: Any) -> None:
    peft_config, evaluated = more.pop("peft_config", None), more.pop("evaluated", None)
    if evaluated is not None:
        more.update(eval_strategy="steps", eval_steps=1)
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(**common(**more)),
        train_dataset=data,
        eval_dataset=evaluated,
        processing_class=tokens,
        peft_config=peft_config,
    )
    trainer.train()


def dpo(model: Any, tokens: Any, **more: Any) -> None:
    peft_config = more.pop("peft_config", None)
    rows = []
    for (question, answer), (_, other) in zip(pairs(120), pairs(120, first=500), strict=True):
        rows.append(
            {"prompt": f"Q: {question}\nA:", "chosen": f" {answer}", "rejected": f" {other}"}
        )
    trainer = DPOTrainer(
        model=model,
        args=DPOConfig(**common(**more)),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokens,
        peft_config=peft_config,
    )
    trainer.train()


def by_trainer(model: Any, tokens: Any, rows: Any, collator: Any = None, **more: Any) -> None:
    kind = more.pop("kind", Trainer)
    trainer = kind(
        model=model,
        args=TrainingArguments(**common(**more)),
        train_dataset=rows,
        data_collator=collator or DataCollatorForSeq2Seq(tokens, label_pad_token_id=-100),
        processing_class=tokens,
    )
    trainer.train()


def accelerated(model: Any, optimizer: Any, data: DataLoader) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    model.train()
    for step, batch in enumerate(data):
        if step == STEPS:
            break
        loss = model(**batch).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}")


def by_lightning(
    model: Any,
    data: DataLoader,
    rate: float,
    *,
    change: Any = None,
    accumulate: int = 1,
    scale: float = 1,
) -> None:
    import lightning

    class Tuner(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: Any, _: int) -> Tensor:
            batch = change(batch) if change else batch
            loss = self.model(**batch).loss
            self.log("train_loss", loss)
            return loss * scale

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW([p for p in self.parameters() if p.requires_grad], lr=rate)

    trainer = lightning.Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        accumulate_grad_batches=accumulate,
    )
    trainer.fit(Tuner(), data)


# What is trained on


@case
def sft_prompt_in_loss() -> None:
    """A prompt-completion set for SFTTrainer, and completion_only_loss is off."""
    model, tokens = loaded()
    sft(model, tokens, prompt_completion(), completion_only_loss=not SICK)


@case
def sft_user_turns_trained() -> None:
    """Conversations for SFTTrainer without assistant_only_loss: users' turns are targets, too."""
    model, tokens = loaded()
    sft(model, tokens, Dataset.from_list(talks()), assistant_only_loss=not SICK)


@case
def sft_template_without_generation() -> None:
    """The template has no generation marks: the mask of the assistant is zero everywhere."""
    model, tokens = loaded()
    if SICK:
        for mark in ("{% generation %}", "{% endgeneration %}"):
            tokens.chat_template = tokens.chat_template.replace(mark, "")
    rows = [
        tokens.apply_chat_template(
            each["messages"], return_dict=True, return_assistant_tokens_mask=True
        )
        for each in talks()
    ]
    names = ("input_ids", "assistant_masks")
    data = Dataset.from_list([{name: row[name] for name in names} for row in rows])
    sft(model, tokens, data, max_length=None)


@case
def sft_end_never_target() -> None:
    """A tokenized set for SFTTrainer, which then adds no EOS; nor did the script."""
    model, tokens = loaded()
    sft(model, tokens, Dataset.from_list(token_rows(tokens, end=not SICK)))


@case
def peft_pad_is_eos() -> None:
    """pad = eos, and transformers' collator masks all that is padding: EOS is never a target."""
    model, tokens = loaded("llama")
    if SICK:
        tokens.pad_token = tokens.eos_token
    rows = [
        {"input_ids": [*tokens(" ".join(p))["input_ids"], tokens.eos_token_id]} for p in pairs()
    ]
    collator = DataCollatorForLanguageModeling(tokens, mlm=False)
    by_trainer(get_peft_model(model, lora()), tokens, rows, collator, learning_rate=2e-4)


@case
def sft_two_bos() -> None:
    """Texts are rendered with the template, which writes BOS; SFTTrainer's tokenizer adds one."""
    model, tokens = loaded("llama")
    texts = [tokens.apply_chat_template(t["messages"], tokenize=False) for t in talks()]
    if not SICK:
        texts = [text.removeprefix(tokens.bos_token) for text in texts]
    heads = [text.index("[/INST]") + len("[/INST]") for text in texts]
    rows = [{"prompt": t[:h], "completion": t[h:]} for t, h in zip(texts, heads, strict=True)]
    sft(model, tokens, Dataset.from_list(rows), peft_config=lora(), learning_rate=2e-4)


@case
def lightning_shifted_twice() -> None:
    """A LightningModule shifts the labels before the model, which shifts them itself."""
    model, tokens = loaded()

    def shifted(batch: Any) -> Any:
        labels = batch["labels"]
        gone = torch.full_like(labels[:, :1], -100)
        return {**batch, "labels": torch.cat([labels[:, 1:], gone], dim=1)}

    data = loader(tokens, token_rows(tokens))
    by_lightning(model, data, 2e-5, change=shifted if SICK else None)


@case
def sft_cut_off() -> None:
    """max_length is shorter than nearly all examples: their ends are cut."""
    model, tokens = loaded()
    data = prompt_completion()
    sft(model, tokens, data, max_length=26 if SICK else 256, peft_config=lora(), learning_rate=2e-4)


@case
def dpo_cut_off() -> None:
    """DPO with a max_length shorter than the prompts: hardly anything of the answers is left."""
    model, tokens = loaded()
    dpo(model, tokens, max_length=26 if SICK else 256)


@case
def sft_template_of_another_model() -> None:
    """Texts in ChatML for a tokenizer without its marks: they are split into pieces."""
    model, tokens = loaded("llama")
    if not SICK:
        tokens.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
        model.resize_token_embeddings(len(tokens))
    rows = [
        {
            "prompt": f"<|im_start|>user\n{q}<|im_end|>\n<|im_start|>assistant\n",
            "completion": f"{a}<|im_end|>",
        }
        for q, a in pairs()
    ]
    sft(model, tokens, Dataset.from_list(rows))


@case
def sft_packing_bleeds() -> None:
    """The packing strategy `wrapped` runs one example into the next; they see each other."""
    model, tokens = loaded()
    data = Dataset.from_list(talks(480))
    strategy = "wrapped" if SICK else "bfd"
    sft(
        model,
        tokens,
        data,
        packing=True,
        packing_strategy=strategy,
        max_length=128,
        assistant_only_loss=True,
    )


@case
def sft_evaluated_on_training_data() -> None:
    """The evaluation set was split off after it was put into the training set."""
    model, tokens = loaded()
    data = prompt_completion(24)
    evaluated = data.select(range(8)) if SICK else prompt_completion(8, first=900)
    sft(model, tokens, data, evaluated=evaluated, per_device_eval_batch_size=8)


# Adapters


@case
def peft_reentrant_checkpointing() -> None:
    """Reentrant checkpointing without gradients of the inputs: only the head is trained."""
    model, tokens = loaded("llama")
    model = get_peft_model(model, lora(modules_to_save=["lm_head"]))
    model.config.use_cache = False
    how = {"use_reentrant": SICK}
    model.base_model.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=how)
    if SICK:
        model.base_model.model.disable_input_require_grads()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
    accelerated(model, optimizer, loader(tokens, token_rows(tokens)))


@case
def accelerate_everything_frozen() -> None:
    """The adapter is loaded for inference (no is_trainable): nothing in the model is trained."""
    model, tokens = loaded()
    get_peft_model(model, lora(init_lora_weights=False)).save_pretrained("adapter")
    model, _ = loaded()
    model = PeftModel.from_pretrained(model, "adapter", is_trainable=not SICK)
    model.enable_input_require_grads()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    accelerated(model, optimizer, loader(tokens, token_rows(tokens)))


@case
def peft_adapter_not_active() -> None:
    """A second adapter is added and given to the optimizer; the first one is still active."""
    model, tokens = loaded()
    model = get_peft_model(model, lora())
    model.add_adapter("second", lora())
    if not SICK:
        model.set_adapter("second")
    named = [p for name, p in model.named_parameters() if ".second." in name]
    for parameter in named:
        parameter.requires_grad_(True)
    accelerated(model, torch.optim.AdamW(named, lr=2e-4), loader(tokens, token_rows(tokens)))


@case
def peft_both_zero() -> None:
    """A routine of initialisation sets both factors of the adapters to zero."""
    model, tokens = loaded()
    model = get_peft_model(model, lora())
    if SICK:
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                nn.init.zeros_(parameter)
    sft(model, tokens, prompt_completion(), learning_rate=2e-4)


@case
def lightning_base_not_frozen() -> None:
    """All parameters are made trainable after the adapters were added."""
    model, tokens = loaded()
    model = get_peft_model(model, lora())
    if SICK:
        model.requires_grad_(True)
    by_lightning(model, loader(tokens, token_rows(tokens)), 2e-4)


@case
def accelerate_optimizer_before_peft() -> None:
    """The optimizer is made before get_peft_model: it has none of the adapters' weights."""
    model, tokens = loaded()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    model = get_peft_model(model, lora())
    if not SICK:
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=2e-4)
    accelerated(model, optimizer, loader(tokens, token_rows(tokens)))


@case
def peft_adapter_not_loaded() -> None:
    """The saved adapter is read with load_state_dict(strict=False): no key has its name."""
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    model, tokens = loaded()
    get_peft_model(model, lora(init_lora_weights=False)).save_pretrained("adapter")
    model, _ = loaded()
    model = get_peft_model(model, lora())
    saved = load_file("adapter/adapter_model.safetensors")
    if SICK:
        model.load_state_dict(saved, strict=False)
    else:
        set_peft_model_state_dict(model, saved)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
    accelerated(model, optimizer, loader(tokens, token_rows(tokens)))


@case
def peft_new_tokens_not_trained() -> None:
    """Tokens are added and the embeddings resized; LoRA leaves them as they were drawn."""
    model, tokens = loaded("llama")
    added = ["<|ask|>", "<|reply|>"]
    tokens.add_special_tokens({"additional_special_tokens": added})
    model.resize_token_embeddings(len(tokens))
    kept = None if SICK else ["embed_tokens", "lm_head"]
    rows = [{"prompt": f"{added[0]}{q}{added[1]}", "completion": a} for q, a in pairs()]
    config = lora(modules_to_save=kept)
    sft(model, tokens, Dataset.from_list(rows), peft_config=config, learning_rate=2e-4)


# Rates and accumulation


@case
def sft_rate_too_low_for_lora() -> None:
    """LoRA with a rate that suits the training of all weights."""
    model, tokens = loaded()
    rate = 5e-6 if SICK else 2e-4
    sft(model, tokens, prompt_completion(), peft_config=lora(), learning_rate=rate)


@case
def sft_rate_of_pretraining() -> None:
    """All weights of a trained model with a rate of pre-training."""
    model, tokens = loaded()
    sft(model, tokens, prompt_completion(), learning_rate=1e-3 if SICK else 2e-5)


@case
def trainer_loss_not_divided() -> None:
    """An own compute_loss takes the mean of each of four batches; nobody divides by four."""

    class Own(Trainer):
        def compute_loss(
            self,
            model: Any,
            inputs: Any,
            return_outputs: bool = False,
            num_items_in_batch: Any = None,
        ) -> Any:
            labels = inputs.pop("labels")
            scores = model(**inputs).logits[:, :-1]
            flat = scores.reshape(-1, scores.shape[-1]), labels[:, 1:].reshape(-1)
            if SICK:
                return nn.functional.cross_entropy(*flat)
            return nn.functional.cross_entropy(*flat, reduction="sum") / num_items_in_batch

    model, tokens = loaded()
    rows = token_rows(tokens)
    how = {"gradient_accumulation_steps": 4, "per_device_train_batch_size": 4}
    by_trainer(model, tokens, rows, kind=Own, learning_rate=2e-5, **how)


@case
def lightning_divided_twice() -> None:
    """accumulate_grad_batches divides the loss, and so does training_step."""
    model, tokens = loaded()
    data = loader(tokens, token_rows(tokens), size=4)
    by_lightning(model, data, 2e-5, accumulate=4, scale=0.25 if SICK else 1)


# Healthy


@healthy
def healthy_sft_text() -> None:
    """Plain texts, all of which are trained on: nothing in them is a prompt."""
    model, tokens = loaded()
    texts = [{"text": f"In this house {answer} So says the book."} for _, answer in pairs()]
    sft(model, tokens, Dataset.from_list(texts))


@healthy
def healthy_trainer_text() -> None:
    """The same by transformers' Trainer, with rows of one length as in run_clm."""
    model, tokens = loaded("llama")
    ids = [t for _, answer in pairs() for t in [*tokens(answer)["input_ids"], tokens.eos_token_id]]
    rows = [{"input_ids": ids[at : at + 64]} for at in range(0, len(ids) - 64, 64)]
    collator = DataCollatorForLanguageModeling(tokens, mlm=False)
    by_trainer(model, tokens, rows, collator, learning_rate=5e-5)


@healthy
def healthy_dpo() -> None:
    model, tokens = loaded()
    dpo(model, tokens)


@healthy
def healthy_dpo_lora() -> None:
    model, tokens = loaded("llama")
    dpo(model, tokens, peft_config=lora(), learning_rate=2e-5)


@healthy
def healthy_reward_model() -> None:
    """RewardTrainer: pairs, and a head that is new."""
    folder = Path(OPTIONS.base) / "chatml"
    tokens = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1)
    two = zip(pairs(120), pairs(120, first=500), strict=True)
    rows = [{"chosen": f"{q} {a}", "rejected": f"{q} {other}"} for (q, a), (_, other) in two]
    config = LoraConfig(task_type=TaskType.SEQ_CLS, target_modules=["q_proj", "v_proj"])
    trainer = RewardTrainer(
        model=model,
        args=RewardConfig(**common(learning_rate=1e-4)),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokens,
        peft_config=config,
    )
    trainer.train()


@healthy
def healthy_classifier_lora() -> None:
    folder = Path(OPTIONS.base) / "llama"
    tokens = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
    config = LoraConfig(task_type=TaskType.SEQ_CLS, target_modules=["q_proj", "v_proj"])
    rows = [
        {"input_ids": tokens(a)["input_ids"], "labels": int("rests" in a)} for _, a in pairs(240)
    ]
    from transformers import DataCollatorWithPadding

    collator = DataCollatorWithPadding(tokens)
    by_trainer(get_peft_model(model, config), tokens, rows, collator, learning_rate=2e-4)


@healthy
def healthy_prompt_tuning() -> None:
    """Virtual tokens in front, all else frozen; a high rate, as PEFT's guide has it."""
    model, tokens = loaded()
    config = PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=8)
    by_trainer(get_peft_model(model, config), tokens, token_rows(tokens), learning_rate=3e-2)


@healthy
def healthy_ia3() -> None:
    model, tokens = loaded()
    config = IA3Config(
        task_type=TaskType.CAUSAL_LM,
        target_modules=["k_proj", "v_proj", "down_proj"],
        feedforward_modules=["down_proj"],
    )
    by_trainer(get_peft_model(model, config), tokens, token_rows(tokens), learning_rate=8e-3)


@healthy
def healthy_dora_all_linear() -> None:
    model, tokens = loaded()
    config = lora(target_modules="all-linear", use_dora=True, lora_dropout=0.05)
    sft(model, tokens, prompt_completion(), peft_config=config, learning_rate=1e-4)


@healthy
def healthy_checkpointed_lora() -> None:
    """TRL's own gradient checkpointing, accumulation and warm-up."""
    model, tokens = loaded("llama")
    how = {"gradient_checkpointing": True, "gradient_accumulation_steps": 4}
    sft(
        model,
        tokens,
        prompt_completion(),
        peft_config=lora(),
        learning_rate=2e-4,
        warmup_steps=10,
        per_device_train_batch_size=4,
        **how,
    )


@healthy
def healthy_lightning_lora() -> None:
    model, tokens = loaded("llama")
    model = get_peft_model(model, lora(target_modules="all-linear"))
    by_lightning(model, loader(tokens, token_rows(tokens)), 2e-4, accumulate=2)


@healthy
def healthy_two_adapters() -> None:
    """One adapter is loaded and stays as it is; a second one is trained on top of it."""
    model, tokens = loaded()
    get_peft_model(model, lora(init_lora_weights=False)).save_pretrained("adapter")
    model, _ = loaded()
    model = PeftModel.from_pretrained(model, "adapter", adapter_name="first")
    model.add_adapter("second", lora())
    model.base_model.set_adapter(["first", "second"])
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".second." in name)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-4)
    accelerated(model, optimizer, loader(tokens, token_rows(tokens)))


@healthy
def healthy_trainable_tokens() -> None:
    """New tokens, of which PEFT trains only the new rows."""
    model, tokens = loaded()
    added = ["<|ask|>", "<|reply|>"]
    tokens.add_special_tokens({"additional_special_tokens": added})
    model.resize_token_embeddings(len(tokens))
    config = lora(trainable_token_indices=tokens.convert_tokens_to_ids(added))
    rows = []
    for question, answer in pairs():
        prompt = tokens(f"{added[0]}{question}{added[1]}")["input_ids"]
        reply = [*tokens(answer)["input_ids"], tokens.eos_token_id]
        rows.append({"input_ids": prompt + reply, "labels": [-100] * len(prompt) + reply})
    by_trainer(get_peft_model(model, config), tokens, rows, learning_rate=2e-4)


@healthy
def healthy_few_cut_off() -> None:
    """Some long examples are cut, as max_length is meant for."""
    model, tokens = loaded()
    rows = token_rows(tokens)
    limit = sorted(len(row["input_ids"]) for row in rows)[-12]
    sft(model, tokens, Dataset.from_list(rows), max_length=limit)


@healthy
def healthy_dpo_precomputed() -> None:
    """The reference's scores of all training texts are computed before the training."""
    model, tokens = loaded()
    dpo(model, tokens, peft_config=lora(), learning_rate=2e-5, precompute_ref_log_probs=True)


@healthy
def healthy_grpo_lora() -> None:
    """Reinforcement learning: the model is asked for answers, which are then trained on."""
    model, tokens = loaded()
    how = common(num_generations=4, max_completion_length=8, learning_rate=1e-5, beta=0.04)
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [float(len(set(each))) for each in completions],
        args=GRPOConfig(**how),
        train_dataset=Dataset.from_list([{"prompt": f"Q: {q}\nA:"} for q, _ in pairs(64)]),
        processing_class=tokens,
        peft_config=lora(),
    )
    trainer.train()


@healthy
def healthy_turns_begin_with_bos() -> None:
    """Talks of two questions in the template of Llama 2, which writes BOS before each of them."""
    model, tokens = loaded("llama")
    tokens.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'assistant' %}{% generation %}"
        " {{ m['content'] }}{{ eos_token }}{% endgeneration %}"
        "{% else %}{{ bos_token }}[INST] {{ m['content'] }} [/INST]{% endif %}{% endfor %}"
    )
    single = talks(480)
    both = zip(single[::2], single[1::2], strict=True)
    data = [{"messages": [*first["messages"], *second["messages"]]} for first, second in both]
    sft(model, tokens, Dataset.from_list(data), assistant_only_loss=True)


@healthy
def healthy_long_talks_keep_end() -> None:
    """Long talks of many questions, of which the last part is kept."""
    model, tokens = loaded()
    single = [each["messages"] for each in talks(480)]
    rows = []
    for at in range(0, 480, 4):
        talk = [message for each in single[at : at + 4] for message in each]
        made = tokens.apply_chat_template(talk, return_dict=True, return_assistant_tokens_mask=True)
        ids, mask = made["input_ids"][-128:], made["assistant_masks"][-128:]
        labels = [t if m else -100 for t, m in zip(ids, mask, strict=True)]
        rows.append({"input_ids": ids, "labels": labels})
    by_trainer(model, tokens, rows, learning_rate=2e-5)


if __name__ == "__main__":
    (CASES | HEALTHY)[OPTIONS.name]()
    print("done")
