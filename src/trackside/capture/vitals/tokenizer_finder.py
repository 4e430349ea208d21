"""Finds the tokenizer that a script uses, and asks it about its special tokens.

No tokenizer is imported or created: it is looked up among the objects that exist, once.
"""

import gc
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_BASE = "transformers.tokenization_utils_base"
USER = re.compile(
    r"<\|user\|>|<\|im_start\|>user|<\|start_header_id\|>user|<start_of_turn>user|\[INST\]"
    r"|###\s?(?:Instruction|Question|Input|Human|User)\b|(?:^|\n)\s*(?:Human|User|Question|Q)\s?:"
)
"""What begins a user's turn, in the templates that are in use."""
ASSISTANT = re.compile(
    r"<\|assistant\|>|<\|im_start\|>assistant|<\|start_header_id\|>assistant"
    r"|<start_of_turn>model|\[/INST\]|###\s?(?:Response|Answer|Output|Assistant)\b"
    r"|(?:^|\n)\s*(?:Assistant|Answer|A)\s?:"
)
MARKS = ("<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<start_of_turn>")
"""Single tokens of the models whose templates have them."""

_ENDING = re.compile(r"</s>|im_end|end_of|endof|eot|eos|<end", re.IGNORECASE)
"""Names of special tokens that end a text or a turn."""


@dataclass(frozen=True)
class Special:
    """Token numbers; a set is empty, and a number None, where nothing is known."""

    bos: int | None
    pad: int | None
    ends: frozenset[int]
    """The end of a text, or of a turn."""
    every: frozenset[int]
    open_turn: tuple[int, ...] = ()
    """What the template adds when a text is to be continued by the model."""
    begins_texts: bool = False
    """BOS is at the beginning of each text, and nowhere else."""
    turn: int | None = None
    """The special token that the template begins each turn with."""


def find_tokenizer(num_tokens: int) -> Any:
    """The only one whose tokens a model with so many has; None if there is none, or several."""
    base = getattr(sys.modules.get(_BASE), "PreTrainedTokenizerBase", None)
    if base is None:
        return None
    found = [each for each in gc.get_objects() if issubclass(type(each), base)]
    fitting = [each for each in found if len(each) <= num_tokens] or found
    vocabularies = {(type(each), len(each), each.pad_token_id) for each in fitting}
    return fitting[-1] if len(vocabularies) == 1 else None


def special_tokens(config: Any, tokenizer: Any) -> Special:
    bos, pad, end = (
        _number(tokenizer, config, f"{name}_token_id") for name in ("bos", "pad", "eos")
    )
    ends = set(_all(getattr(config, "eos_token_id", None))) | set(_all(end))
    ends |= _ends_of_turns(tokenizer) - {pad}
    every = set(getattr(tokenizer, "all_special_ids", ())) | ends | {bos, pad} - {None}
    turns = _two_turns(tokenizer)
    first = turns[0] if turns and turns.count(turns[0]) > 1 else None
    return Special(
        bos if isinstance(bos, int) else None,
        pad if isinstance(pad, int) else None,
        frozenset(ends),
        frozenset(every),
        _open_turn(tokenizer),
        begins_texts=isinstance(bos, int) and bos not in ends and turns.count(bos) <= 1,
        turn=first if first in every else None,
    )


def _ends_of_turns(tokenizer: Any) -> set[int]:
    names = getattr(tokenizer, "all_special_tokens", ())
    numbers = getattr(tokenizer, "all_special_ids", ())
    return {n for name, n in zip(names, numbers, strict=False) if _ENDING.search(str(name))}


def _number(tokenizer: Any, config: Any, name: str) -> Any:
    known = getattr(tokenizer, name, None)
    return getattr(config, name, None) if known is None else known


def _all(value: Any) -> list[int]:
    return [
        each for each in (value if isinstance(value, list | tuple) else [value]) if each is not None
    ]


def _two_turns(tokenizer: Any) -> list[int]:
    """Tokens of a talk of two questions; empty without a template."""
    if not getattr(tokenizer, "chat_template", None):
        return []
    talk = [{"role": role, "content": "a"} for role in ("user", "assistant") * 2]
    with suppress(Exception):  # a template may refuse any talk
        text = tokenizer.apply_chat_template(talk, tokenize=False)
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])
    return []


def _open_turn(tokenizer: Any) -> tuple[int, ...]:
    if not getattr(tokenizer, "chat_template", None):
        return ()
    talk = [{"role": "user", "content": "a"}]
    with suppress(Exception):  # a template may refuse any talk
        closed, opened = (
            tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=more)
            for more in (False, True)
        )
        added = opened[len(closed) :] if opened.startswith(closed) else ""
        return tuple(tokenizer(added, add_special_tokens=False)["input_ids"]) if added else ()
    return ()
