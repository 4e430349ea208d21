"""Each rule on a script with its mistake, and on the same script without it."""

import textwrap
from pathlib import Path

import pytest

from trackside.check.check import check_program, check_script
from trackside.check.program import read_program
from trackside.check.rules import ALL, JOINED
from trackside.check.rules.patterns import ONLY_JOINED

HEAD = """\
import copy, torch
from torch import nn, optim
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset
from torch.nn.parallel import DistributedDataParallel as DDP

data = TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,)))
loader = DataLoader(data, batch_size=8, shuffle=True)
held_out = DataLoader(data, batch_size=8)
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 2))
optimizer = optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
epochs = 3
"""
LOOP = """
for epoch in range(epochs):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""
CLIP = "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
ONE_CYCLE = (
    "schedule = optim.lr_scheduler.OneCycleLR(optimizer, 1, total_steps=epochs * len(loader))"
)
RESUME = "model.load_state_dict(torch.load('a'))"
SAVE = "    torch.save({'m': model.state_dict(), 'o': optimizer.state_dict()}, 'a')\n"
FREEZING = """
class Net(nn.Module):
    def __init__(self, frozen=-1):
        super().__init__()
        self.frozen = frozen

    def _freeze(self):
        for p in self.parameters():
            p.requires_grad = False

net = Net(frozen=2)
"""
ADDED_UP = """
for epoch in range(epochs):
    for i, (x, y) in enumerate(loader):
        criterion(model(x), y).backward()
        if {}:
            optimizer.step()
            optimizer.zero_grad()
"""
TYING = """
class Net(nn.Module):
    def tie_weights(self):
        {}
"""
NOISY = """
def loss_of(model, x0, t):
    noise = torch.randn_like(x0)
    return F.mse_loss(model(add(x0, t, {}), t), noise)
"""
NOISY_LOOP = """
def add(x0, t, noise=None):
    if noise is None:
        noise = torch.randn_like(x0)
    return x0 + t * noise

for x, t in loader:
    noise = torch.randn_like(x)
    loss = F.mse_loss(model(add(x, t{})), noise)
"""
KEPT_ROWS = """
n = 8
kept = {}
data_again = DataLoader(data, n, shuffle={})
for i, (x, y) in enumerate(data_again):
    target = kept[{}]
    F.mse_loss(model(x), target).backward()
"""
KEEPER = """
class Keeper:
    def __init__(self, mode):
        self.mode, self.best = mode, None

    def update(self, value, model):
        is_more = self.best is None or value > self.best
        is_less = self.best is None or value < self.best
        if is_more if self.mode == "max" else is_less:
            self.best, self.weights = value, copy.deepcopy(model.state_dict())

keeper = Keeper(mode={})
keeper.update({}, model)
"""
SOFTENED = """
def distil(s, t, T):
    soft = F.softmax({}, dim=1)
    return F.kl_div(F.log_softmax(s / T, dim=1), soft, reduction="batchmean") * T * T
"""
CYCLED = """
import itertools
data = DataLoader(held_out.dataset, batch_size=8, shuffle=True)
for _ in range(3):
    batches = {}
"""
BINARY = (
    "criterion = nn.BCEWithLogitsLoss()"
    + LOOP
    + "kept = []\nfor x, y in held_out:\n    kept.append(model(x))\n"
)
EVALUATED = """
    model.eval()
    with torch.no_grad():
        for x, y in held_out:
            print({}.sum())
"""
TOTAL = """
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in held_out:
            loss = criterion(model(x), y)
            total += {}
    print(total / {})
"""
BEST = """
    model.eval()
    with torch.no_grad():
        average = sum(criterion(model(x), y).item() for x, y in held_out) / len(held_out)
    if {}:
        best = average
        torch.save(model.state_dict(), "a")
"""
READING = """
import numpy
class Noisy(Dataset):
    def __getitem__(self, i):
        return self.x[i] + {}.normal(size=4)
"""
COUNTED = """
class Rows(Dataset):
    def __len__(self):
        return len(self.x) {}
    def __getitem__(self, i):
        return {}
"""
COLLATED = """
def collate(batch):
    {}
    {}
    return torch.stack(xs), torch.tensor(ys)
batches = DataLoader(data, 8, collate_fn=collate)
"""
TIMES = """
for epoch in range(epochs):
    for x, y in loader:
        t = torch.randint(0, 9, (8,))
        noisy = x * t + torch.randn(8, 4)
        optimizer.zero_grad()
        criterion(model(noisy, {}), y).backward()
        optimizer.step()
