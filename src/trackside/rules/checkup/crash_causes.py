"""Why an exception of PyTorch was raised, in terms of the training: by its message and, where the
hook was there, by the layers and tensors that it passed through.

`explain` is pure. The check-up's rule reports it; for jobs that were not watched, the hint beside
the reason of a failure is made of the message alone.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from trackside.quick_dataclass import dataclass
from trackside.rules.checkup.crash_texts import PLAIN
from trackside.texts.tracebacks import Frame

if TYPE_CHECKING:
    from trackside.capture.reading.anatomy import CallFacts, TensorFacts

_TARGETS = ("target", "targets", "label", "labels", "y")
_INPUTS = ("input", "inputs", "x", "logits")
_WHOLE = ("int64", "int32", "int16", "uint8", "int8")


@dataclass(frozen=True, slots=True)
class Explained:
    message: str
    """One sentence."""
    advice: str
    layer: str = ""
    """Where it concerns one."""


class Seen:
    """The calls of an exception; without any, nothing is known beyond its message."""

    def __init__(self, calls: Sequence["CallFacts"]) -> None:
        self._calls = calls

    @property
    def place(self) -> str:
        """`train.py:41`, of the script's own innermost line; "" if there is none."""
        own = [each for each in self._calls if Frame(each.path, each.line, "").is_users(os.devnull)]
        return f"{own[-1].path}:{own[-1].line}" if own else ""

    @property
    def layer(self) -> "CallFacts | None":
        """The innermost layer that was running."""
        return next((each for each in reversed(self._calls) if each.layer), None)

    def named_layer(self, otherwise: str) -> str:
        return f"Layer {self.layer.layer!r}" if self.layer else otherwise

    def tensor(self, names: Sequence[str], is_whole: bool | None = None) -> "TensorFacts | None":
        """The innermost tensor under one of these names."""
        for call in reversed(self._calls):
            for each in call.tensors:
                fits = is_whole is None or (each.dtype in _WHOLE) == is_whole
                if each.name in names and fits:
                    return each
        return None

    def tensors(self) -> Iterator["TensorFacts"]:
        for call in reversed(self._calls):
            yield from call.tensors


_Explain = Callable[[re.Match[str], Seen], Explained]


def explain(message: str, calls: Sequence["CallFacts"] = ()) -> Explained | None:
    """None for exceptions that say all there is to say, and for those of the script's own."""
    seen = Seen(calls)
    explained = _explained(message, seen)
    if explained is None:
        return None
    where = f" ({seen.place})" if seen.place else ""
    return Explained(
        f"{explained.message}{where}.",
        explained.advice,
        explained.layer or (seen.layer.layer if seen.layer else ""),
    )


def _explained(message: str, seen: Seen) -> Explained | None:
    for pattern, say in _CAUSES:
        if found := re.search(pattern, message):
            return say(found, seen)
    for pattern, sentence, advice in PLAIN:
        if found := re.search(pattern, message):
            groups = found.groupdict()
            return Explained(sentence.format(**groups), advice.format(**groups))
    return None


def _label_out_of_range(found: re.Match[str], seen: Seen) -> Explained:
    label = int(found["label"])
    scores, target = seen.tensor(_INPUTS, is_whole=False), seen.tensor(_TARGETS, is_whole=True)
    classes = scores.shape[1] if scores is not None and len(scores.shape) > 1 else None
    known = f"has {classes} outputs, for classes 0 to {classes - 1}" if classes else "has fewer"
    least = target.least if target is not None else None
    if label < 0:
        advice = "Number the classes from 0; ignore_index=LABEL of the loss leaves a label out."
    elif classes and label == classes and least is not None and least >= 1:
        advice = f"Labels begin at {least:.0f}: subtract {least:.0f}, so that they begin at 0."
    else:
        advice = "Give the last layer an output for every class, from 0 to the largest label."
    return Explained(f"A label is {label}, and the model {known}", advice)


def _index_out_of_range(found: re.Match[str], seen: Seen) -> Explained:
    layer = seen.layer
    rows = re.match(r"Embedding\((\d+),", layer.layer_kind) if layer else None
    given = seen.tensor(_INPUTS, is_whole=True)
    what = f"{seen.named_layer('An embedding')} has {rows[1] if rows else 'fewer'} rows"
    if given is not None and given.least is not None and given.most is not None:
        index = given.least if given.least < 0 else given.most
        what += f", and gets the index {index:.0f}"
    else:
        what += ", and gets an index outside of them"
    return Explained(
        what,
        "Make the embedding as long as the vocabulary (the largest index + 1), or look for the "
        "tokens that are new: after tokens were added, resize the embedding; positions may exceed "
        "the longest sequence.",
    )


