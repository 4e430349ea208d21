"""Small trainings on made-up data: what watching is measured on."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SmallConvNet(nn.Module):
    """The MNIST example's shape: two convolutions, two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.relu(self.conv2(self.relu(self.conv1(x)))))
        result: Tensor = self.fc2(self.relu(self.fc1(x.flatten(1))))
        return result


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.short = (
            nn.Identity()
            if stride == 1 and inputs == outputs
            else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        result: Tensor = self.relu(inner + self.short(x))
        return result


class ResidualNet(nn.Module):
    """As deep and wide as ResNet-18 (11 M parameters), for 32x32 images."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()
        )
        widths = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
        self.layers = nn.Sequential(
            *(
                block
                for inputs, outputs, stride in widths
                for block in (Block(inputs, outputs, stride), Block(outputs, outputs, 1))
            )
        )
        self.fc = nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.fc(self.layers(self.stem(x)).mean((2, 3)))
        return result


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        result: Tensor = self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return result


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        result: Tensor = x + self.mlp(self.norm2(x))
        return result


class SmallGPT(nn.Module):
    """A decoder of about 10 M parameters."""

    def __init__(self, vocabulary: int = 2048, width: int = 320, depth: int = 7) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(128, width)
        self.layers = nn.Sequential(*(Layer(width, 5) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        result: Tensor = self.head(self.norm(self.layers(x))).transpose(1, 2)
        return result


def small_cnn() -> tuple[nn.Module, Tensor, Tensor]:
    return SmallConvNet(), torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))


def resnet() -> tuple[nn.Module, Tensor, Tensor]:
    return ResidualNet(), torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))


def gpt() -> tuple[nn.Module, Tensor, Tensor]:
    tokens = torch.randint(0, 2048, (8, 129))
    return SmallGPT(), tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


WORKLOADS: dict[str, Callable[[], tuple[nn.Module, Tensor, Tensor]]] = {
    "small CNN": small_cnn,
    "ResNet-18": resnet,
    "GPT 10 M": gpt,
}


class Training:
    """One model with its loss and optimizer. `hook` is any object with smdebug's methods."""

    def __init__(self, workload: str, hook: Any = None) -> None:
        torch.manual_seed(0)
        self.model, self.inputs, self.targets = WORKLOADS[workload]()
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        if hook is not None:
            hook.register_module(self.model)
            hook.register_loss(self.criterion)

    def step(self) -> None:
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(self.inputs), self.targets)
        loss.backward()
        self.optimizer.step()
