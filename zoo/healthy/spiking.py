"""A spiking net with a surrogate gradient: most outputs are exactly zero at each moment."""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 64, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, potential):
        ctx.save_for_backward(potential)
        return (potential > 0).float()

    @staticmethod
    def backward(ctx, grad):
        (potential,) = ctx.saved_tensors
        return grad / (1 + 5 * potential.abs()) ** 2


class SpikingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.into = nn.Linear(20, WIDTH)
        self.out = nn.Linear(WIDTH, 3)

    def forward(self, spikes):
        potential = torch.zeros(spikes.shape[1], WIDTH)
        total = 0.0
        for moment in spikes:
            potential = 0.8 * potential + self.into(moment)
            fired = Spike.apply(potential - 1)
            potential = potential * (1 - fired.detach())
            total = total + self.out(fired)
        return total / len(spikes)


net = SpikingNet()
optimizer = torch.optim.Adam(net.parameters(), lr=LR)
patterns = torch.rand(3, 20)
for step in range(200):
    label = torch.randint(3, (48,))
    spikes = (torch.rand(15, 48, 20) < 0.4 * patterns[label]).float()
    loss = nn.functional.cross_entropy(net(spikes), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"{step} {loss.item():.3f}")
