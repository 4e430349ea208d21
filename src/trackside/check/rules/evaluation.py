"""How results are computed from outputs and losses: thresholds, axes, means, the best so far."""

import ast
import re
from collections.abc import Iterator

from trackside.check.remark import Remark, ScriptRule, at
from trackside.check.trace import Action, Event, Trace
from trackside.check.values import Kind, Value, kind_of_class

_MODELS = (Kind.MODEL, Kind.WRAPPED)
_SAME_VALUES = {
    "squeeze", "unsqueeze", "view", "reshape", "flatten", "ravel", "detach", "cpu", "cuda", "to",
    "float", "double", "numpy", "cat", "concat", "stack", "contiguous", "clone", "data",
    "concatenate",
}  # fmt: skip
"""Functions that leave the numbers as they are."""
_SAME_PLACES = {"softmax", "log_softmax", "sigmoid", *_SAME_VALUES} - {"view", "reshape", "stack"}
"""Functions that leave every sample's scores in its row."""
_MEANS = {"item", "sum", "mean", "fmean", "float", "average", "detach", "cpu", "numpy", "tolist"}
"""Functions whose result grows with what they are given."""
_WITH_LOGITS = ("BCEWithLogitsLoss", "binary_cross_entropy_with_logits")
_HALF = 0.5
_LOSS = re.compile(r"(^|_)(loss|losses|rmse|mse|mae|nll|ppl|perplexity)($|_)", re.IGNORECASE)
_SCORE = re.compile(
    r"(^|_)(acc|accuracy|f1|auc|iou|miou|bleu|recall|precision)($|_)", re.IGNORECASE
)
_OTHER_WAY = re.compile(r"(^|_)(neg|negative|minus|err|error)($|_)", re.IGNORECASE)
_EVALUATES = re.compile(r"no_grad|inference_mode|\.eval\(\)")
_KEPT = re.compile(r"save|state_dict|deepcopy|checkpoint")
_MOST_STEPS = 30
"""Of a chain from a result back to where it came from."""


def threshold_on_scores(trace: Trace) -> Iterator[Remark]:
    """`logits > 0.5`, of a model whose outputs BCEWithLogitsLoss takes as raw scores."""
    losses = [each.arguments["function"].name for each in trace.all(Action.LOSS)]
    binary = [name for name in losses if "binary" in name or "BCE" in name]
    if not binary or not all(name.endswith(_WITH_LOGITS) for name in binary):
        return
    for event in trace.all(Action.COMPARE):
        scores, limit = event.value.of[0], event.value.of[-1]
        if limit.constant == _HALF and _is_output(scores, _SAME_VALUES):
            yield at(
                event,
                "Raw scores are compared with 0.5, which is a probability of 62 %: a score of 0 is "
                "one of 50 %.",
            )


def argmax_over_batch(trace: Trace) -> Iterator[Remark]:
    """`output.argmax(0)`, compared with labels: one sample for each class."""
    for event in trace.all(Action.COMPARE):
        for side in event.value.of:
            taken = side
            if not taken.name and len(taken.of) == 1 and taken.node is None:
                taken = taken.of[0]  # output.max(0)[1]
            is_taken = taken.name in ("torch.argmax", "torch.max") and len(taken.of) > 1
            if is_taken and _axis(taken) == 0 and _is_output(taken.of[0], _SAME_PLACES):
                yield at(
                    event,
                    "The highest score is taken along axis 0, which is that of the samples: this "
                    "gives a sample for each class, not a class for each sample.",
                )


def mean_divided_again(trace: Trace) -> Iterator[Remark]:
    """`total += loss.item()` for every batch, over `len(loader.dataset)`."""
    for event in trace.all(Action.DIVIDE):
        total, length = event.value.of[0], event.value.of[-1]
        loss = _added_loss(total)
        if loss is not None and _is_mean(loss) and _is_number_of_samples(event, length):
            yield at(
                event,
                "The losses that are added up are means over their batches, and the sum is divided "
                "by the number of samples: the result is too small by the size of a batch.",
            )


