"""Low-rank adapters that a script writes itself, and texts that it packs into rows itself."""

import ast
import re
from collections.abc import Iterator

from trackside.check.remark import Remark, ScriptRule
from trackside.check.rules.objectives import mask_not_used
from trackside.check.trace import Trace

_PACKS = re.compile(r"(^|_)pack(ed|ing|s)?(_|$)|^Pack(ed|ing)?(?!Padded|Sequence)", re.IGNORECASE)
_OTHER_PACKS = re.compile(r"unpack|pack_padded|packed_sequence|pack_sequence|bits|bytes")
_ATTENTION = re.compile(
    r"scaled_dot_product_attention|MultiheadAttention|TransformerEncoder|softmax\("
)
_SEPARATES = re.compile(
    r"block_diag|cu_?seq_?lens|varlen|flex_attention|create_block_mask|nested_tensor|jagged"
)
_ENDS = re.compile(r"(^|_)(eos|eot|sep|bos|end|separator|delim|eod)(_|$)", re.IGNORECASE)
_AXES = 2


def merged_twice(trace: Trace) -> Iterator[Remark]:
    """A method adds the product of two factors to the weight, and forward adds it in any case."""
    called = {
        node.func.attr
        for _, tree in trace.trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    layers = (
        (path, node)
        for path, tree in trace.trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    for path, node in layers:
        methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        forward = methods.get("forward")
        for method in methods.values():
            if forward is None or method is forward or method.name not in called:
                continue
            merged = _merged(method)
            if merged is None or _undoes(method, merged[1]):
                continue
            line, factors = merged
            if factors <= _own_names(forward) and not _is_conditional(forward):
                first, second = sorted(factors)
                yield Remark(
                    path,
                    line,
                    f"{method.name}() adds the product of {first} and {second} to the weight, and "
                    "forward() adds it once more.",
                )


def packed_without_mask(trace: Trace) -> Iterator[Remark]:
    """Texts are put behind each other into rows, and nothing keeps attention within a text."""
    text = "\n".join(ast.unparse(tree) for _, tree in trace.trees)
    if not _ATTENTION.search(text) or _SEPARATES.search(text):
        return
    if any(True for _ in mask_not_used(trace)):
        return  # that says more
    if any(_keeps_apart(node) for _, tree in trace.trees for node in ast.walk(tree)):
        return
    for path, tree in trace.trees:
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            is_named = _PACKS.search(node.name) and not _OTHER_PACKS.search(node.name.lower())
            if is_named and _joins_texts(node, tree):
                yield Remark(
                    path,
                    node.lineno,
                    f"{node.name} puts several texts into one row, and no mask of attention tells "
                    "them apart.",
                )
                return


def _merged(method: ast.FunctionDef) -> tuple[int, set[str]] | None:
    """The line where a weight gets a product of the layer's own factors, and their names."""
    for node in ast.walk(method):
        value: ast.expr | None = None
        match node:
            case ast.AugAssign(target=target, op=ast.Add(), value=added) if _is_weight(target):
                value = added
            case ast.Call(func=ast.Attribute(value=target, attr="add_"), args=[added, *_]):
                value = added if _is_weight(target) else None
            case ast.Assign(targets=[target], value=added) if _is_weight(target):
                value = added if isinstance(added, ast.BinOp) else None
        factors = set() if value is None else _factors(value, method)
        if len(factors) == _AXES:
            return getattr(node, "lineno", method.lineno), factors
    return None


def _is_weight(node: ast.expr) -> bool:
    """Of the layer itself, or of one within it."""
    return bool(re.search(r"^self\.(\w+\.)*weight(\.data)?$", ast.unparse(node)))


def _factors(value: ast.expr, method: ast.FunctionDef) -> set[str]:
    """Of the matrix product in it, also by the name that it was given before."""
    known = {
        ast.unparse(each.targets[0]): each.value
        for each in ast.walk(method)
        if isinstance(each, ast.Assign)
    }
    for node in [each for part in ast.walk(value) for each in (part, known.get(_text(part)))]:
        sides: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            sides = [node.left, node.right]
        elif isinstance(node, ast.Call) and _text(node.func).endswith(("matmul", ".mm")):
            sides = list(node.args)[-_AXES:]
        names = [own for side in sides for own in sorted(_own_names(side))]
        if len(names) == _AXES:
            return {*names}
    return set()


def _text(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _own_names(node: ast.AST) -> set[str]:
    """`lora_A` of `self.lora_A.weight.data.T`."""
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }


def _is_conditional(forward: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.If | ast.IfExp) for each in ast.walk(forward))


def _undoes(method: ast.FunctionDef, factors: set[str]) -> bool:
    """Whether the factors, or what they are scaled by, are taken away when they are merged."""
    for node in ast.walk(method):
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr="zero_" | "fill_")):
                if _own_names(inner) & factors:
                    return True
            case ast.Assign(targets=[ast.Attribute() as target], value=ast.Constant(value=value)):
                if not isinstance(value, bool) and not _is_weight(target):
                    return True
            case ast.Delete() | ast.Call(func=ast.Name(id="delattr" | "setattr")):
                return True
    return False


def _keeps_apart(node: ast.AST) -> bool:
    """`ids[:, :, None] == ids[:, None, :]`, or a block of a mask: `mask[a:b, a:b] = True`."""
    match node:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
            return _is_spread(left) and _is_spread(right)
        case ast.Call(func=ast.Attribute(value=left, attr="eq" | "ne"), args=[right]):
            return _is_spread(left) and _is_spread(right)
        case ast.Subscript(slice=ast.Tuple(elts=parts), ctx=ast.Store()):
            return len([each for each in parts if isinstance(each, ast.Slice) and each.lower]) > 1
    return False


def _is_spread(node: ast.expr) -> bool:
    """A tensor with an axis of one added."""
    text = ast.unparse(node)
    return "None" in text or "unsqueeze" in text or "view" in text or "reshape" in text


def _joins_texts(node: ast.AST, tree: ast.AST) -> bool:
    """Whether tokens are put behind each other, with a mark of the end somewhere in the script."""
    is_joined = any(
        (isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Add))
        or (isinstance(each, ast.Call) and _called(each) in ("extend", "cat", "concatenate"))
        for each in ast.walk(node)
    )
    names = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    names |= {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    return is_joined and any(map(_ENDS.search, names))


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else _text(call.func)


RULES = (
    ScriptRule(
        "AdapterMergedTwice",
        "Leave the adapter out of forward() while it is merged: if self.merged: return y.",
        merged_twice,
    ),
)
JOINED = (
    *RULES,
    ScriptRule(
        "PackedTextsMixed",
        "Let each token see only its own text: mask & (ids[:, :, None] == ids[:, None, :]).",
        packed_without_mask,
    ),
)
"""Texts may be packed without a mask on purpose: only the check-up says so, as likely."""