"""
TARGET = """
def learn(net, batch):
    s, a, r, n, done = batch
    y = r + 0.99 * {}
    return F.smooth_l1_loss(net(s), y)
"""
BOOTSTRAPPED = """
for s, r, n in loader:
    y = r + 0.9 * {}
    loss = (model(s) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MASKED = """
class Pooled(nn.Module):
    def forward(self, x, padding_mask):
        return {}.mean(1)
print(Pooled()(torch.randn(2, 3), torch.ones(2, 3)))
"""
AVERAGED = """
class Average:
    def __init__(self, model):
        {}
    def update(self, model):
        for k, p in model.named_parameters():
            {}
average = Average(model)
"""
SWAPPED = """
def evaluate():
    kept = copy.deepcopy(model.state_dict())
    {}
    model.eval()
    with torch.no_grad():
        model(torch.randn(2, 4))
    {}
"""
APPLIED = """
class Average:
    def __init__(self):
        self.kept = {}
        self.shadow = {k: p.detach().clone() for k, p in model.named_parameters()}
    def update(self):
        for k, p in model.named_parameters():
            new = 0.9 * self.shadow[k] + 0.1 * p.detach()
            self.shadow[k] = new.clone()
    def apply(self):
        for k, p in model.named_parameters():
            self.kept[k] = p.detach().clone()
            p.data = self.shadow[k]
    def restore(self):
        for k, p in model.named_parameters():
            p.data = self.kept[k]
average = Average()
"""
LOADS = "average = {k: v.clone() for k, v in model.state_dict().items()}\n"
FOLLOWS = (
    "    for k, v in model.state_dict().items():\n        average[k].mul_(0.9).add_(v, alpha=0.1)\n"
)
IN_TURN = "    average.update()\n    average.apply()\n    model.eval()\n"
MERGING = """
class Adapted(nn.Linear):
    def forward(self, x):
        {}
        return super().forward(x) + x @ self.down.T @ self.up.T
    def merge(self):
        delta = self.up @ self.down
        self.weight.data += delta
        {}
layer = Adapted(4, 4)
layer.merge()
"""
PACKED = """
class Attention(nn.Module):
    def forward(self, q, k, v, ids):
        {}
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
def pack(texts, eos):
    row = []
    for each in texts:
        row += [*each, eos]
    return row
"""
SEEDED = """
SEED, WIDTH = 7, 32
LATER = 0
for LATER in range(3):
    print(LATER)
noise = np.random.randn(4)
def init(worker):
    np.random.seed({})
loader = DataLoader(data, num_workers=2, worker_init_fn=init)
"""
CACHED = """
import functools
class Crops(Dataset):
    {}
    def __getitem__(self, i):
        return torch.roll(self.x[i], {}, 0)
"""
DRAWN = """
class Noisy(Dataset):
    def __init__(self):
        self.rng = np.random.default_rng(0)
    def __getitem__(self, i):
        return self.rng.normal(size=4)
noisy = DataLoader(Noisy(), num_workers={})
"""
RETURNS = """
log_probs, g, returns = [], 0.0, []
for {}:
    g = {} + 0.99 * g
    returns.append(g)
"""
GRAPH = """
x, edge_index, y = make_graph()
order = torch.randperm(len(x))
x, y = x[order], y[order]
{}
out = net(x, edge_index)
"""
PAIRS = {
    "CopyNotMade": [
        (
            AVERAGED.format(
                "self.kept = {k: p.data for k, p in model.named_parameters()}",
                "self.kept[k].lerp_(p.data, 0.01)",
            ),
            AVERAGED.format(
                "self.kept = {k: p.data.clone() for k, p in model.named_parameters()}",
                "self.kept[k].lerp_(p.data, 0.01)",
            ),
        ),
        (
            AVERAGED.format("self.kept = model.state_dict()", "self.kept[k].mul_(0.9).add_(p)"),
            AVERAGED.format(
                "self.kept = model.state_dict()", "self.kept[k] = 0.9 * self.kept[k] + 0.1 * p"
            ),
        ),
        (
            "kept = list(model.parameters())\nfor a, p in zip(kept, model.parameters()):\n"
            "    a.copy_(0.9 * a + 0.1 * p)\n",
            "ema = copy.deepcopy(model)\nkept = list(ema.parameters())\n"
            "for a, p in zip(kept, model.parameters()):\n    a.copy_(0.9 * a + 0.1 * p)\n",
        ),
        (
            "target = model" + LOOP + "    target.load_state_dict(model.state_dict())\n",
            "target = copy.deepcopy(model)"
            + LOOP
            + "    target.load_state_dict(model.state_dict())\n",
        ),
    ],
    "AverageLeftIn": [
        (
            LOADS
            + SWAPPED.format("model.load_state_dict(average)", "")
            + LOOP
            + FOLLOWS
            + "    evaluate()\n",
            LOADS
            + SWAPPED.format("model.load_state_dict(average)", "model.load_state_dict(kept)")
            + LOOP
            + FOLLOWS
            + "    evaluate()\n",
        ),
        (APPLIED + LOOP + IN_TURN, APPLIED + LOOP + IN_TURN + "    average.restore()\n"),
        (
            APPLIED + LOOP + IN_TURN,
            APPLIED + LOOP + "    average.update()\naverage.apply()\nmodel.eval()\n",
        ),
        (
            APPLIED + LOOP + IN_TURN,  # slow weights, from which training goes on
            APPLIED
            + LOOP.replace(
                "        loss.backward", "        average.apply()\n        loss.backward"
            ),
        ),
    ],
    "AdapterMergedTwice": [
        (
            MERGING.format("", ""),
            MERGING.format("if self.merged: return F.linear(x, self.weight)", ""),
        ),
        (MERGING.format("", ""), MERGING.format("", "self.up.data.zero_()")),
        (MERGING.format("", ""), MERGING.format("", "").replace("layer.merge()", "")),
    ],
    "ForgottenZeroGrad": [
        (LOOP.replace("        optimizer.zero_grad()\n", ""), LOOP),
        (
            LOOP.replace("        optimizer.zero_grad()\n", "").replace(
                "    model.train()\n", "    model.train()\n    optimizer.zero_grad()\n"
            ),
            LOOP,
        ),
    ],
    "GradientMissing": [
        (
            LOOP.replace("        optimizer.zero_grad()\n", "").replace(
                "        optimizer.step()",
                "        optimizer.zero_grad()\n        optimizer.step()",
            ),
            LOOP,
        )
    ],
    "OptimizerNotStepping": [
        (LOOP.replace("        optimizer.step()\n", ""), LOOP),
        (LOOP.replace("        optimizer.step()", "    optimizer.step()"), LOOP),
    ],
    "ClippedAtWrongTime": [
        (
            LOOP + CLIP,
            LOOP.replace(
                "        optimizer.step()",
                CLIP + "        optimizer.step()",
            ),
        ),
        (
            LOOP.replace(
                "        loss.backward()",
                CLIP + "        loss.backward()",
            ),
            LOOP,
        ),
    ],
    "ScalerBypassed": [
        (
            "scaler = torch.amp.GradScaler('cpu')"
            + LOOP.replace("loss.backward()", "scaler.scale(loss).backward()"),
            "scaler = torch.amp.GradScaler('cpu')"
            + LOOP.replace("loss.backward()", "scaler.scale(loss).backward()").replace(
                "optimizer.step()", "scaler.step(optimizer)\n        scaler.update()"
            ),
        )
    ],
    "OptimizerRecreated": [
        (
            LOOP.replace(
                "        optimizer.zero_grad()",
                "        optimizer = optim.Adam(model.parameters())\n        optimizer.zero_grad()",
            ),
            LOOP,
        )
    ],
    "NoGradAroundTraining": [
        (
            LOOP.replace(
                "        loss = criterion(model(x), y)",
                "        with torch.no_grad():\n            scores = model(x)\n"
                "        loss = criterion(scores, y)",
            ),
            LOOP,
        )
    ],
    "ScheduleInOtherUnits": [
        (
            "schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)"
            + LOOP
            + "        schedule.step()\n",
            "schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)"
            + LOOP
            + "    schedule.step()\n",
        ),
        (
            ONE_CYCLE + LOOP + "    schedule.step()\n",
            ONE_CYCLE + LOOP + "        schedule.step()\n",
        ),
    ],
    "ScheduleNeverStepped": [
        (
            "schedule = optim.lr_scheduler.StepLR(optimizer, 1)" + LOOP,
            "schedule = optim.lr_scheduler.StepLR(optimizer, 1)" + LOOP + "    schedule.step()\n",
        )
    ],
    "ScheduleBeforeOptimizer": [
        (
            "schedule = optim.lr_scheduler.StepLR(optimizer, 100)"
            + LOOP.replace(
                "        loss.backward()", "        schedule.step()\n        loss.backward()"
            ),
            "schedule = optim.lr_scheduler.StepLR(optimizer, 100)" + LOOP + "    schedule.step()\n",
        )
    ],
    "TrainingInEvaluationMode": [
        (
            LOOP.replace("    model.train()\n", "") + "    model.eval()\n",
            LOOP + "    model.eval()\n",
        )
    ],
    "EvaluationInTrainingMode": [
        (
            LOOP + "    with torch.no_grad():\n        print(model(torch.randn(1, 4)))\n",
            LOOP + "    model.eval()\n    with torch.no_grad():\n"
            "        print(model(torch.randn(1, 4)))\n",
        )
    ],
    "DropoutInEvaluation": [
        (
            "class Net(nn.Module):\n    def forward(self, x):\n        return F.dropout(x, 0.5)\n",
            "class Net(nn.Module):\n    def forward(self, x):\n"
            "        return F.dropout(x, 0.5, training=self.training)\n",
        )
    ],
    "NotShuffled": [("loader = DataLoader(data, batch_size=8)" + LOOP, LOOP)],
    "SamplerWithoutEpoch": [
        (
            "sampler = DistributedSampler(data)\nloader = DataLoader(data, sampler=sampler)" + LOOP,
            "sampler = DistributedSampler(data)\nloader = DataLoader(data, sampler=sampler)"
            + LOOP.replace("    model.train()", "    sampler.set_epoch(epoch)\n    model.train()"),
        )
    ],
    "RanksShareData": [
        (
            "model = DDP(model)" + LOOP,
            "model = DDP(model)\nsampler = DistributedSampler(data)\n"
            "loader = DataLoader(data, sampler=sampler)"
            + LOOP.replace("    model.train()", "    sampler.set_epoch(epoch)\n    model.train()"),
        )
    ],
    "SeedInLoop": [
        (
            LOOP.replace("    model.train()", "    torch.manual_seed(0)\n    model.train()"),
            LOOP.replace("    model.train()", "    torch.manual_seed(epoch)\n    model.train()"),
        )
    ],
    "EvaluationOnTrainingData": [
        (
            LOOP + "    model.eval()\n    with torch.no_grad():\n        for x, y in loader:\n"
            "            print(model(x))\n",
            LOOP + "    model.eval()\n    with torch.no_grad():\n        for x, y in held_out:\n"
            "            print(model(x))\n",
        )
    ],
    "LossInputAlreadySoftmax": [
        (LOOP.replace("criterion(model(x), y)", "criterion(model(x).softmax(1), y)"), LOOP),
        (
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.last = nn.Linear(4, 2)\n    def forward(self, x):\n"
            "        return F.softmax(self.last(x), dim=1)\n"
            "model = Net()\noptimizer = optim.SGD(model.parameters(), 0.1)" + LOOP,
            LOOP,
        ),
    ],
    "WrapperBypassed": [
        (
            "wrapped = DDP(model)\nsampler = DistributedSampler(data)\n"
            "loader = DataLoader(data, sampler=sampler)"
            + LOOP.replace("    model.train()", "    sampler.set_epoch(epoch)\n    model.train()"),
            "wrapped = DDP(model)\nsampler = DistributedSampler(data)\n"
            "loader = DataLoader(data, sampler=sampler)"
            + LOOP.replace(
                "    model.train()", "    sampler.set_epoch(epoch)\n    model.train()"
            ).replace("model(x)", "wrapped(x)"),
        )
    ],
    "ParametersNotOptimized": [
        (
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.head = nn.Linear(4, 5)\n    def forward(self, x):\n"
            "        return self.head(x)\n"
            "model = Net()\noptimizer = optim.SGD(model.parameters(), 0.1)\n"
            "model.head = nn.Linear(4, 2)" + LOOP,
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.head = nn.Linear(4, 5)\n    def forward(self, x):\n"
            "        return self.head(x)\n"
            "model = Net()\nmodel.head = nn.Linear(4, 2)\n"
            "optimizer = optim.SGD(model.parameters(), 0.1)" + LOOP,
        )
    ],
    "LayersNotRegistered": [
        (
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.layers = [nn.Linear(4, 4) for _ in range(3)]\n",
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])\n",
        )
    ],
    "FreezeWithoutEffect": [
        (
            "for p in model.parameters():\n    p.require_grad = False\n",
            "for p in model.parameters():\n    p.requires_grad = False\n",
        ),
        ("model.requires_grad = False\n", "model.requires_grad_(False)\n"),
    ],
    "LabelsShuffledApart": [
        (
            GRAPH.format(""),
            GRAPH.format(
                "rank = torch.empty_like(order)\nrank[order] = torch.arange(len(order))\n"
                "edge_index = rank[edge_index]"
            ),
        ),
        (GRAPH.format(""), GRAPH.format("edge_index = nearest(x)")),
        (GRAPH.format(""), GRAPH.format("").replace("net(x, edge_index)", "net(x)")),
        (
            KEPT_ROWS.format("model(xs)", "True", "i * n : (i + 1) * n"),
            KEPT_ROWS.format("model(xs)", "False", "i * n : (i + 1) * n"),
        ),
        (
            KEPT_ROWS.format("model(xs)", "True", "i * n : i * n + n"),
            KEPT_ROWS.format("model(xs)", "True", "y"),
        ),
        (
            KEPT_ROWS.format("torch.load('scores.pt')", "True", "i * n : (i + 1) * n"),
            KEPT_ROWS.format("torch.randn(64, 2)", "True", "i * n : (i + 1) * n"),
        ),
        (
            COLLATED.format("xs, ys = zip(*batch)", "xs = sorted(xs, key=len)"),
            COLLATED.format("batch = sorted(batch, key=len)", "xs, ys = zip(*batch)"),
        ),
        (
            "rng.shuffle(x)\nrng.shuffle(y)\ndata = TensorDataset(x, y)\n",
            "order = rng.permutation(9)\nx, y = x[order], y[order]\ndata = TensorDataset(x, y)\n",
        ),
        (
            "x = x[torch.randperm(9)]\ny = y[torch.randperm(9)]\npairs = zip(x, y)\n",
            "random.Random(0).shuffle(x)\nrandom.Random(0).shuffle(y)\npairs = zip(x, y)\n",
        ),
        (
            "random.shuffle(files)\nrandom.shuffle(labels)\npairs = zip(files, labels)\n",
            "random.shuffle(files)\nrandom.shuffle(others)\npairs = zip(files, others)\n",
        ),
        (
            "def batches(x, y):\n    x = np.random.permutation(x)\n"
            "    y = np.random.permutation(y)\n    yield x[:9], y[:9]\n",
            "def batches(x, y):\n    i = np.random.permutation(len(x))\n    x = x[i]\n"
            "    y = y[i]\n    yield x[:9], y[:9]\n",
        ),
        (
            "i = torch.randperm(9)\nj = torch.randperm(9)\nx, y = x[i], y[j]\n",
            "i = torch.randperm(9)\nj = torch.randperm(9)\nx, y = x[i], y[i]\n",
        ),
    ],
    "WorkersSeededAlike": [
        (
            "noise = np.random.randn(4)\ndef init(worker):\n    np.random.seed(worker)\n"
            "loader = DataLoader(data, num_workers=2, worker_init_fn=init)\n",
            "noise = np.random.randn(4)\n"
            "def init(worker):\n    np.random.seed(torch.initial_seed() % 2**32)\n"
            "loader = DataLoader(data, num_workers=2, worker_init_fn=init)\n",
        ),
        (
            "noise = random.random()\ndef init(worker):\n    random.seed(0)\n"
            "loader = DataLoader(data, worker_init_fn=init, persistent_workers=True)\n",
            "noise = random.random()\ndef init(worker):\n    random.seed(worker)\n"
            "loader = DataLoader(data, worker_init_fn=init, persistent_workers=True)\n",
        ),
        (SEEDED.format("SEED"), SEEDED.format("SEED + torch.initial_seed()")),
        (SEEDED.format("SEED + worker"), SEEDED.format("LATER + worker")),
    ],
    "FreezeNeverCalled": [
        (FREEZING, FREEZING.replace("self.frozen = frozen", "self._freeze()")),
        (FREEZING, FREEZING.replace("Net(frozen=2)", "Net()")),
    ],
    "AccumulationInverted": [
        (ADDED_UP.format("(i + 1) % 4"), ADDED_UP.format("(i + 1) % 4 == 0")),
        (ADDED_UP.format("i % k != 0"), ADDED_UP.format("i % 2 != 0")),
    ],
    "WeightsUntied": [
        (
            TYING.format("self.head.weight.data = self.emb.weight.data"),
            TYING.format("self.head.weight = self.emb.weight"),
        ),
        (
            TYING.format("self.head.weight.copy_(self.emb.weight)"),
            TYING.format("self.head.weight = self.emb.weight"),
        ),
    ],
    "IteratorUsedUp": [
        (
            "batches = iter(held_out)\nfor epoch in range(3):\n    for x, y in batches:\n"
            "        model(x)\n",
            "for epoch in range(3):\n    batches = iter(held_out)\n    for x, y in batches:\n"
            "        model(x)\n",
        )
    ],
    "LossKeepsGraph": [
        (
            "total = 0" + LOOP + "        total += loss\n",
            "total = 0" + LOOP + "        total += loss.item()\n",
        )
    ],
    "NotRestored": [
        (
            RESUME + LOOP + SAVE,
            f"{RESUME}\noptimizer.load_state_dict(torch.load('b'))" + LOOP + SAVE,
        )
    ],
    "BestWeightsNotCopied": [
        (
            LOOP + "    best = model.state_dict()\nmodel.load_state_dict(best)\n",
            LOOP + "    best = copy.deepcopy(model.state_dict())\nmodel.load_state_dict(best)\n",
        )
    ],
    "MetricMiscomputed": [
        (
            BINARY + EVALUATED.format("(model(x) > 0.5)"),
            BINARY + EVALUATED.format("(model(x) > 0)"),
        ),
        (
            BINARY + EVALUATED.format("(torch.cat(kept) > 0.5)"),
            BINARY + EVALUATED.format("(torch.sigmoid(torch.cat(kept)) > 0.5)"),
        ),
        (
            LOOP + EVALUATED.format("(model(x).max(0)[1] == y)"),
            LOOP + EVALUATED.format("(model(x).max(1)[1] == y)"),
        ),
        (LOOP + EVALUATED.format("model(x).argmax(dim=0).eq(y)"), LOOP),
        (
            LOOP + TOTAL.format("loss.item()", "len(held_out.dataset)"),
            LOOP + TOTAL.format("loss.item() * len(x)", "len(held_out.dataset)"),
        ),
        (
            LOOP + TOTAL.format("loss.item()", "len(data)"),
            LOOP + TOTAL.format("loss.item()", "len(held_out)"),
        ),
    ],
    "WorstWeightsKept": [
        (LOOP + BEST.format("average > best"), LOOP + BEST.format("average < best")),
        (LOOP + BEST.format("best <= average"), LOOP + BEST.format("best >= average")),
        (KEEPER.format("'max'", "val_loss"), KEEPER.format("'min'", "val_loss")),
        (KEEPER.format("'min'", "val_acc"), KEEPER.format("'max'", "val_acc")),
        (KEEPER.format("'max'", "val_loss"), KEEPER.format("'max'", "-val_loss")),
        (
            KEEPER.format("'max'", "val_loss"),
            KEEPER.replace("value, model", "loss, model").format("'max'", "found"),
        ),
        (
            LOOP + "    val_acc = score()\n    if val_acc < best:\n        best = val_acc\n"
            "        torch.save(model.state_dict(), 'a')\n",
            LOOP + "    val_acc = score()\n    if val_acc > best:\n        best = val_acc\n"
            "        torch.save(model.state_dict(), 'a')\n",
        ),
    ],
    "AugmentedAlike": [
        (DRAWN.format("2"), DRAWN.format("0")),
        (DRAWN.format("2"), DRAWN.format("2, persistent_workers=True")),
        (
            READING.format("numpy.random.default_rng(3)"),
            READING.format("numpy.random.default_rng(i)"),
        ),
        (
            READING.format("torch.Generator().manual_seed(0)"),
            READING.format("numpy.random.default_rng()"),
        ),
        (
            CACHED.format("@functools.lru_cache(maxsize=None)", "random.randrange(3)"),
            CACHED.format("@functools.lru_cache(maxsize=64)", "random.randrange(3)"),
        ),
        (
            CACHED.format("@functools.cache", "int(torch.randint(0, 3, ()))"),
            CACHED.format("@functools.cache", "self.shift"),
        ),
    ],
    "SamplesNeverDrawn": [
        (
            COUNTED.format("// self.batch_size", "self.x[i]"),
            COUNTED.format("// self.batch_size", "self.x[i * 8 : i * 8 + 8]"),
        )
    ],
    "TimeDrawnAgain": [
        (
            TIMES.format("torch.randint(0, 9, (8,))"),
            TIMES.format("t"),
        )
    ],
    "PolicyGradientReversed": [
        (
            "values, returns = torch.rand(9), torch.rand(9)\nadvantage = values - returns\n",
            "values, returns = torch.rand(9), torch.rand(9)\nadvantage = returns - values\n",
        ),
        (RETURNS.format("r in rewards", "r"), RETURNS.format("r in reversed(rewards)", "r")),
        (
            RETURNS.format("t in range(len(rewards))", "rewards[t]"),
            RETURNS.format("t in range(len(rewards) - 1, -1, -1)", "rewards[t]"),
        ),
        (
            RETURNS.format("r, logp in zip(rewards, log_probs)", "r"),
            RETURNS.format("r, g in zip(rewards, next_values)", "r"),
        ),
    ],
    "EpisodeEndIgnored": [
        (TARGET.format("net(n).max(1)[0]"), TARGET.format("(1 - done) * net(n).max(1)[0]")),
        (
            TARGET.format("net(n).max(1)[0]") + "    done = torch.tensor(done)\n",
            TARGET.format("net(n).max(1)[0]") + "    y[done] = r[done]\n",
        ),
    ],
    "TargetWithGradients": [
        (BOOTSTRAPPED.format("model(n)"), BOOTSTRAPPED.format("model(n).detach()")),
        (BOOTSTRAPPED.format("model(n)"), BOOTSTRAPPED.format("copy.deepcopy(model)(n)")),
    ],
    "AccumulationMiscounted": [
        (ADDED_UP.format("i % 4 == 0"), ADDED_UP.format("(i + 1) % 4 == 0")),
    ],
    "AccumulationNotDivided": [
        (
            "k = 4" + ADDED_UP.format("(i + 1) % k == 0"),
            "k = 4"
            + ADDED_UP.replace("criterion(model(x), y)", "(criterion(model(x), y) / k)").format(
                "(i + 1) % k == 0"
            ),
        )
    ],
    "SameOrderEachEpoch": [
        (CYCLED.format("itertools.cycle(data)"), CYCLED.format("iter(data)")),
        (CYCLED.format("itertools.cycle(data)"), CYCLED.format("itertools.cycle(held_out)")),
    ],
    "NoiseNotAdded": [
        (NOISY.format("torch.randn_like(x0)"), NOISY.format("noise")),
        (NOISY_LOOP.format(""), NOISY_LOOP.format(", noise")),
        (NOISY_LOOP.format(""), NOISY_LOOP.format("") + "def show():\n    print(noise)\n"),
    ],
    "TemperatureOnOneSide": [
        (SOFTENED.format("t"), SOFTENED.format("t / T")),
        (SOFTENED.format("t"), SOFTENED.format("t * (1 / T)")),
    ],
    "MaskNotUsed": [
        (MASKED.format("x"), MASKED.format("x * padding_mask")),
    ],
}


