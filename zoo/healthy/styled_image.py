"""Neural style: the image is what is optimised; the net is frozen and in evaluation mode.

looks like: OptimizerOfAnotherModel, TrainingInEvaluationMode
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 16, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)
net = nn.Sequential(
    nn.Conv2d(3, WIDTH, 3, padding=1), nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.ReLU()
)
net.eval().requires_grad_(False)
content, style = torch.rand(1, 3, 24, 24), torch.rand(1, 3, 24, 24).round()


def gram(features):
    flat = features.flatten(2)
    return flat @ flat.transpose(1, 2) / flat.shape[-1]


content_features = net(content)
style_gram = gram(net(style))
image = content.clone().requires_grad_(True)
optimizer = torch.optim.Adam([image], lr=LR)
for step in range(250):
    features = net(image)
    content_loss = nn.functional.mse_loss(features, content_features)
    style_loss = nn.functional.mse_loss(gram(features), style_gram)
    loss = content_loss + 100 * style_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        image.clamp_(0, 1)
    if step % 50 == 0:
        print(f"{step} content {content_loss.item():.5f} style {style_loss.item():.6f}")
