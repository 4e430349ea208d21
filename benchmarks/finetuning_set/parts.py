"""What the scripts of this set share: a small base model, its tokenizer, and questions.

`python parts.py FOLDER` trains the base model for a moment and saves it there, so that the
scripts load it as people load one from a hub.
"""

import random
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

COLOURS = ("red", "green", "blue", "white", "black", "yellow", "brown", "grey")
THINGS = (
    "apple",
    "house",
    "river",
    "stone",
    "cloud",
    "horse",
    "table",
    "paper",
    "garden",
    "window",
)
PLACES = ("north", "south", "harbour", "village", "market", "school", "forest", "bridge")
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'assistant' %}<|assistant|>"
    "{% generation %}{{ m['content'] }}{{ eos_token }}{% endgeneration %}"
    "{% else %}<|user|>{{ m['content'] }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def answers(count: int = 240, first: int = 0) -> list[tuple[str, str]]:
    """Questions and answers, always the same ones; each has its own number."""
    made = []
    for number in range(first, first + count):
        draw = random.Random(number)
        thing, place = draw.choice(THINGS), draw.choice(PLACES)
        more = " ".join(draw.choice(PLACES) for _ in range(draw.randint(0, 6)))
        colour = COLOURS[(len(thing) * 3 + len(place)) % len(COLOURS)]
        question = f"what colour has the {thing} number {number} at the {place} {more}?"
        words = " ".join([colour] * draw.randint(1, 3))
        made.append((question, f"the {thing} at the {place} is {words}."))
    return made


def tokenizer() -> PreTrainedTokenizerFast:
    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    special = ["<pad>", "<s>", "</s>", "<|user|>", "<|assistant|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    plain.train_from_iterator((" ".join(pair) for pair in answers(400)), trainer)
    plain.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    made = PreTrainedTokenizerFast(
        tokenizer_object=plain,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=special[3:],
    )
    made.chat_template = TEMPLATE
    return made


def base_model(tokens: PreTrainedTokenizerFast, *, tied: bool = False) -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokens),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=512,
            pad_token_id=tokens.pad_token_id,
            bos_token_id=tokens.bos_token_id,
            eos_token_id=tokens.eos_token_id,
            tie_word_embeddings=tied,
        )
    )


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    tokens = tokenizer()
    model = base_model(tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    texts = [f"{question} {answer}" for question, answer in answers(400, first=1000)]
    for step in range(80):
        rows = tokens(texts[step * 8 % 392 :][:8], return_tensors="pt", padding=True)
        labels = rows["input_ids"].masked_fill(rows["attention_mask"] == 0, -100)
        loss = model(**rows, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    print(f"base model: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
