"""The model ends in softmax, the loop takes log_softmax of that for nll_loss.

cause: LossInputAlreadySoftmax
where: .*
step: 0-20
"""

import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 0, 48, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Names(nn.Module):
    """Which language is a name of? After the tutorial, with a cell of its own."""

    def __init__(self, letters, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.embed = nn.Embedding(letters, hidden_size)
        self.i2h = nn.Linear(2 * hidden_size, hidden_size)
        self.i2o = nn.Linear(hidden_size, output_size)
        self.softmax = nn.Softmax(dim=1)

    def forward(self, name):
        hidden = torch.zeros(len(name), self.hidden_size)
        for t in range(name.size(1)):
            hidden = torch.tanh(self.i2h(torch.cat((self.embed(name[:, t]), hidden), 1)))
        return self.softmax(self.i2o(hidden))


habits = torch.randn(6, 26) * 1.2
rnn = Names(26, WIDTH, 6)
optimizer = torch.optim.Adam(rnn.parameters(), lr=LR)
for iteration in range(1, 301):
    language = torch.randint(0, 6, (32,))
    name = torch.multinomial(habits[language].softmax(1), 7, replacement=True)
    output = rnn(name)
    loss = F.nll_loss(F.log_softmax(output, dim=1), language)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if iteration % 50 == 0:
        guess = output.argmax(1)
        print(iteration, f"{loss.item():.4f}", (guess == language).float().mean().item())
