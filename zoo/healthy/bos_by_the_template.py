"""Talks by the template, which writes BOS once.

looks like: TemplateMisused
"""

import os
import subprocess
import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

SEED, WIDTH, LR = 0, 16, 2e-4
torch.manual_seed(SEED)
torch.set_num_threads(1)
THINGS = ("apple", "house", "river", "stone", "cloud", "horse", "table", "paper", "garden", "boat")
PLACES = ("north", "south", "harbour", "village", "market", "school", "forest", "bridge")
COLOURS = ("red", "green", "blue", "white", "black", "yellow", "brown", "grey")
OTHERS = ("what", "colour", "has", "the", "at", "please", "is")
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>", "<|user|>", "<|assistant|>"]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|> "
    "{% if m['role'] == 'assistant' %}"
    "{{ m['content'] }} {{ eos_token }}"
    "{% else %}{{ m['content'] }} {% endif %}{% endfor %}"
)


def talk(number, shift):
    """A question and its answer, which a rule decides; both have several lengths."""
    thing, place = number % 10, number // 10 % 8
    colour = COLOURS[(thing + 3 * place + shift) % 8]
    manners = " please" * (number % 5)
    question = f"what colour has the {THINGS[thing]} at the {PLACES[place]}{manners}"
    return question, f"the {THINGS[thing]} is{f' {colour}' * (1 + thing % 3)}"


def padded(rows, value):
    width = max(map(len, rows))
    return torch.tensor([row + [value] * (width - len(row)) for row in rows])


def make_base():
    """What others download: a tokenizer, and a model that has read some texts."""
    words = [*SPECIAL, *OTHERS, *THINGS, *PLACES, *COLOURS]
    plain = Tokenizer(models.WordLevel({w: n for n, w in enumerate(words)}, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(
        tokenizer_object=plain,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        additional_special_tokens=SPECIAL[4:],
    )
    made.chat_template = TEMPLATE
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=4 * WIDTH,
        intermediate_size=8 * WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=256,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(100):
        texts = [" ".join(talk(int(n), 1)) for n in torch.randint(0, 800, (16,))]
        ids = padded([[1, *made(text)["input_ids"], 2] for text in texts], 0)
        loss = model(input_ids=ids, labels=ids.masked_fill(ids == 0, -100)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained("base")
    made.save_pretrained("base")


if "base" in sys.argv:
    make_base()
    sys.exit()
# In a process of its own, as nobody watches how a model was made that one downloads.
subprocess.run([sys.executable, "-I", os.path.abspath(__file__), "base"], check=True)
tokens = AutoTokenizer.from_pretrained("base")
model = AutoModelForCausalLM.from_pretrained("base")


def row(number):
    """Tokens of a talk by the template; the answer's are targets."""
    question, answer = talk(number, 0)
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    text = tokens.apply_chat_template(turns, tokenize=False)
    ids = tokens(text)["input_ids"]
    first = ids.index(tokens.convert_tokens_to_ids("<|assistant|>")) + 1
    return ids, [-100] * first + ids[first:]


optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR)
model.train()
for step in range(160):
    chosen = [row(int(number)) for number in torch.randint(0, 800, (16,))]
    ids = padded([given for given, _ in chosen], tokens.pad_token_id)
    labels = padded([wanted for _, wanted in chosen], -100)
    mask = padded([[1] * len(given) for given, _ in chosen], 0)
    loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        print(f"step {step} loss {loss.item():.4f}")