def _wrong_features(found: re.Match[str], seen: Seen) -> Explained:
    rows, given, expected = found["rows"], found["given"], found["expected"]
    tensor = seen.tensor(_INPUTS)
    shape = f" in an input of shape {list(tensor.shape)}" if tensor is not None else ""
    what = (
        f"{seen.named_layer('A linear layer')} expects {expected} features and gets {given}{shape}"
    )
    if tensor is not None and len(tensor.shape) > 2 and _size(tensor.shape[1:]) == int(expected):
        return Explained(what, "Flatten the input before this layer: x.flatten(1).")
    if rows == expected:
        return Explained(what, "The axes may be swapped: it would fit the transposed input.")
    return Explained(
        what,
        f"Make it a layer of {given} inputs, or change the layer before it; the size after "
        "convolutions depends on the size of the images.",
    )


def _wrong_channels(found: re.Match[str], seen: Seen) -> Explained:
    sizes = [int(each) for each in re.findall(r"\d+", found["shape"])]
    what = (
        f"{seen.named_layer('A convolution')} expects {found['expected']} channels and gets "
        f"{found['given']} in an input of shape {sizes}"
    )
    if sizes and sizes[-1] == int(found["expected"]):
        return Explained(
            what, "The channels are the last axis: put them second, by permute(0, 3, 1, 2)."
        )
    return Explained(
        what,
        f"Make it a layer of {found['given']} channels, or convert the images: grey ones have 1, "
        "coloured ones 3.",
    )


def _wrong_batch(found: re.Match[str], seen: Seen) -> Explained:
    given, expected = int(found["given"]), int(found["expected"])
    scores, target = seen.tensor(_INPUTS, is_whole=False), seen.tensor(_TARGETS)
    shapes = ""
    if scores is not None and target is not None:
        shapes = f": shapes {list(scores.shape)} and {list(target.shape)}"
    advice = "Predictions and targets of a batch must come from the same samples."
    if expected and given % expected == 0 or given and expected % given == 0:
        advice = (
            "One of the two was flattened and the other was not: give both the same leading axes."
        )
    return Explained(f"The loss gets {given} predictions for {expected} targets{shapes}", advice)


def _different_sizes(found: re.Match[str], seen: Seen) -> Explained:
    return Explained(
        f"Two tensors of {found['a']} and {found['b']} elements along axis {found['axis']} are "
        f"combined{_shapes(seen)}",
        "Compare the shapes of both before this line; a size that differs only in the last batch "
        "comes from an incomplete batch (drop_last=True).",
    )


def _target_shape(found: re.Match[str], seen: Seen) -> Explained:
    target, given = _numbers(found["target"]), _numbers(found["given"])
    advice = "Give both the same shape."
    if given[:-1] == target and given[-1:] == [1]:
        advice = (
            "Predictions have one axis more: use logits.squeeze(1), or y.unsqueeze(1) for targets."
        )
    elif len(given) > len(target):
        advice = "For classes as numbers use cross_entropy; for this loss, one-hot targets."
    return Explained(
        f"The loss gets predictions of shape {given} and targets of shape {target}", advice
    )


def _types_differ(found: re.Match[str], seen: Seen) -> Explained:
    first, second = found["first"], found["second"]
    what = f"{seen.named_layer('An operation')} gets {first} and {second} values at once"
    if "Half" in (first, second) or "BFloat16" in (first, second):
        advice = "Run the forward pass in torch.autocast, or convert model and input to one type."
    elif first == "Long":
        advice = "Convert class numbers and indices by y.long()."
    elif "Double" in (first, second):
        advice = (
            "numpy's numbers are double: convert the input by x.float(), or make arrays of float32."
        )
    else:
        advice = "Convert the input by x.float()."
    return Explained(what, advice)


def _target_type(found: re.Match[str], seen: Seen) -> Explained:
    return Explained(
        f"The loss over classes gets targets of type {found['given']}",
        "Convert class numbers by y.long(); for amounts use a loss over amounts, such as mse_loss.",
    )


def _index_type(found: re.Match[str], seen: Seen) -> Explained:
    return Explained(
        f"{seen.named_layer('An embedding')} gets {found['given']} values for indices",
        "Convert them by x.long(); an embedding is for numbers of tokens or categories.",
    )


