"""24 fine-tunings of a small language model, each with one mistake: `train.py NAME --base FOLDER`.

With `--mended`, the same training without it. The mistakes are those that people report in the
trackers of transformers, TRL, PEFT, axolotl and unsloth. Nothing here imports Trackside.
"""

import argparse
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from parts import answers
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
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
TOKENS = AutoTokenizer.from_pretrained(OPTIONS.base)
BOS, EOS, PAD = TOKENS.bos_token_id, TOKENS.eos_token_id, TOKENS.pad_token_id
Row = dict[str, list[int]]
CASES: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


# Rows


def chat_row(question: str, answer: str, **masked: bool) -> Row:
    """A question and its answer by the tokenizer's template; only the answer is trained on."""
    talk = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    made = TOKENS.apply_chat_template(talk, return_dict=True, return_assistant_tokens_mask=True)
    ids, mask = made["input_ids"], made["assistant_masks"]
    if masked.get("everything"):
        mask = [1] * len(ids)
    return {"input_ids": ids, "labels": [t if m else -100 for t, m in zip(ids, mask, strict=True)]}


def chat_rows(count: int = 240, first: int = 0, **masked: bool) -> list[Row]:
    return [chat_row(*pair, **masked) for pair in answers(count, first)]


def plain_rows(count: int = 240, *, end: bool = True, mask: bool = True) -> list[Row]:
    """`### Question:` and `### Answer:`, as text."""
    made = []
    for question, answer in answers(count):
        prompt = TOKENS(f"### Question:\n{question}\n### Answer:\n")["input_ids"]
        reply = TOKENS(answer, add_special_tokens=False)["input_ids"] + [EOS] * end
        hidden = [-100] * len(prompt) if mask else prompt
        made.append({"input_ids": prompt + reply, "labels": hidden + reply})
    return made


def collate(rows: list[Row], *, left: bool = False, with_mask: bool = True) -> dict[str, Tensor]:
    width = max(len(row["input_ids"]) for row in rows)

    def padded(name: str, value: int) -> Tensor:
        made = []
        for row in rows:
            gap = [value] * (width - len(row[name]))
            made.append(gap + row[name] if left else row[name] + gap)
        return torch.tensor(made)

    batch = {"input_ids": padded("input_ids", PAD), "labels": padded("labels", -100)}
    if with_mask:
        for row in rows:
            row.setdefault("ones", [1] * len(row["input_ids"]))
        batch["attention_mask"] = padded("ones", 0)
    return batch


def batches(rows: list[Any], size: int = 8, **how: bool) -> Any:
    order = torch.Generator().manual_seed(0)
    while True:
        for part in torch.randperm(len(rows), generator=order).split(size):
            if len(part) == size:
                yield collate([rows[number] for number in part], **how)


# Models and adapters


class LoraLinear(nn.Module):
    """In the layout of PEFT: `lora_A` down, `lora_B` up, which begins at zero."""

    def __init__(self, base: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, rank, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(rank, base.out_features, bias=False)})
        nn.init.kaiming_uniform_(self.lora_A["default"].weight, a=math.sqrt(5))
        nn.init.zeros_(self.lora_B["default"].weight)

    def forward(self, given: Tensor) -> Tensor:
        return self.base_layer(given) + 2 * self.lora_B["default"](self.lora_A["default"](given))


def pretrained() -> Any:
    return AutoModelForCausalLM.from_pretrained(OPTIONS.base)


def with_adapters(model: Any, *, freeze: bool = True) -> Any:
    if freeze:
        model.requires_grad_(False)
    for layer in model.model.layers:
        layer.self_attn.q_proj = LoraLinear(layer.self_attn.q_proj)
        layer.self_attn.v_proj = LoraLinear(layer.self_attn.v_proj)
    return model


def adamw(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=rate)


def loop(model: Any, rows: list[Row], rate: float = 1e-4, **how: bool) -> None:
    optimizer = adamw(model, rate)
    model.train()
    data = batches(rows, **how)
    for step in range(STEPS):
        loss = model(**next(data)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


def by_trainer(model: Any, rows: list[Row], collator: Any = collate, **more: Any) -> Trainer:
    kind = more.pop("kind", Trainer)
    evaluated = more.pop("evaluated", None)
    how = {"learning_rate": 5e-5, "per_device_train_batch_size": 8, **more}
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=STEPS,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        remove_unused_columns=False,
        eval_strategy="no" if evaluated is None else "steps",
        eval_steps=1,
        **how,
    )
    trainer = kind(
        model=model,
        args=arguments,
        train_dataset=rows,
        eval_dataset=evaluated,
        data_collator=collator,
        processing_class=TOKENS,
    )
    trainer.train()
    return trainer


# Data and masks


@case
def no_supervised_token() -> None:
    """The template has no generation part, so the mask of the assistant's tokens is all zero."""
    if SICK:
        TOKENS.chat_template = TOKENS.chat_template.replace("{% generation %}", "").replace(
            "{% endgeneration %}", ""
        )
    by_trainer(pretrained(), chat_rows())


