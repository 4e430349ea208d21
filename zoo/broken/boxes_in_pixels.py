"""A detector: squared errors of boxes in pixels drown the classes' cross-entropy.

cause: LossTermDominates
where: .*
step: 0-40
"""

import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 0, 16, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, WIDTH, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
        )
        self.cls = nn.Linear(16 * WIDTH, 4)
        self.box = nn.Linear(16 * WIDTH, 4)

    def forward(self, images):
        features = self.backbone(images)
        return {"scores": self.cls(features), "boxes": self.box(features)}


def scene(n):
    label = torch.randint(0, 4, (n,))
    image = 0.3 * torch.randn(n, 3, 32, 32)
    corner = torch.randint(0, 20, (n, 2))
    for k in range(n):
        a, b = corner[k].tolist()
        image[k, int(label[k]) % 3, a : a + 12, b : b + 12] += 1 + int(label[k]) // 3
    boxes = torch.cat([corner, corner + 12], 1).float() * 20
    return image, label, boxes


detector = Detector()
optimizer = torch.optim.SGD(detector.parameters(), lr=LR * 1e-3, momentum=0.9)
for step in range(200):
    images, labels, boxes = scene(16)
    out = detector(images)
    loss_cls = F.cross_entropy(out["scores"], labels)
    loss_box = F.mse_loss(out["boxes"], boxes)
    loss = loss_cls + loss_box
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"cls {loss_cls.item():.3f} box {loss_box.item():.1f}")