def _whole_target(found: re.Match[str], seen: Seen) -> Explained:
    return Explained(
        f"The loss gets whole numbers ({found['given']}) as targets, and needs amounts",
        "Convert the targets by y.float().",
    )


def _devices_differ(found: re.Match[str], seen: Seen) -> Explained:
    first, second = found["first"], found["second"]
    elsewhere = [each for each in seen.tensors() if each.device in (first, second)]
    named = ", ".join(dict.fromkeys(f"{each.name} on {each.device}" for each in elsewhere[:4]))
    return Explained(
        f"Tensors on {first} and {second} are combined{f': {named}' if named else ''}",
        "Move model and batch to one device by .to(device); tensors that forward() makes need "
        "device=x.device, and constants of a module register_buffer.",
    )


def _no_graph(found: re.Match[str], seen: Seen) -> Explained:
    return Explained(
        "The loss does not depend on any parameter that is trained",
        "Look for no_grad(), detach(), item(), numpy() or argmax() between model and loss, for "
        "frozen parameters, and for a loss that is made anew by torch.tensor(...).",
    )


def _graph_used_twice(found: re.Match[str], seen: Seen) -> Explained:
    return Explained(
        "backward() goes through a graph for the second time",
        "A tensor of an earlier step is still part of this one, such as a hidden state or a sum of "
        "losses: detach() it. Two losses of one graph are added before one backward().",
    )


def _changed_in_place(found: re.Match[str], seen: Seen) -> Explained:
    return Explained(
        f"A tensor that backward() needs was changed in place{found['what']}",
        "Replace x += y by x = x + y, and inplace=True by False; call backward() before "
        "optimizer.step() changes weights that the same graph uses.",
    )


def _out_of_memory(found: re.Match[str], seen: Seen) -> Explained:
    shapes = sorted({tuple(each.shape) for each in seen.tensors()}, key=_size, reverse=True)
    largest = f"; the largest tensor there has shape {list(shapes[0])}" if shapes else ""
    return Explained(
        f"There is not enough memory for {found['wanted']} more{largest}",
        "Take a smaller batch and accumulate gradients, shorter sequences, or gradient "
        "checkpointing. If memory grew from step to step, losses with their graphs are kept: "
        "add loss.item() instead of loss.",
    )


def _device_assert(found: re.Match[str], seen: Seen) -> Explained:
    return Explained(
        "A kernel of the GPU refused an index: usually a label or a token is out of range",
        "Compare labels with the number of outputs, and tokens with the rows of the embedding; on "
        "the CPU, or with CUDA_LAUNCH_BLOCKING=1, the message names the line.",
    )


def _different_samples(found: re.Match[str], seen: Seen) -> Explained:
    return Explained(
        f"Samples of a batch have different sizes: {found['first']} and {found['other']}",
        "Bring all samples to one size in the dataset, or pad them in a collate_fn of your own "
        "(torch.nn.utils.rnn.pad_sequence).",
    )


def _batch_norm_of_one(found: re.Match[str], seen: Seen) -> Explained:
    return Explained(
        f"{seen.named_layer('Batch normalization')} gets a single sample of shape {found['shape']} "
        "in training mode",
        "Leave out an incomplete last batch (drop_last=True), or call eval() for single samples.",
    )


def _not_probabilities(found: re.Match[str], seen: Seen) -> Explained:
    scores = seen.tensor(_INPUTS, is_whole=False)
    span = ""
    if scores is not None and scores.least is not None and scores.most is not None:
        span = f": they lie between {scores.least:.3g} and {scores.most:.3g}"
    return Explained(
        f"binary_cross_entropy gets values that are no probabilities{span}",
        "Use binary_cross_entropy_with_logits on raw scores, or apply a sigmoid before.",
    )


def _loader_died(found: re.Match[str], seen: Seen) -> Explained:
    by_bus = "Bus" in found["signal"]
    return Explained(
        f"A worker of the DataLoader was ended by {found['signal'].strip()}",
        "Give the container more shared memory (--shm), or the loader fewer workers."
        if by_bus
        else "The machine ran out of memory: use fewer workers, or keep less in each of them.",
    )


def _not_scalar(found: re.Match[str], seen: Seen) -> Explained:
    loss = seen.tensor(("self",))
    what = "a tensor" if loss is None else f"a tensor of shape {list(loss.shape)}"
    return Explained(
        f"backward() is called on {what}, not on one number",
        "Reduce the loss first: loss.mean().backward(). With reduction='none' it is not reduced.",
    )