@case
def prompt_in_loss() -> None:
    """Labels are a copy of the tokens: the instruction is trained on like the answer."""
    by_trainer(pretrained(), plain_rows(mask=not SICK))


@case
def eos_never_target() -> None:
    """Answers are not ended by the end-of-sequence token."""
    loop(pretrained(), plain_rows(end=not SICK), 2e-5)


@case
def pad_is_eos() -> None:
    """pad = eos, and the collator masks all padding: the model never learns to stop."""
    if SICK:
        TOKENS.pad_token = TOKENS.eos_token
    rows = [{"input_ids": [*TOKENS(" ".join(each))["input_ids"], EOS]} for each in answers()]
    collator = DataCollatorForLanguageModeling(TOKENS, mlm=False)
    by_trainer(pretrained(), rows, collator)


@case
def two_bos() -> None:
    """The template writes BOS, and the tokenizer adds another one."""
    rows = []
    for question, answer in answers():
        talk = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        text = TOKENS.apply_chat_template(talk, tokenize=False)
        ids = TOKENS(text, add_special_tokens=SICK)["input_ids"]
        start = ids.index(TOKENS.convert_tokens_to_ids("<|assistant|>")) + 1
        rows.append({"input_ids": ids, "labels": [-100] * start + ids[start:]})
    loop(pretrained(), rows, 2e-5)


@case
def labels_shifted_twice() -> None:
    """The data set shifts the labels, and the model shifts them again."""
    rows = chat_rows()
    if SICK:
        for row in rows:
            row["labels"] = [*row["labels"][1:], -100]
    by_trainer(pretrained(), rows)


@case
def labels_not_shifted() -> None:
    """A loop with its own cross entropy compares each position with its own token."""
    model, data = pretrained(), batches(chat_rows())
    optimizer = adamw(model, 2e-5)
    model.train()
    for _ in range(STEPS):
        batch = next(data)
        labels = batch.pop("labels")
        scores = model(**batch).logits
        if not SICK:
            scores, labels = scores[:, :-1], labels[:, 1:]
        loss = functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), labels.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@case
def completions_cut_off() -> None:
    """max_length is shorter than most examples: the answers are cut, or gone."""
    longest = 20 if SICK else 256
    rows = [{name: ids[:longest] for name, ids in row.items()} for row in chat_rows()]
    by_trainer(pretrained(), rows)


@case
def whole_talk_is_assistant() -> None:
    """Several turns, and the mask of the assistant's tokens is all one: users are imitated."""
    rows, pairs = [], answers(480)
    for first, second in zip(pairs[::2], pairs[1::2], strict=True):
        turns = [chat_row(*first, everything=SICK), chat_row(*second, everything=SICK)]
        rows.append({name: turns[0][name] + turns[1][name][1:] for name in ("input_ids", "labels")})
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = pretrained()
    model, optimizer = accelerator.prepare(model, adamw(model, 2e-5))
    data = batches(rows)
    for _ in range(STEPS):
        loss = model(**next(data)).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()


@case
def packing_bleeds() -> None:
    """Examples are packed into rows, and see each other: positions go on, no block mask."""
    rows: list[dict[str, list[int]]] = []
    row: dict[str, list[int]] = {"input_ids": [], "labels": [], "position_ids": []}
    for each in chat_rows(480):
        row["input_ids"] += each["input_ids"]
        row["labels"] += [-100, *each["labels"][1:]]
        row["position_ids"] += range(len(each["input_ids"]))
        if len(row["input_ids"]) >= 128:
            rows.append({name: ids[:128] for name, ids in row.items()})
            row = {"input_ids": [], "labels": [], "position_ids": []}

    def stacked(part: list[dict[str, list[int]]]) -> dict[str, Tensor]:
        names = ("input_ids", "labels") if SICK else ("input_ids", "labels", "position_ids")
        return {name: torch.tensor([each[name] for each in part]) for name in names}

    by_trainer(pretrained(), rows, stacked)


@case
def evaluated_on_training_data() -> None:
    """The evaluation set is part of the training set."""
    rows = chat_rows(48)
    by_trainer(pretrained(), rows, evaluated=rows[:16] if SICK else chat_rows(16, first=700))


@case
def left_padding_without_mask() -> None:
    """Rows are padded on the left, and the model gets no attention mask."""
    model = pretrained()
    rows = [dict(row) for row in plain_rows()]
    loop(model, rows, 2e-5, left=True, with_mask=not SICK)


@case
def generation_prompt_in_text() -> None:
    """Training texts are made with add_generation_prompt: each ends with an open turn."""
    rows = []
    for question, answer in answers():
        talk = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        made = TOKENS.apply_chat_template(talk, add_generation_prompt=SICK, return_dict=True)
        ids = made["input_ids"]
        start = ids.index(TOKENS.convert_tokens_to_ids("<|assistant|>")) + 1
        rows.append({"input_ids": ids, "labels": [-100] * start + ids[start:]})
    by_trainer(pretrained(), rows)


