"""What a language model is trained on, by its first batches: which tokens are targets, how texts
begin and end, who sees whom, and how the loss is scaled. For causal models that have a
configuration of transformers.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trackside.capture.vitals.losses import LossCall
from trackside.capture.vitals.tokenizer_finder import (
    ASSISTANT,
    MARKS,
    USER,
    Special,
    find_tokenizer,
    special_tokens,
)

_MOST_BATCHES = 12
"""Of training that are looked at: what is wrong with the first ones is wrong with all."""
_MOST_EVALUATED = 64
"""Batches of each kind whose rows are remembered, to be found again in the other."""
_MOST_TOKENS = 1 << 14
_MOST_SCALES = 32
_ROWS_READ, _ROWS_SHOWN, _SHOWN = 4, 3, 900
"""Rows of a batch whose text is read, those that are kept, and characters of each."""
_LAST = 3
"""Tokens at the end of a text among which the one that ends it is."""
_IGNORED = -100
"""The label that models of transformers leave out of their loss."""
_MOST_LENGTHS = 16
"""Different lengths of answers that are kept: whether they differ is what counts."""
_CAUSAL = ("ForCausalLM", "LMHeadModel")
_SHIFTS = (0, 1, 2)
_NORMS = ("norm", "ln_", "layernorm")
_ROWS_COMPARED = 4096
_NEAR_MEAN = 0.1
"""Of the usual distance: a row of the embedding that is nearer to their mean has never been
trained, since new rows begin there."""


class TextWatch:
    def __init__(self) -> None:
        self.keeps_text = True
        self.is_changed = False
        self._counts: Counter[str] = Counter()
        self._widths: set[int] = set()
        self._cut_lengths: set[int] = set()
        self._has_loss = self._has_backward = False
        self._model: Any = None
        self._is_known = False
        self._tokenizer: Any = None
        self._special: Special | None = None
        self._batch: dict[str, Tensor] | None = None
        self._mean: float | None = None
        self._scales: list[float] = []
        self._rows: dict[bool, set[bytes]] = {True: set(), False: set()}
        self._num_batches: Counter[bool] = Counter()
        self._shown: list[list[list[str]]] = []
        self._foreign = ""
        self._facts: dict[str, Any] = {}

    def begin(self, root: nn.Module, given: tuple[Any, ...], trains: bool) -> None:
        """A call of a model, with gradients or without; all but the first are left alone.

        Without gradients but in training mode, or before anything is trained, it is a reference (as
        of DPO) or a rollout, and no evaluation.
        """
        if not trains and (root.training or not self._has_backward):
            return
        self._batch = self._mean = None
        if self._num_batches[trains] >= _MOST_EVALUATED:
            return
        self._num_batches[trains] += 1
        named = _named(given)
        tokens = named.get("input_ids")
        if tokens is None or not self._knows(root):
            return
        self._remember(tokens, trains)
        if trains and self._num_batches[True] <= _MOST_BATCHES:
            self._batch = named

    def see_loss(self, call: LossCall) -> None:
        """A loss over classes: its targets are those of the batch, if there are as many."""
        if self._batch is None or self._special is None or call.target.is_floating_point():
            return
        tokens = self._batch["input_ids"]
        targets = _as_rows(call.target, tuple(tokens.shape))
        if targets is None or tokens.numel() > _MOST_TOKENS:
            return
        wanted = targets.cpu().numpy()
        trained = wanted != call.ignored
        if call.value is not None:
            total = float(call.value)
            count = max(int(trained.sum()), 1)
            self._mean = total / count if call.reduction == "sum" else total
        self._has_loss = True
        self._see_targets(tokens.cpu().numpy(), wanted, trained)

    def _see_targets(self, given: Any, wanted: Any, trained: Any) -> None:
        self._compare(given, wanted, trained)
        self._see_rows(given, trained)
        self._batch = None
        self.is_changed = True

    def _see_labels(self) -> None:
        """Labels that the model was given, if it computes its loss by no function that is seen, as
        with TRL's fused head: models of transformers compare them with the scores one place before.
        """
        if self._batch is None or self._special is None or self._has_loss:
            return
        tokens, labels = self._batch["input_ids"], self._batch.get("labels")
        if labels is None or labels.shape != tokens.shape or tokens.numel() > _MOST_TOKENS:
            return
        wanted = labels[:, 1:].cpu().numpy()
        self._see_targets(tokens.cpu().numpy(), wanted, wanted != _IGNORED)

    def see_backward(self, loss: Any) -> None:
        self._has_backward = True
        self._see_labels()
        mean, self._mean = self._mean, None
        is_known = bool(mean) and isinstance(loss, Tensor) and loss.numel() == 1
        if is_known and mean is not None and len(self._scales) < _MOST_SCALES:
            self._scales.append(float(loss.detach()) / mean)
            self.is_changed = True

    def to_json(self) -> dict[str, Any] | None:
        self.is_changed = False
        if not self._is_known or self._model is None:
            return None
        return {
            **self._facts,
            **self._counts,
            "widths": sorted(self._widths),
            "cut_lengths": sorted(self._cut_lengths),
            "scales": [round(each, 6) for each in self._scales],
            "foreign_mark": self._foreign,
            "shown": self._shown if self.keeps_text else [],
        }

    def _knows(self, root: nn.Module) -> bool:
        if not self._is_known:
            self._is_known = True
            self._model = _language_model(root)
            if self._model is not None:
                self._look()
        return self._model is not None

    def _look(self) -> None:
        config = self._model.config
        self._tokenizer = find_tokenizer(int(config.vocab_size))
        self._special = special = special_tokens(config, self._tokenizer)
        self._facts = {
            "model": type(self._model).__name__,
            "is_pad_end": special.pad is not None and special.pad in special.ends,
            "is_pretrained": _is_pretrained(self._model),
            "zero_adapters": list(_zero_adapters(self._model)),
        }

    def _remember(self, tokens: Tensor, trains: bool) -> None:
        if tokens.numel() > _MOST_TOKENS or self._special is None:
            return
        for row in tokens.cpu().numpy():
            key = row[row != (-1 if self._special.pad is None else self._special.pad)].tobytes()
            self._rows[trains].add(key)
        self._counts["num_evaluated"] = len(self._rows[False])
        both = len(self._rows[True] & self._rows[False])
        self.is_changed |= both != self._counts["num_evaluated_trained"]
        self._counts["num_evaluated_trained"] = both

    def _compare(self, tokens: Any, wanted: Any, trained: Any) -> None:
        """How many targets are the token at their own place, the next, and the one after."""
        width = tokens.shape[1]
        for shift in _SHIFTS:
            span = min(wanted.shape[1], width - shift)
            counts = trained[:, :span]
            same = (wanted[:, :span] == tokens[:, shift : shift + span]) & counts
            self._counts[f"num_shifted_{shift}"] += int(same.sum())
            self._counts[f"num_compared_{shift}"] += int(counts.sum())

    def _see_rows(self, tokens: Any, trained: Any) -> None:
        """`trained` is by the place that predicts: a token is trained on if the place before it
        has it as a target."""
        is_target = np.zeros(tokens.shape, bool)
        span = min(trained.shape[1], tokens.shape[1] - 1)
        is_target[:, 1 : 1 + span] = trained[:, :span]
        real = self._real(tokens)
        self._widths.add(int(tokens.shape[1]))
        self._counts["num_batches"] += 1
        self._counts["num_blank_tokens"] += self._num_blank(tokens[real])
        self._counts["num_shared_prompts"] += _num_shared(tokens, is_target, real)
        self._see_separation()
        for number, (row, mark, kept) in enumerate(zip(tokens, is_target, real, strict=True)):
            self._see_row(row, mark, kept)
            if number < _ROWS_READ and self._tokenizer is not None:
                self._read(row, mark, kept)

    def _real(self, tokens: Any) -> Any:
        """Where there is text: by the attention mask, or by the padding token."""
        assert self._special is not None
        assert self._batch is not None
        mask = self._batch.get("attention_mask")
        is_pad = np.zeros(tokens.shape, bool)
        if self._special.pad is not None and self._special.pad not in self._special.ends:
            is_pad = tokens == self._special.pad
        if mask is None or tuple(mask.shape) != tokens.shape:
            self._counts["num_padded_left"] += int(is_pad[:, :2].all(axis=1).sum())
            return ~is_pad
        seen = mask.cpu().numpy() != 0
        self._counts["num_padded_left"] += int((is_pad & seen)[:, :2].all(axis=1).sum())
        return seen & ~is_pad

    def _see_separation(self) -> None:
        """Whether texts that share a row are told apart."""
        assert self._batch is not None
        positions, mask = self._batch.get("position_ids"), self._batch.get("attention_mask")
        starts_again = positions is not None and positions.dim() == 2
        if starts_again and positions is not None:
            starts_again = bool((positions[:, 1:] == 0).any())
        has_blocks = mask is not None and mask.dim() > 2
        if starts_again or has_blocks or any("seq_lens" in name for name in self._batch):
            self._counts["num_separated"] += 1

    def _see_row(self, row: Any, mark: Any, kept: Any) -> None:
        assert self._special is not None
        text, targets = row[kept], mark[kept]
        seen = {
            "num_rows": 1,
            "num_tokens": len(text),
            "num_trained": int(targets.sum()),
            "num_untrained_rows": not targets.any(),
            "num_doubled_starts": _is_doubled(text, self._special.bos),
            "num_packed": self._is_packed(text, is_full=len(text) == len(row)),
            "num_open_turns": _ends_with(text, self._special.open_turn),
        }
        if targets.any():
            seen |= self._end(text, targets, is_full=len(text) == len(row))
        self._counts.update({name: int(value) for name, value in seen.items()})

    def _end(self, text: Any, targets: Any, *, is_full: bool) -> dict[str, Any]:
        assert self._special is not None
        is_end = np.isin(text, list(self._special.ends))
        has_end = bool(is_end[-_LAST:].any())
        is_trained = bool((is_end & targets).any())
        pad_hides = self._special.pad in self._special.ends and not is_trained
        if is_full and not has_end and len(self._cut_lengths) < _MOST_LENGTHS:
            self._cut_lengths.add(int(targets.sum()))
        return {
            "num_ends_trained": is_trained,
            "num_ends_masked": (has_end and not is_trained) or (pad_hides and not is_full),
            "num_ends_missing": not has_end and not is_trained and not is_full,
            "num_cut": is_full and not has_end,
        }

    def _is_packed(self, text: Any, *, is_full: bool) -> bool:
        """Whether a text begins within the row, behind another."""
        special = self._special
        assert special is not None
        if special.begins_texts:
            begins = text == special.bos
            # A row that begins otherwise was cut out of many; or the token stands between two
            # parts of one text.
            is_after_end = begins[1:] & np.isin(text[:-1], list(special.ends))
            return bool(is_after_end.any() or (begins[:1].any() and begins[2:].any()))
        if special.turn is None or not is_full or text[0] == special.turn:
            return False
        # Turns of one talk begin alike; a row that begins and ends within one was cut out of many.
        is_open = not np.isin(text[-_LAST:], list(special.ends)).any()
        return is_open and bool((text == special.turn).any())

    def _num_blank(self, used: Any) -> int:
        """Tokens of the batch whose embedding is frozen and still as it was made."""
        table = self._model.get_input_embeddings()
        weight = getattr(table, "weight", None)
        if weight is None or not used.size or any(p.requires_grad for p in table.parameters()):
            return 0
        with torch.no_grad():
            rows = weight[:_ROWS_COMPARED].float()
            mean = rows.mean(0)
            usual = (rows - mean).norm(dim=1).median()
            numbers = torch.from_numpy(np.unique(used)).to(weight.device)
            away = (weight[numbers].float() - mean).norm(dim=1)
            return int((away < _NEAR_MEAN * usual).sum())

    def _read(self, row: Any, mark: Any, kept: Any) -> None:
        pieces = [self._tokenizer.decode([int(each)]) for each in row]
        spans = _spans(pieces, row, mark, kept, self._special)
        if len(self._shown) < _ROWS_SHOWN:
            self._shown.append(_short(spans))
        text, starts = _joined(pieces, kept)
        self._see_prompt(text, starts, mark)
        template = str(getattr(self._tokenizer, "chat_template", None) or "")
        for each in MARKS if template else ():
            if each in text and each not in pieces and each not in template:
                self._counts["num_foreign"] += 1
                self._foreign = each
                return

    def _see_prompt(self, text: str, starts: list[int], mark: Any) -> None:
        """Of what a user says, between two marks: how much of it is trained on."""
        place = 0
        while (user := USER.search(text, place)) is not None:
            reply = ASSISTANT.search(text, user.end())
            if reply is None:
                return
            inside = [n for n, at in enumerate(starts) if user.end() <= at < reply.start()]
            self._counts["num_prompt_tokens"] += len(inside)
            self._counts["num_prompt_trained"] += int(mark[inside].sum())
            place = reply.end()


def _named(given: tuple[Any, ...]) -> dict[str, Tensor]:
    """Tensors that a model was given, by name; the first of token numbers as `input_ids`."""
    args, kwargs = given
    named: dict[str, Any] = {}
    for each in args:
        if isinstance(each, Mapping):
            named |= {str(name): value for name, value in each.items()}
    named |= kwargs
    found = {name: value for name, value in named.items() if isinstance(value, Tensor)}
    first = args[0] if args else None
    if "input_ids" not in found and isinstance(first, Tensor):
        found["input_ids"] = first
    tokens = found.get("input_ids")
    if tokens is None or tokens.dim() != 2 or tokens.dtype not in (torch.int64, torch.int32):
        found.pop("input_ids", None)
    return found


def _language_model(root: nn.Module) -> Any:
    for module in root.modules():
        config = getattr(module, "config", None)
        if type(module).__name__.endswith(_CAUSAL) and hasattr(config, "vocab_size"):
            return module
    return None


def _as_rows(target: Tensor, shape: tuple[int, ...]) -> Tensor | None:
    for width in (shape[1], shape[1] - 1):
        if width > 0 and target.numel() == shape[0] * width:
            return target.reshape(shape[0], width)
    return None


def _is_pretrained(model: nn.Module) -> bool:
    """Norms of an untrained model are exactly 1."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1 and name.endswith("weight") and any(n in name for n in _NORMS):
            return bool((parameter.detach() != 1).any())
    return False


