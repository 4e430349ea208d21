"""Fine-tuning with batch norm kept in evaluation mode on purpose, and a head that is new.

looks like: TrainingInEvaluationMode
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 16, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
labels = torch.tensor(digits.target)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, WIDTH, 3),
            nn.BatchNorm2d(WIDTH),
            nn.ReLU(),
            nn.Conv2d(WIDTH, WIDTH, 3),
            nn.BatchNorm2d(WIDTH),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.head = nn.Linear(16 * WIDTH, 2)

    def forward(self, x):
        return self.head(self.backbone(x))

    def train(self, mode=True):
        super().train(mode)
        if getattr(self, "is_tuned", False):
            for module in self.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.eval()
        return self


def run(model, target, groups, steps):
    optimizer = torch.optim.AdamW(groups)
    criterion = nn.CrossEntropyLoss()
    for step in range(steps):
        model.train()
        rows = torch.randint(0, 1400, (32,))
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(images[rows]), target[rows])
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            model.eval()
            with torch.no_grad():
                right = (model(images[1400:]).argmax(1) == target[1400:]).float().mean()
            print(f"{step} loss {loss.item():.3f} accuracy {right:.3f}")


net = Net()
run(net, labels % 2, [{"params": net.parameters(), "lr": LR}], 100)
net.head = nn.Linear(16 * WIDTH, 10)
net.is_tuned = True
run(
    net,
    labels,
    [
        {"params": net.backbone.parameters(), "lr": LR / 20},
        {"params": net.head.parameters(), "lr": LR},
    ],
    150,
)