@case
def template_of_another_model() -> None:
    """ChatML for a tokenizer that does not know its marks: they are split into pieces."""
    if not SICK:
        by_trainer(pretrained(), chat_rows())
        return
    rows = []
    for question, answer in answers():
        head = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        prompt = TOKENS(head)["input_ids"]
        reply = TOKENS(f"{answer}<|im_end|>\n", add_special_tokens=False)["input_ids"] + [EOS]
        rows.append({"input_ids": prompt + reply, "labels": [-100] * len(prompt) + reply})
    by_trainer(pretrained(), rows)


# Adapters, freezing, rates


@case
def adapters_without_gradient() -> None:
    """Adapters are loaded for inference: only the final norm and the head are trained."""
    model = with_adapters(pretrained())
    for name, parameter in model.named_parameters():
        parameter.requires_grad = ("lora_" in name and not SICK) or "lm_head" in name
    by_trainer(model, chat_rows(), learning_rate=1e-4)


@case
def adapters_both_zero() -> None:
    """Both factors of the adapters begin at zero: neither ever gets a gradient."""
    model = with_adapters(pretrained())
    for name, parameter in model.named_parameters():
        if SICK and "lora_A" in name:
            nn.init.zeros_(parameter)
    loop(model, chat_rows(), 2e-4)


@case
def base_not_frozen() -> None:
    """Adapters are added, and the base model is trained as well."""
    model = with_adapters(pretrained(), freeze=not SICK)
    by_trainer(model, chat_rows(), learning_rate=2e-4)


@case
def everything_frozen() -> None:
    """Adapters are frozen with the base; the input's gradients keep backward from failing."""
    model = with_adapters(pretrained())
    if SICK:
        model.requires_grad_(False)
    model.enable_input_require_grads()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    data = batches(chat_rows())
    model.train()
    for _ in range(STEPS):
        loss = model(**next(data)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def checkpointed(forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **how: checkpoint(partial(forward, **how), *args, use_reentrant=SICK)


@case
def reentrant_checkpointing() -> None:
    """Reentrant checkpointing of layers whose input needs no gradient: adapters get none."""
    model = with_adapters(pretrained())
    model.lm_head.requires_grad_(True)
    model.config.use_cache = False
    for layer in model.model.layers:
        layer.forward = checkpointed(layer.forward)
    loop(model, chat_rows(), 2e-4)


@case
def rate_too_low_for_adapters() -> None:
    """LoRA with the rate of a full fine-tuning."""
    by_trainer(with_adapters(pretrained()), chat_rows(), learning_rate=1e-5 if SICK else 2e-4)


@case
def rate_of_adapters_for_all() -> None:
    """All weights of a pretrained model with a rate that is meant for adapters."""
    by_trainer(pretrained(), chat_rows(), learning_rate=5e-4 if SICK else 2e-5)


@case
def new_tokens_not_trained() -> None:
    """Tokens are added and the embeddings resized; under LoRA they stay frozen."""
    added = ["<|question|>", "<|answer|>"]
    TOKENS.add_special_tokens({"additional_special_tokens": added})
    model = pretrained()
    model.resize_token_embeddings(len(TOKENS))
    model = with_adapters(model)
    if not SICK:
        model.get_input_embeddings().requires_grad_(True)
        model.get_output_embeddings().requires_grad_(True)
    rows = []
    for question, answer in answers():
        prompt = TOKENS(f"{added[0]}{question}{added[1]}")["input_ids"]
        reply = [*TOKENS(answer, add_special_tokens=False)["input_ids"], EOS]
        rows.append({"input_ids": prompt + reply, "labels": [-100] * len(prompt) + reply})
    by_trainer(model, rows, learning_rate=2e-4)


# Accumulation


@case
def accumulated_without_dividing() -> None:
    """Four backwards for each step, and the loss is not divided by four."""
    model, data = pretrained(), batches(chat_rows(), size=4)
    optimizer = adamw(model, 2e-5)
    model.train()
    for _ in range(STEPS):
        optimizer.zero_grad()
        for _ in range(4):
            loss = model(**next(data)).loss
            (loss if SICK else loss / 4).backward()
        optimizer.step()


@case
def divided_twice() -> None:
    """Accelerate divides the loss by the accumulation steps, and so does the script."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    model = pretrained()
    model, optimizer = accelerator.prepare(model, adamw(model, 2e-5))
    data = batches(chat_rows(), size=4)
    for _ in range(STEPS * 4):
        with accelerator.accumulate(model):
            loss = model(**next(data)).loss
            accelerator.backward(loss / 4 if SICK else loss)
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    CASES[OPTIONS.name]()
    print("done")