def mean_of_means(trace: Trace) -> Iterator[Remark]:
    """The means of batches, added up and divided by the number of batches, in an evaluation."""
    for event in trace.all(Action.DIVIDE):
        node = event.value.node
        loss = loss_behind(event.value.of[0])
        if not isinstance(node, ast.BinOp) or loss is None or not _is_mean(loss):
            continue
        is_count = re.fullmatch(r"len\([\w.]+\)", ast.unparse(node.right))
        if is_count and "dataset" not in ast.unparse(node.right) and _is_plain(trace, node):
            yield at(
                event,
                "The losses that are added up are means over their batches, and each batch counts "
                "the same, also the last one, which may have fewer samples.",
            )


def _is_plain(trace: Trace, node: ast.AST) -> bool:
    """Whether it is in a function that evaluates, and in which nothing is weighted by a size."""
    for _, tree in trace.trees:
        for function in (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)):
            if any(each is node for each in ast.walk(function)):
                text = ast.unparse(function)
                is_weighted = re.search(r"[\w)\]] \* ", re.sub(r"\b100(\.0)? \* ", "", text))
                return bool(_EVALUATES.search(text)) and "backward(" not in text and not is_weighted
    return False


def worst_is_kept(trace: Trace) -> Iterator[Remark]:
    """`if loss > best: best = loss; save(model)`."""
    for event in trace.all(Action.COMPARE):
        node = event.value.node
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        kept = _kept_if(trace, node)
        if kept is None:
            continue
        is_left = ast.unparse(node.left) == kept
        is_higher_kept = is_left is isinstance(node.ops[0], ast.Gt | ast.GtE)
        value = event.value.of[0 if is_left else -1]
        is_loss = _is_called(kept, _LOSS) or (
            loss_behind(value) is not None and not _is_called(kept, _SCORE)
        )
        is_score = _is_called(kept, _SCORE) and not is_loss
        if (is_loss and is_higher_kept) or (is_score and not is_higher_kept):
            what = "highest" if is_higher_kept else "lowest"
            yield at(event, f"The weights with the {what} {kept} are kept as the best.")


def worst_mode_is_kept(trace: Trace) -> Iterator[Remark]:
    """`keeper = Checkpointer(mode="max")`, which is given a loss."""
    for path, tree in trace.trees:
        classes = {each.name: each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)}
        modes = {
            target.id: mode
            for each in ast.walk(tree)
            if isinstance(each, ast.Assign) and (mode := _mode_of_keeper(each.value, classes))
            for target in each.targets
            if isinstance(target, ast.Name)
        }
        for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
            mode = modes.get(_owner(call.func), "")
            first = next(iter(call.args), None)
            given = ast.unparse(first) if isinstance(first, ast.Name | ast.Attribute) else ""
            is_loss, is_score = _is_called(given, _LOSS), _is_called(given, _SCORE)
            if (mode == "max" and is_loss and not is_score) or (
                mode == "min" and is_score and not is_loss
            ):
                what = "highest" if mode == "max" else "lowest"
                yield Remark(
                    path, call.lineno, f"The weights with the {what} {given} are kept as the best."
                )


def _mode_of_keeper(made: ast.expr, classes: dict[str, ast.ClassDef]) -> str:
    """`max` or `min`, of an object of a class that compares by it and keeps weights."""
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Name):
        return ""
    given = [*made.args, *(each.value for each in made.keywords)]
    modes = [e.value for e in given if isinstance(e, ast.Constant) and e.value in ("max", "min")]
    node = classes.get(made.func.id)
    if node is None or len(modes) != 1:
        return ""
    text = ast.unparse(node)
    # With a plain comparison by the name of the mode: `a > b if mode == 'max' else a < b`.
    is_plain = re.search(r"== '(max|min)'", text) and "-" not in re.sub(r"-?(np\.)?inf", "", text)
    return str(modes[0]) if is_plain and _KEPT.search(text) else ""


def _owner(function: ast.expr) -> str:
    """`keeper` of `keeper` and of `keeper.update`."""
    inner = function.value if isinstance(function, ast.Attribute) else function
    return inner.id if isinstance(inner, ast.Name) else ""


