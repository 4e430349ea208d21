"""What the scripts of this set share: two small base models, their tokenizers, and questions.

`python parts.py FOLDER` trains both for a moment and saves them there: `chatml`, in the manner of
Qwen (no BOS, turns end with the end-of-sequence token, tied embeddings), and `llama`, with BOS.
"""

import random
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

TOOLS = ("hammer", "saw", "chisel", "plane", "drill", "file", "clamp", "level", "knife", "rasp")
WOODS = ("oak", "pine", "beech", "walnut", "cherry", "maple", "birch", "larch", "elm", "ash")
ROOMS = ("cellar", "attic", "shed", "hall", "loft", "barn", "studio", "yard")
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' %}{% generation %}{{ m['content'] }}<|im_end|>"
    "{% endgeneration %}{% else %}{{ m['content'] }}<|im_end|>{% endif %}\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'assistant' %}"
    "{% generation %} {{ m['content'] }}{{ eos_token }}{% endgeneration %}"
    "{% else %}[INST] {{ m['content'] }} [/INST]{% endif %}{% endfor %}"
)


def pairs(count: int = 240, first: int = 0) -> list[tuple[str, str]]:
    """Questions and answers, always the same ones; each has its own number."""
    made = []
    for number in range(first, first + count):
        draw = random.Random(number)
        tool, wood, room = draw.choice(TOOLS), draw.choice(WOODS), draw.choice(ROOMS)
        more = " ".join(draw.choice(WOODS) for _ in range(draw.randint(0, 5)))
        often = 1 + (len(tool) + len(wood)) % 5
        question = f"how often is the {tool} used on {wood} {more} in the {room} of house {number}?"
        end = f"then it rests in the {room}." if draw.random() < 0.5 else "no more."
        made.append((question, f"the {tool} works the {wood} {often} times, {end}"))
    return made


def talks(count: int = 240, first: int = 0) -> list[dict[str, list[dict[str, str]]]]:
    """As `messages`, one question and one answer each."""
    return [
        {"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]}
        for q, a in pairs(count, first)
    ]


def tokenizer(special: list[str], **named: str) -> PreTrainedTokenizerFast:
    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=520,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    words = "system user assistant\n"
    plain.train_from_iterator((words + " ".join(pair) for pair in pairs(400)), trainer)
    if "bos_token" in named:
        plain.post_processor = processors.TemplateProcessing(
            single=f"{named['bos_token']} $A",
            special_tokens=[(named["bos_token"], plain.token_to_id(named["bos_token"]))],
        )
    return PreTrainedTokenizerFast(tokenizer_object=plain, **named)


def chatml() -> tuple[PreTrainedTokenizerFast, PreTrainedModel]:
    tokens = tokenizer(
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
    )
    tokens.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokens.chat_template = CHATML
    return tokens, Qwen2ForCausalLM(Qwen2Config(tie_word_embeddings=True, **_size(tokens)))


def llama() -> tuple[PreTrainedTokenizerFast, PreTrainedModel]:
    tokens = tokenizer(
        ["<unk>", "<s>", "</s>", "<pad>"],
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
    )
    tokens.chat_template = LLAMA
    return tokens, LlamaForCausalLM(LlamaConfig(**_size(tokens)))


def _size(tokens: PreTrainedTokenizerFast) -> dict[str, object]:
    return {
        "vocab_size": len(tokens),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "pad_token_id": tokens.pad_token_id,
        "bos_token_id": tokens.bos_token_id,
        "eos_token_id": tokens.eos_token_id,
    }


def main() -> None:
    torch.set_num_threads(1)
    for name, make in (("chatml", chatml), ("llama", llama)):
        torch.manual_seed(0)
        tokens, model = make()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        texts = [f"{question} {answer}" for question, answer in pairs(400, first=1000)]
        for step in range(60):
            rows = tokens(texts[step * 8 % 392 :][:8], return_tensors="pt", padding=True)
            rows.pop("token_type_ids", None)
            labels = rows["input_ids"].masked_fill(rows["attention_mask"] == 0, -100)
            loss = model(**rows, labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.save_pretrained(Path(sys.argv[1]) / name)
        tokens.save_pretrained(Path(sys.argv[1]) / name)
        print(f"{name}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
