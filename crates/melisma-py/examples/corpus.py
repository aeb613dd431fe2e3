"""Trains a small model on a corpus of tokens, .safetensors, .h5 or a folder: python corpus.py CORPUS"""

import sys

import torch

from melisma import dataset


def collate(rows):
    """Returns the codes of rows [rows, frames, slots], padded with 0, and which frames are theirs [rows, frames]."""
    codes = [torch.from_numpy(codes.astype("int64")) for codes, text in rows]
    padded = torch.nn.utils.rnn.pad_sequence(codes, batch_first=True)
    lengths = torch.tensor([len(row) for row in codes])
    return padded, torch.arange(padded.shape[1]) < lengths[:, None]


class NextFrame(torch.nn.Module):
    """Predicts the codes of a frame from those of the frames before it."""

    def __init__(self, slots, codes, width=32):
        super().__init__()
        self.embedding = torch.nn.Embedding(slots * codes, width)
        self.recurrent = torch.nn.GRU(width, width, batch_first=True)
        self.head = torch.nn.Linear(width, slots * codes)
        self.register_buffer("first", torch.arange(slots) * codes)
        self.slots = slots

    def forward(self, codes):
        hidden, _ = self.recurrent(self.embedding(codes + self.first).mean(dim=2))
        return self.head(hidden).unflatten(-1, (self.slots, -1))


def main():
    rows = dataset.open(sys.argv[1])
    valid = [index for index in range(len(rows)) if rows.status[index] == 0]
    loader = torch.utils.data.DataLoader(torch.utils.data.Subset(rows, valid), 4, shuffle=True, collate_fn=collate)
    model = NextFrame(rows.column("codes").shape[1], 4096)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(5):
        for codes, is_there in loader:
            scores = model(codes[:, :-1])[is_there[:, 1:]]
            loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), codes[:, 1:][is_there[:, 1:]].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    print(f"{len(valid)} rows, loss {losses[0]:.3f} to {losses[-1]:.3f}")


main()
