"""Real trainings, healthy and sick, watched by the real hook: what rules must tell apart."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import torch
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from torch import Tensor, nn

from trackside.capture.hook import Hook
from trackside.capture.modes import ModeKeys
from trackside.capture.selection.collection import Collection
from trackside.capture.selection.save_config import SaveConfig
from trackside.capture.selection.type_patterns import DEFAULT_PATTERNS

Data = tuple[Tensor, Tensor]
NUM_TOKENS, LENGTH = 20, 16
PADDING = 0


@dataclass
class Training:
    """A model, its data, and how it is trained. Every `every`-th step is saved."""

    model: nn.Module
    data: Data
    held_out: Data
    steps: int = 40
    every: int = 5
    lr: float = 1e-3
    batch_size: int = 64
    eval_every: int = 0
    """Steps between evaluations; 0: none."""
    warm_up: int = 0
    """Steps over which the learning rate grows to `lr`."""
    unwatched: int = 0
    """Steps before the hook comes."""
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam
    criterion: nn.Module = field(default_factory=nn.CrossEntropyLoss)

    def batches(self) -> Iterator[Data]:
        inputs, targets = self.data
        while True:
            order = torch.randperm(len(inputs))
            for start in range(0, max(1, len(order) - self.batch_size + 1), self.batch_size):
                chosen = order[start : start + self.batch_size]
                yield inputs[chosen], targets[chosen]

    def run(self, folder: Path) -> None:
        """Ends with an evaluation where there are any."""
        parameters = [each for each in self.model.parameters() if each.requires_grad]
        optimizer = self.optimizer(parameters, lr=self.lr)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1.0, (step + 1) / (self.warm_up + 1))
        )
        batches = self.batches()

        def train_step() -> None:
            inputs, targets = next(batches)
            optimizer.zero_grad()
            self.criterion(self.model(inputs), targets).backward()
            optimizer.step()
            schedule.step()

        for _ in range(self.unwatched):
            train_step()
        hook = watching(folder, self.model, self.every)
        hook.register_loss(self.criterion)
        for step in range(self.steps):
            hook.set_mode(ModeKeys.TRAIN)
            train_step()
            if self.eval_every and (step + 1) % self.eval_every == 0:
                self.evaluate(hook)
        if not self.steps:
            self.evaluate(hook)
        hook.close()

    def evaluate(self, hook: Hook) -> None:
        hook.set_mode(ModeKeys.EVAL)
        inputs, targets = self.held_out
        with torch.no_grad():
            for start in range(0, len(inputs), 100):
                self.criterion(self.model(inputs[start : start + 100]), targets[start:][:100])


def watching(folder: Path, model: nn.Module, every: int = 1) -> Hook:
    """A hook that saves what any rule could want."""
    hook = Hook(
        folder,
        save_config=SaveConfig(save_interval=every),
        include_collections=["weights", "biases", "gradients", *DEFAULT_PATTERNS],
    )
    for name, pattern in DEFAULT_PATTERNS.items():
        hook.add_collection(Collection(name, pattern))
    hook.register_module(model)
    return hook


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(256, 10),
        )

    def forward(self, images: Tensor) -> Tensor:
        result: Tensor = self.body(images.reshape(-1, 1, 8, 8))
        return result


class Transformer(nn.Module):
    """Says which of four tokens stands first."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(NUM_TOKENS, 32, padding_idx=PADDING)
        self.places = nn.Parameter(torch.randn(LENGTH, 32) * 0.1)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.pool = nn.Sequential(nn.Linear(32, 32), nn.Tanh())
        self.head = nn.Linear(32, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places
        for layer in self.layers:
            x = layer(x)
        result: Tensor = self.head(self.pool(x[:, 0]))
        return result


def mlp(
    activation: Callable[[], nn.Module] = nn.ReLU, depth: int = 2, width: int = 64
) -> nn.Module:
    layers: list[nn.Module] = []
    size = 64
    for _ in range(depth):
        layers += [nn.Linear(size, width), activation()]
        size = width
    return nn.Sequential(*layers, nn.Linear(size, 10))


@cache
def digits(*, normalised: bool = True) -> tuple[Data, Data]:
    """1,500 to train with, the rest held out; [samples, 1, 8, 8]."""
    found = load_digits()
    images = torch.tensor(found.images, dtype=torch.float32)[:, None]
    if normalised:
        images = (images - images.mean()) / images.std()
    labels = torch.tensor(found.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    images, labels = images[order], labels[order]
    return (images[:1500], labels[:1500]), (images[1500:], labels[1500:])


def sequences(num: int, padded: float) -> Data:
    """The first token is one of four; a share of what follows it is padding."""
    tokens = torch.randint(5, NUM_TOKENS, (num, LENGTH))
    targets = torch.randint(0, 4, (num,))
    tokens[:, 0] = targets + 1
    tokens[:, round(LENGTH * (1 - padded)) :] = PADDING
    return tokens, targets


def run(name: str, folder: Path) -> None:
    """By name, the same every time. In one thread: more wait for each other on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        torch.manual_seed(0)
        _MAKERS[name]().run(folder)
    finally:
        torch.set_num_threads(threads)


def _of_digits(model: nn.Module, **options: object) -> Training:
    data, held_out = digits()
    flat = nn.Sequential(nn.Flatten(), *model) if isinstance(model, nn.Sequential) else model
    return Training(flat, data, held_out, **options)  # type: ignore[arg-type]


def _healthy_mlp() -> Training:
    return _of_digits(mlp(), steps=240, eval_every=48)


def _healthy_cnn() -> Training:
    return _of_digits(Cnn(), steps=160, eval_every=40)


def _healthy_transformer() -> Training:
    data, held_out = sequences(2000, 0.25), sequences(200, 0.25)
    return Training(Transformer(), data, held_out, steps=160, eval_every=40, warm_up=20)


def _half_frozen() -> Training:
    training = _of_digits(mlp())
    training.model[1].requires_grad_(False)  # type: ignore[index]
    return training


def _other_seed() -> Training:
    torch.manual_seed(1)
    return _of_digits(mlp(), steps=10)


def _dead_by_bias() -> Training:
    model = mlp()
    with torch.no_grad():
        model[0].bias.fill_(-100)  # type: ignore[index]
    return _of_digits(model)


def _exploding() -> Training:
    return _of_digits(mlp(), lr=1e4, optimizer=torch.optim.SGD)


def _zero_weights() -> Training:
    model = mlp()
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return _of_digits(model, steps=10)


def _overfit() -> Training:
    data, held_out = digits()
    few = (data[0][:32], data[1][:32])
    model = nn.Sequential(nn.Flatten(), *mlp(width=256))  # type: ignore[misc]
    return Training(model, few, held_out, steps=120, batch_size=32, eval_every=20)


def _imbalanced() -> Training:
    (images, labels), held_out = digits()
    kept = (labels == 0) | (torch.arange(len(labels)) % 60 == 0)
    training = _of_digits(mlp(), steps=100)
    training.data = (images[kept], labels[kept])
    return training


def _wrong_labels() -> Training:
    (images, labels), held_out = digits()
    training = _of_digits(mlp(), unwatched=200, steps=0, every=1)
    training.data = (images, torch.where(labels == 4, 7, labels))
    return training


def _saturated() -> Training:
    model = mlp(nn.Tanh)
    with torch.no_grad():
        model[0].weight.mul_(100_000)  # type: ignore[index]
    return _of_digits(model)


def _poor_start() -> Training:
    model = mlp(depth=4)
    for place, layer in enumerate(each for each in model.modules() if isinstance(each, nn.Linear)):
        nn.init.normal_(layer.weight, std=1.0 if place else 1e-3)
    return _of_digits(model, every=1, steps=12)


def _raw_images() -> Training:
    data, held_out = digits(normalised=False)
    return Training(Cnn(), data, held_out)


def _padded() -> Training:
    return Training(Transformer(), sequences(500, 0.8), sequences(10, 0.8))


_MAKERS: dict[str, Callable[[], Training]] = {
    "mlp": _healthy_mlp,
    "cnn": _healthy_cnn,
    "transformer": _healthy_transformer,
    "half frozen": _half_frozen,
    "trained mlp": lambda: _of_digits(mlp(), unwatched=300, steps=0, every=1),
    "same seed": lambda: _of_digits(mlp(), steps=10),
    "same seed again": lambda: _of_digits(mlp(), steps=10),
    "other seed": _other_seed,
    "dead by bias": _dead_by_bias,
    "deep sigmoids": lambda: _of_digits(mlp(nn.Sigmoid, depth=15), optimizer=torch.optim.SGD),
    "exploding": _exploding,
    "no learning rate": lambda: _of_digits(mlp(), lr=0.0, batch_size=1500),
    "giant steps": lambda: _of_digits(mlp(), lr=50.0),
    "zero weights": _zero_weights,
    "too long": lambda: _of_digits(mlp(), steps=240, lr=0.02, eval_every=24),
    "overfit": _overfit,
    "imbalanced": _imbalanced,
    "wrong labels": _wrong_labels,
    "saturated": _saturated,
    "poor start": _poor_start,
    "raw images": _raw_images,
    "padded": _padded,
}