def loss_behind(value: Value, depth: int = 0) -> Value | None:
    """The loss that a figure grows with: itself, or in a sum or a mean."""
    name = value.name.rpartition(".")[2]
    if depth > _MOST_STEPS:
        return None
    if kind_of_class(value.name) is Kind.LOSS or value.arguments.get("function"):
        return value
    parts: tuple[Value, ...] = ()
    if isinstance(value.node, ast.BinOp):
        if isinstance(value.node.op, ast.Div):
            parts = value.of[:1]
        elif isinstance(value.node.op, ast.Add | ast.Mult):
            parts = value.of
    elif value.has(Kind.TUPLE):
        parts = (*value.items, *value.of)
    elif name in _MEANS or (not name and value.node is None):
        parts = value.of
    found = (loss_behind(each, depth + 1) for each in parts)
    return next((each for each in found if each is not None), None)


def _is_output(value: Value, through: set[str]) -> bool:
    """Whether it is what a model returned, but for functions of these names."""
    for _ in range(_MOST_STEPS):
        if not value.of:
            return False
        first = value.of[0]
        if first.kind in _MODELS:
            return value.has(Kind.TENSOR)
        is_list = value.has(Kind.TUPLE) and value.node is not None
        if not is_list and value.name.rpartition(".")[2] not in through:
            return False
        value = first
    return False


def _axis(taken: Value) -> object:
    """The axis of a maximum, if it is written there."""
    return taken.of[1].constant


def _added_loss(total: Value) -> Value | None:
    """The loss of `total += loss.item()`, or `total += loss`."""
    if total.node is not None or total.name or len(total.of) != 2:
        return None
    added = total.of[1]
    if added.name in ("torch.item", "torch.detach") and added.of:
        added = added.of[0]
    return added if added.arguments.get("function") else None


def _is_mean(loss: Value) -> bool:
    given = loss.arguments.get("reduction")
    return given is None or given.constant == "mean"


def _is_number_of_samples(event: Event, length: Value) -> bool:
    node = event.value.node
    assert isinstance(node, ast.BinOp)
    is_attribute = re.fullmatch(r"(float\()?len\([\w.\[\]]+\.dataset\)\)?", ast.unparse(node.right))
    return bool(is_attribute) or (
        length.name == "builtins.len" and bool(length.of) and length.of[0].has(Kind.DATASET)
    )


def _kept_if(trace: Trace, node: ast.Compare) -> str | None:
    """The figure whose best value is kept, with weights, if this comparison is true."""
    for _, tree in trace.trees:
        for branch in (each for each in ast.walk(tree) if isinstance(each, ast.If)):
            if branch.test is not node:
                continue
            body = ast.unparse(ast.Module(branch.body, []))
            sides = (ast.unparse(node.left), ast.unparse(node.comparators[0]))
            for kept, best in (sides, sides[::-1]):
                if f"{best} = {kept}" in body.splitlines() and _KEPT.search(body):
                    return kept
    return None


def _is_called(text: str, pattern: re.Pattern[str]) -> bool:
    words = re.sub(r"\W+", "_", text)
    return bool(pattern.search(words)) and not _OTHER_WAY.search(words)


JOINED = (
    ScriptRule(
        "MetricMiscomputed",
        "Compare torch.sigmoid(scores) with 0.5, or the scores with 0.",
        threshold_on_scores,
    ),
    ScriptRule("MetricMiscomputed", "Take the argmax over the classes: dim=1.", argmax_over_batch),
    ScriptRule(
        "MetricMiscomputed",
        "Divide by len(loader), or add loss.item() * len(x) for every batch.",
        mean_divided_again,
    ),
    ScriptRule(
        "MeanOfMeans",
        "Add loss.item() * len(x) for every batch, and divide by the number of samples.",
        mean_of_means,
    ),
    ScriptRule("WorstWeightsKept", "Turn the comparison around.", worst_is_kept),
    ScriptRule(
        "WorstWeightsKept", "Use 'min' for a loss and 'max' for a score.", worst_mode_is_kept
    ),
)
RULES = tuple(each for each in JOINED if each.name != "MeanOfMeans")
"""Of batches that are all of one size, the mean of means is right."""
