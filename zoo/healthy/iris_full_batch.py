"""Iris as in a first tutorial: unscaled centimetres, all rows at each step, Adam.

looks like: UnnormalizedInput
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split
from torch import nn

SEED, WIDTH, LR = 0, 8, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Model(nn.Module):
    def __init__(self, in_features=4, h1=WIDTH, h2=WIDTH + 1, out_features=3):
        super().__init__()
        self.fc1 = nn.Linear(in_features, h1)
        self.fc2 = nn.Linear(h1, h2)
        self.out = nn.Linear(h2, out_features)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.out(x)


X, y = load_iris(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=SEED)
X_train, X_test = torch.FloatTensor(X_train), torch.FloatTensor(X_test)
y_train, y_test = torch.LongTensor(y_train), torch.LongTensor(y_test)
model = Model()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
losses = []
for i in range(200):
    y_pred = model.forward(X_train)
    loss = criterion(y_pred, y_train)
    losses.append(loss.detach().numpy())
    if i % 20 == 0:
        print(f"Epoch: {i} and loss: {loss}")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    print(f"test loss {criterion(model.forward(X_test), y_test):.3f}")
