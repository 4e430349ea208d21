"""Loaders, samplers and seeds."""

import ast
from collections.abc import Iterator

from trackside.check.remark import Remark, ScriptRule, at, made_at
from trackside.check.trace import Action, Event, Loop, Trace
from trackside.check.values import Kind, Value

_WITHOUT_GRADIENTS = {"torch.no_grad", "torch.inference_mode"}


def not_shuffled(trace: Trace) -> Iterator[Remark]:
    """A loader that training iterates, without shuffling or a sampler, while another one shuffles
    or several epochs are made of it."""
    for loop in trace.training_loops():
        loader = loop.loader
        if loader is None or not _is_plain(loader):
            continue
        dataset = loader.argument("dataset", 0)
        if dataset is None or not _reads_by_index(dataset) or not _always_trains(trace, loop):
            continue
        if len(_loops_of(trace, loop)) > 1:
            yield made_at(loader, "This loader is used for training, and does not shuffle.")


def sampler_without_epoch(trace: Trace) -> Iterator[Remark]:
    for sampler in trace.made(Kind.SAMPLER):
        if not sampler.name.endswith("DistributedSampler"):
            continue
        shuffle = sampler.argument("shuffle", 3)
        if shuffle is not None and shuffle.constant is False:
            continue
        loops = [
            loop
            for loop in trace.training_loops()
            if loop.loader is not None and loop.loader.argument("sampler", 3) is sampler
        ]
        if (
            loops
            and len(_loops_of(trace, loops[0])) > 1
            and not trace.of(sampler, Action.SET_EPOCH)
        ):
            yield made_at(
                sampler, "set_epoch() is never called: every epoch has the same order of samples."
            )


def ranks_share_data(trace: Trace) -> Iterator[Remark]:
    """A model in DDP, and a loader without a sampler: all ranks train on the same samples."""
    wrapped = trace.made(Kind.WRAPPED)
    if not wrapped:
        return
    for loop in trace.training_loops():
        loader = loop.loader
        if loader is None or loader.argument("sampler", 3) or loader.argument("batch_sampler"):
            continue
        dataset = loader.argument("dataset", 0)
        if dataset is not None and (dataset.has(Kind.DATASET) and not _depends_on_rank(dataset)):
            yield made_at(
                loader,
                "The model is in DistributedDataParallel, and this loader has no "
                "DistributedSampler: every rank gets all samples.",
            )


def seed_in_loop(trace: Trace) -> Iterator[Remark]:
    """A constant seed in a loop that trains: the same random numbers in every iteration."""
    for event in trace.all(Action.SEED):
        seed = event.arguments.get("0") or event.arguments.get("seed")
        is_constant = seed is not None and seed.has(Kind.CONSTANT) and seed.constant is not None
        trains = any(
            loop
            for loop in event.loops
            if any(each.is_in(loop) for each in trace.all(Action.BACKWARD))
        )
        if is_constant and trains and not (_makes_model_after(trace, event) or _by_closure(trace)):
            yield at(
                event,
                f"The seed is set in the loop at line {event.loops[-1].line}: dropout, shuffling "
                f"and noise repeat in every iteration.",
            )


def evaluated_on_training_data(trace: Trace) -> Iterator[Remark]:
    """The loader of training and of evaluation is the same object, while another is unused."""
    trained = [loop.loader for loop in trace.training_loops() if loop.loader is not None]
    evaluated = _evaluation_loops(trace)
    used = [*trained, *(loop.loader for loop in evaluated)]
    unused = [
        each
        for each in trace.made(Kind.LOADER)
        if not any(each is other for other in used) and not _is_given_on(trace, each)
    ]
    for loop in evaluated:
        if unused and any(loop.loader is each for each in trained):
            yield Remark(
                loop.path,
                loop.line,
                f"The model is evaluated on the loader that trains it; the loader of line "
                f"{unused[0].line} is not used.",
            )


def _evaluation_loops(trace: Trace) -> list[Loop]:
    found: list[Loop] = []
    for event in trace.all(Action.FORWARD):
        if event.loop is not None and event.loop.loader is not None:
            is_training = any(each.is_in(event.loop) for each in trace.all(Action.BACKWARD))
            if not is_training and _WITHOUT_GRADIENTS & {*event.contexts}:
                found.append(event.loop)
    return found


def _always_trains(trace: Trace, loop: Loop) -> bool:
    """Not `if optimizer is not None`, in a function that evaluates as well."""
    backwards = [each for each in trace.all(Action.BACKWARD) if each.loop is loop]
    forwards = [each for each in trace.all(Action.FORWARD) if each.loop is loop]
    around = {branch.number for each in forwards for branch in each.branches}
    return any(all(b.number in around for b in each.branches) for each in backwards)


def _is_given_on(trace: Trace, loader: Value) -> bool:
    return any(
        loader in each.arguments.values() or any(loader is of for of in each.value.of)
        for each in trace.events
        if each.value is not loader
    )


def _is_plain(loader: Value) -> bool:
    shuffle = loader.argument("shuffle", 2)
    is_off = shuffle is None or shuffle.constant is False
    return is_off and not loader.argument("sampler", 3) and not loader.argument("batch_sampler", 4)


def _reads_by_index(dataset: Value) -> bool:
    """Whether its order is that of stored samples: not drawn at random, not a stream."""
    if dataset.name == "torch.utils.data.TensorDataset":
        return True
    made_by = dataset.constant
    if not isinstance(made_by, Value) or not isinstance(made_by.node, ast.ClassDef):
        return False
    for method in made_by.node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__getitem__":
            index = method.args.args[-1].arg
            slices = (each.slice for each in ast.walk(method) if isinstance(each, ast.Subscript))
            return any(isinstance(each, ast.Name) and each.id == index for each in slices)
    return False


def _loops_of(trace: Trace, loop: Loop) -> tuple[Loop, ...]:
    """The loop with those around it."""
    inside: Event = next(each for each in trace.events if each.loop is loop)
    return inside.loops


def _depends_on_rank(dataset: Value) -> bool:
    names = " ".join(each.name for each in dataset.origins()).lower()
    return "rank" in names or "shard" in names or "split" in names


def _makes_model_after(trace: Trace, event: Event) -> bool:
    """A seed for each of several trainings is meant so."""
    return any(
        each.action is Action.MAKE and each.value.has(Kind.OPTIMIZER) and each.order > event.order
        for each in trace.events
        if each.loops[: len(event.loops)] == event.loops
    )


def _by_closure(trace: Trace) -> bool:
    """LBFGS calls its closure several times, and needs the same random numbers in each."""
    return any(each.name.endswith(".LBFGS") for each in trace.made(Kind.OPTIMIZER))


RULES = (
    ScriptRule("NotShuffled", "Give the training loader shuffle=True.", not_shuffled),
    ScriptRule(
        "SamplerWithoutEpoch",
        "Call sampler.set_epoch(epoch) at the beginning of each epoch.",
        sampler_without_epoch,
    ),
    ScriptRule(
        "RanksShareData",
        "Give the loader sampler=DistributedSampler(dataset), without shuffle=True.",
        ranks_share_data,
    ),
    ScriptRule("SeedInLoop", "Set the seed once, before the loops.", seed_in_loop),
    ScriptRule(
        "EvaluationOnTrainingData",
        "Iterate the evaluation loader where the model is evaluated.",
        evaluated_on_training_data,
    ),
)
