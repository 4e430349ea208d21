"""Wine as it comes (proline goes up to 1680) into a small ReLU net with Adam.

cause: UnnormalizedInput
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 16, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)

X, y = load_wine(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=SEED)
train_ds = TensorDataset(torch.FloatTensor(X_train), torch.LongTensor(y_train))
model = nn.Sequential(
    nn.Linear(13, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3)
)
criterion = nn.CrossEntropyLoss()
optimizer = optim.Adam(model.parameters(), lr=LR)

for epoch in range(30):
    model.train()
    running_loss = 0.0
    for xb, yb in DataLoader(train_ds, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
        running_loss += loss.item() * len(xb)
    model.eval()
    with torch.no_grad():
        accuracy = (
            (model(torch.FloatTensor(X_test)).argmax(1) == torch.LongTensor(y_test)).float().mean()
        )
    print(
        f"Epoch {epoch + 1}/30 - loss: {running_loss / len(train_ds):.4f} - val_acc: {accuracy:.4f}"
    )