def _zero_adapters(model: nn.Module) -> Iterator[str]:
    """Low-rank pairs of which both factors are zero: neither can get a gradient."""
    factors = {n: p for n, p in model.named_parameters() if "lora_A" in n}
    others = dict(model.named_parameters())
    for name, down in factors.items():
        up = others.get(name.replace("lora_A", "lora_B"))
        if up is not None and not down.detach().any() and not up.detach().any():
            yield name


def _num_shared(tokens: Any, is_target: Any, real: Any) -> int:
    """Rows that have what is before their first target in common with another row of the batch, as
    answers that are compared have."""
    prompts: Counter[bytes] = Counter()
    for row, mark, kept in zip(tokens, is_target, real, strict=True):
        first = int(mark.argmax())
        if mark[first] and kept[:first].any():
            prompts[row[:first][kept[:first]].tobytes()] += 1
    return sum(count for count in prompts.values() if count > 1)


def _is_doubled(text: Any, bos: int | None) -> bool:
    return bos is not None and len(text) > 2 and text[0] == text[1] == bos != text[2]


def _ends_with(text: Any, end: tuple[int, ...]) -> bool:
    return bool(end) and tuple(text[-len(end) :].tolist()) == end


def _joined(pieces: list[str], kept: Any) -> tuple[str, list[int]]:
    starts, text = [], ""
    for piece, is_kept in zip(pieces, kept, strict=True):
        starts.append(len(text) if is_kept else -1)
        text += piece if is_kept else ""
    return text, starts


def _spans(
    pieces: list[str], row: Any, mark: Any, kept: Any, special: Special | None
) -> list[list[str]]:
    """Neighbours of one kind together: `trained`, `given`, `padding`, and special tokens of both
    the first, `special trained` and `special`."""
    spans: list[list[str]] = []
    for piece, token, is_trained, is_kept in zip(pieces, row, mark, kept, strict=True):
        kind = "trained" if is_trained else "given" if is_kept else "padding"
        if kind != "padding" and special is not None and int(token) in special.every:
            kind = "special trained" if is_trained else "special"
        if spans and spans[-1][0] == kind:
            spans[-1][1] += piece
        else:
            spans.append([kind, piece])
    return spans


def _short(spans: list[list[str]]) -> list[list[str]]:
    left, kept = _SHOWN, []
    for kind, text in spans:
        if left <= 0:
            break
        kept.append([kind, text[:left] if kind != "padding" else text[: left // 10]])
        left -= len(text)
    return kept