def _wrong_last_axis(found: re.Match[str], seen: Seen) -> Explained:
    return Explained(
        f"{seen.named_layer('A layer')} expects {found['expected']} features in the last axis and "
        f"gets {found['given']}",
        f"Make it a layer of {found['given']} features, or look whether batch, time and features "
        "are in the order that it expects (batch_first).",
    )


def _shapes(seen: Seen) -> str:
    shapes = [f"{each.name} {list(each.shape)}" for each in seen.tensors()]
    return f": {', '.join(dict.fromkeys(shapes[:4]))}" if shapes else ""


def _numbers(text: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", text)]


def _size(shape: Sequence[int]) -> int:
    size = 1
    for each in shape:
        size *= each
    return size


_CAUSES: tuple[tuple[str, _Explain], ...] = (
    (r"Target (?P<label>-?\d+) is out of bounds", _label_out_of_range),
    (r"index out of range in self", _index_out_of_range),
    (
        r"mat1 and mat2 shapes cannot be multiplied "
        r"\((?P<rows>\d+)x(?P<given>\d+) and (?P<expected>\d+)x\d+\)",
        _wrong_features,
    ),
    (
        r"weight of size \[[\d, ]+\], expected input(?P<shape>\[[\d, ]+\]) to have "
        r"(?P<expected>\d+) channels, but got (?P<given>\d+) channels",
        _wrong_channels,
    ),
    (
        r"Expected input batch_size \((?P<given>\d+)\) to match target batch_size "
        r"\((?P<expected>\d+)\)",
        _wrong_batch,
    ),
    (
        r"The size of tensor a \((?P<a>\d+)\) must match the size of tensor b \((?P<b>\d+)\) at "
        r"non-singleton dimension (?P<axis>\d+)",
        _different_sizes,
    ),
    (
        r"Target size \(torch\.Size\((?P<target>\[[\d, ]*\])\)\) must be the same as input size "
        r"\(torch\.Size\((?P<given>\[[\d, ]*\])\)\)",
        _target_shape,
    ),
    (
        r"(?:must have the same dtype, but got|Expected scalar type|expected scalar type|"
        r"Input type) \(?(?P<first>[\w. ]+?)\)? (?:and|but found)(?: (?:bias|weight) type)? "
        r"\(?(?P<second>[\w.]+)",
        _types_differ,
    ),
    (r"expected target dtype to be [\w ]+, but got (?P<given>\w+)", _target_type),
    (
        r"'indices' to have one of .*but got (?:torch\.)?(?P<given>\w+?)(?:Tensor)? instead",
        _index_type,
    ),
    (r"result type Float can't be cast to the desired output type (?P<given>\w+)", _whole_target),
    (
        r"found at least two devices, (?P<first>[\w:]+) and (?P<second>[\w:]+)",
        _devices_differ,
    ),
    (r"element 0 of tensors does not require grad", _no_graph),
    (r"Trying to backward through the graph a second time", _graph_used_twice),
    (
        r"modified by an inplace operation(?P<what>: \[[^]]*\]\][^;]*?|)(?=, is at version|;|$)",
        _changed_in_place,
    ),
    (
        r"(?:DefaultCPUAllocator: \D+|out of memory\. Tried to allocate )(?P<wanted>[\d.]+ \w+)",
        _out_of_memory,
    ),
    (r"device-side assert triggered", _device_assert),
    (
        r"stack expects each tensor to be equal size, but got (?P<first>\[[\d, ]*\]) at entry 0 "
        r"and (?P<other>\[[\d, ]*\]) at entry",
        _different_samples,
    ),
    (
        r"Expected more than 1 value per channel when training, got input size "
        r"torch\.Size\((?P<shape>\[[\d, ]+\])\)",
        _batch_norm_of_one,
    ),
    (r"all elements of input should be between 0 and 1", _not_probabilities),
    (
        r"DataLoader worker \(pid[^)]*\) is killed by signal: (?P<signal>Bus error|Killed)",
        _loader_died,
    ),
    (r"grad can be implicitly created only for scalar outputs", _not_scalar),
    (
        r"(?:input\.size\(-1\) must be equal to input_size\. Expected|"
        r"was expecting embedding dimension of) (?P<expected>\d+),(?: but)? got (?P<given>\d+)",
        _wrong_last_axis,
    ),
    (
        r"expected input with shape \[\*, (?P<expected>\d+)\], but got input of "
        r"size\[(?:\d+, )*(?P<given>\d+)\]",
        _wrong_last_axis,
    ),
)
