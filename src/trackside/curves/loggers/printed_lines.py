"""Numbers that training scripts print, as far as they can be distinguished in a log:

- bars of tqdm with a postfix: `12/60 [00:02<00:09, 12.89it/s, loss=0.35]`
- lines of transformers' Trainer: `{'loss': '3.03', 'learning_rate': '2e-05', 'epoch': '1.0'}`
- XGBoost's and LightGBM's: `[11]  train-logloss:0.05560  validation-logloss:0.05813`
- the end of an epoch of Keras: `3/3 ━━━━ 0s 72ms/step - accuracy: 0.54 - val_loss: 0.76`
- names of losses and metrics with a number: `iter 20: loss 1.9488`, `Test accuracy: 0.98`
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MOST_CHARACTERS = 1000
"""Of a line; none of these is longer."""

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)"
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_BAR = re.compile(
    r"(?P<about>[^|]{0,200}?):? *\d{1,3}%\|[^|]{0,200}\| *(?P<at>\d{1,15})/(?P<of>\d{1,15}) "
    r"\[[\d:]+<[\d:?]+, *[^,\]]{0,40}(?:, (?P<postfix>[^\]]*))?\]"
)
_EQUAL = re.compile(rf"([A-Za-z_][\w./ -]{{0,60}}?)=({_NUMBER})(?=,|$)", re.I)
_DICT = re.compile(r"\{('[^'{}]{1,80}': '?[^',{}]{1,40}'?(?:, |(?=\})))+\}\s*$")
_IN_DICT = re.compile(rf"'([^'{{}}]{{1,80}})': '?({_NUMBER})'?(?=[,}}])", re.I)
_ROUND = re.compile(rf"\[(\d{{1,9}})\]((?:\s[^\s:][^\t:]{{0,80}}:\s?{_NUMBER})+)\s*$", re.I)
_IN_ROUND = re.compile(rf"\s([^\s:][^\t:]{{0,80}}):\s?({_NUMBER})", re.I)
_KERAS = re.compile(
    r"\s*(\d{1,12})/(\d{1,12}) .{0,200}?(?:s/step|s/epoch)"
    rf"((?: - [\w/ ]{{1,60}}: {_NUMBER})+)\s*$"
)
_IN_KERAS = re.compile(rf" - ([\w/ ]{{1,60}}): ({_NUMBER})")
_WORD = re.compile(
    r"(?<![\w/.-])((?:[A-Za-z][\w/-]{0,30} ){0,2}(?:[A-Za-z][\w/.-]{0,40}[_/.-])?"
    r"(?:loss|losses|acc|accuracy|perplexity|ppl|reward|auc|f1|mse|mae|rmse|bleu|wer|iou|"
    r"episod\w{1,4}_return)(?:[_/.-][\w/.-]{0,40})?)"
    rf"(?:\s{{0,3}}[:=]\s{{0,3}}|\s{{1,3}})({_NUMBER})(?![\w/@]|\.\d|\s?/)",
    re.I,
)
_EPOCH = re.compile(r"\bepochs?\b(?:[^\d]{0,5}\d{1,9}(?:\s?(?:/|of)\s?(\d{1,9}))?)?", re.I)
_COUNTER = re.compile(
    r"(?:^|[^A-Za-z])(?:step|iter|iteration|it)s?\s{0,2}[:=#]?\s{0,2}\[?\s{0,4}(\d{1,15})", re.I
)
_HINT = re.compile(
    rb"\{'|^\[\d|s/step - |s/epoch - |"
    rb"loss|acc|perplexity|ppl|reward|auc|f1|mse|mae|bleu|wer|iou|_return",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Bar:
    """How far a progress bar is, and what it shows."""

    about: str
    """Its description, without numbers: the same for every epoch."""
    at: int
    of: int
    values: dict[str, float] = field(default_factory=dict)
    epochs: int | None = field(default=None, compare=False)
    """Of how many epochs it is about one; 0 if it does not say; None if it is not about one."""


@dataclass(frozen=True, slots=True)
class Printed:
    values: dict[str, float]
    step: int | None = None
    awaits_bar: bool = False
    """The Trainer's step is on the bar that is drawn again below the line."""


def may_have_some(block: bytes) -> bool:
    """Quickly excludes most of the output."""
    return _HINT.search(block) is not None or b"%|" in block


def parse(line: str) -> Bar | Printed | None:
    text = _ESCAPE.sub("", line[:MOST_CHARACTERS])
    if "%|" in text and (found := _BAR.search(text)):
        return _of_bar(found)
    for reads in (_of_trainer, _of_rounds, _of_keras, _of_words):
        if printed := reads(text):
            return printed
    return None


def _of_bar(found: "re.Match[str]") -> Bar:
    at, of = int(found["at"]), int(found["of"])
    postfix = found["postfix"] or ""
    epochs = _epochs(found["about"])
    if "v_num=" in postfix:  # Lightning's: it has its own loggers
        return Bar("", at, of, epochs=epochs)
    if in_words := dict(_values(_WORD, found["about"])):
        return Bar("", at, of, in_words, epochs)
    return Bar(_about(found["about"]), at, of, dict(_values(_EQUAL, postfix)), epochs)


def _epochs(about: str) -> int | None:
    """10 of `Epoch 3/10`, 0 of `Epoch 3`, None of `training`."""
    found = _EPOCH.search(about)
    return None if found is None else int(found[1] or 0)


def _of_trainer(text: str) -> Printed | None:
    if "{'" not in text or (found := _DICT.search(text)) is None:
        return None
    values = dict(_values(_IN_DICT, found[0]))
    if "epoch" not in values and "step" not in values:
        return None
    step = values.get("step")
    metrics = {name: value for name, value in values.items() if name not in ("epoch", "step")}
    if step is not None and step.is_integer():
        return Printed(metrics, int(step))
    return Printed(metrics, awaits_bar=True)


def _of_rounds(text: str) -> Printed | None:
    found = _ROUND.match(text)
    return Printed(dict(_values(_IN_ROUND, found[2])), int(found[1])) if found else None


def _of_keras(text: str) -> Printed | None:
    found = _KERAS.match(text) if "s/" in text else None
    if found is None:
        return None
    # During an epoch they are running means, drawn repeatedly.
    return Printed(dict(_values(_IN_KERAS, found[3])) if found[1] == found[2] else {})


def _of_words(text: str) -> Printed | None:
    values = dict(_values(_WORD, text))
    counter = _COUNTER.search(text)
    return Printed(values, int(counter[1]) if counter else None) if values else None


def _values(pattern: "re.Pattern[str]", text: str) -> Iterator[tuple[str, float]]:
    for name, value in pattern.findall(text):
        yield name.strip(), float(value)


def _about(text: str) -> str:
    """`Epoch 3/10 [train]` is about `train`."""
    words = re.findall(r"[A-Za-z_]+", text)
    return " ".join(word for word in words if word.lower() not in ("epoch", "step", "iteration"))
