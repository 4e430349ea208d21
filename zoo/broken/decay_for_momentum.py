"""weight_decay=0.9 where a decay factor was meant: the weights are pulled to nothing.

cause: WeightDecayTooStrong
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 0.001
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
X = torch.tensor(digits.data / 16 - 0.5, dtype=torch.float32)
Y = torch.tensor(digits.target)


def make_model():
    return nn.Sequential(
        nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)
    )


def main(model, epochs=8):
    optimizer = torch.optim.Adam(model.parameters(), lr=LR, weight_decay=0.9)
    for epoch in range(epochs):
        losses = []
        for batch in torch.randperm(len(X)).split(32):
            out = model(X[batch])
            loss = nn.functional.cross_entropy(out, Y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"{epoch}: {sum(losses) / len(losses):.4f}")


if __name__ == "__main__":
    main(make_model())