def rules_of(folder: Path, text: str) -> list[str]:
    script = folder / "train.py"
    script.write_text(text)
    return [each.rule for each in check_script(script)[0]]


@pytest.mark.parametrize(
    ("rule", "sick", "mended"),
    [(rule, *pair) for rule, pairs in PAIRS.items() for pair in pairs],
)
def test_a_mistake_is_named_and_its_correction_is_not(rule, sick, mended, tmp_path):
    assert rules_of(tmp_path, HEAD + sick) == [rule]
    assert rules_of(tmp_path, HEAD + mended) == []


def test_slow_weights_are_put_in_whether_or_not_an_evaluation_follows(tmp_path):
    slow = "slow = [p.detach().clone() for p in model.parameters()]\n" + LOOP.replace(
        "    for x, y in loader", "    for i, (x, y) in enumerate(loader)"
    )
    put_in = "            for s, p in zip(slow, model.parameters()):\n"
    put_in += "                s.lerp_(p, 0.5)\n                p.data.copy_(s)\n"
    evaluated = "        model.eval()\n"
    script = HEAD + slow + "        if i % 5 == 4:\n" + put_in + evaluated
    assert "AverageLeftIn" not in rules_of(tmp_path, script)
    assert "AverageLeftIn" in rules_of(tmp_path, script.replace("if i % 5 == 4", "if True"))


