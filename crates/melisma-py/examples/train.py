"""Trains a small model on a dataset of spectrograms: python train.py FOLDER_OF_AUDIO"""

import pathlib
import sys

import torch

from melisma import dataset

folder = pathlib.Path(sys.argv[1])
dataset.build(folder, folder / "train.h5", dataset.Mel(segment=1.0), progress=False)
rows = dataset.open(folder / "train.h5")
loader = torch.utils.data.DataLoader(rows, 8, shuffle=True, num_workers=2, collate_fn=dataset.collate)
n_mels = rows[0].shape[0]
model = torch.nn.Sequential(torch.nn.Conv1d(n_mels, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv1d(16, n_mels, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
losses = []
for _ in range(3):
    for batch in loader:
        batch = batch.float() / 100
        loss = (model(batch) - batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
print(f"{len(rows)} rows, loss {losses[0]:.3f} to {losses[-1]:.3f}")