def test_texts_that_a_script_packs_are_kept_apart_by_a_mask(tmp_path):
    causal = PACKED.format("mask = torch.ones(9, 9).tril().bool()")
    scripts = {
        "sick": causal,
        "masked": PACKED.format("mask = (ids[:, :, None] == ids[:, None, :]).tril()"),
        "in blocks": PACKED.format("mask[ids[0] : ids[1], ids[0] : ids[1]] = True"),
        "a stream": causal.replace("pack(", "stream("),
    }
    named = {}
    for name, text in scripts.items():
        script = tmp_path / "train.py"
        script.write_text(HEAD + text)
        named[name] = [each.rule for each in check_program(read_program(script), JOINED)]
    assert named == {"sick": ["PackedTextsMixed"], "masked": [], "in blocks": [], "a stream": []}


def test_every_rule_has_a_pair():
    assert {rule.name for rule in ALL} == PAIRS.keys()


TURNED_OFF = """
def measure(net):
    for parameter in net.parameters():
        parameter.requires_grad = False

def run():
    for step in range(100):
        loss = criterion(model(x), y)
        loss.backward()
        if step == 50:
            measure(model)

run()
"""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (TURNED_OFF, 1),
        (TURNED_OFF.replace("parameter.requires_grad =", "parameter.requires_grad_(False) #"), 1),
        (TURNED_OFF.replace("measure", "freeze"), 0),
        (TURNED_OFF.replace("= False", "= False  # only the head from now on: a probe"), 0),
        (TURNED_OFF + "model.requires_grad_(True)\n", 0),
        (TURNED_OFF.replace("= False", "= loss is None"), 0),
        (TURNED_OFF.replace("            measure(model)", "            pass"), 0),
        (TURNED_OFF.replace("loss.backward()", "print(loss)"), 0),
    ],
)
def test_what_freezes_in_the_loop_and_has_no_word_for_it(text: str, count: int, tmp_path: Path):
    script = tmp_path / "train.py"
    script.write_text(HEAD + text)
    assert len(check_program(read_program(script), ONLY_JOINED)) == count


def test_functions_classes_and_modules_of_the_script_are_followed(tmp_path):
    (tmp_path / "loops.py").write_text(
        textwrap.dedent("""
            class Trainer:
                def __init__(self, model, optimizer):
                    self.model, self.optimizer = model, optimizer

                def fit(self, loader, criterion):
                    for _ in range(9):
                        self.epoch(loader, criterion)

                def epoch(self, loader, criterion):
                    for x, y in loader:
                        loss = criterion(self.model(x), y)
                        loss.backward()
                        self.optimizer.step()
        """)
    )
    main = (
        "from loops import Trainer\n\n"
        "def main(lr):\n    Trainer(model, optimizer).fit(loader, criterion)\n"
    )
    script = tmp_path / "train.py"
    script.write_text(f"{HEAD}{main}\nif __name__ == '__main__':\n    main(0.1)\n")

    found, troubles = check_script(script)

    assert [(each.path, each.line, each.rule) for each in found] == [
        ("loops.py", 14, "ForgottenZeroGrad")
    ]
    assert troubles == []


def test_a_comment_silences_its_line(tmp_path):
    sick = HEAD + LOOP.replace("        optimizer.zero_grad()\n", "")
    marked = sick.replace("optimizer.step()", "optimizer.step()  # trackside: ignore[{}]")

    assert rules_of(tmp_path, marked.format("ForgottenZeroGrad")) == []
    assert rules_of(tmp_path, marked.format("NotShuffled")) == ["ForgottenZeroGrad"]


def test_a_script_that_calls_itself_without_end_is_read(tmp_path):
    text = "def a(n):\n    return b(n) + b(n)\n\ndef b(n):\n    return a(n) + a(n)\n\na(1)\n"
    chain = "".join(f"def f{n}():\n    f{n + 1}(); f{n + 1}()\n" for n in range(40))

    assert rules_of(tmp_path, text) == []
    assert rules_of(tmp_path, chain + "f0()\n") == []


def test_a_damaged_module_is_left_out_and_named(tmp_path):
    (tmp_path / "broken.py").write_text("def (")
    script = tmp_path / "train.py"
    script.write_text("import broken\n")

    assert check_script(script)[1] == ["broken.py is left out: invalid syntax (broken.py, line 1)"]
