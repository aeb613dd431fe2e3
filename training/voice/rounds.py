"""The data of the language model: clips as codes, and rounds through them in batches."""
import glob, os, queue, random, threading, traceback

import numpy
import torch

import letters
from letters import END, FIRST_CODE, N_CODES, N_SLOTS

MAX_LETTERS, MAX_FRAMES = 300, 260


class Item:
    """A text and its codes."""

    def __init__(self, ids, variants):
        self.ids, self.variants, self.visits = ids, variants, 0


class Store:
    """Texts as ids and clips as codes, in this process's memory."""

    def __init__(self, texts, clips, codec, variants):
        self.texts, self.clips, self.codec, self.variants = texts, clips, codec, variants
        self.tokenizer, self.draw, self.seen = letters.Letters(), random.Random(7), set()
        self.items, self.held = [], []

    def refresh(self, most, n_held):
        """Encodes up to `most` new files; the first clips of all are held out."""
        new = [path for path in sorted(glob.glob(f"{self.clips}/*.npz")) if ".tmp" not in path and path not in self.seen]
        new.sort(key=lambda path: int(path.rsplit("-", 1)[1][:-4]))
        for at in range(0, min(most, len(new)), 8):
            paths, clips, numbers = new[at : at + 8], [], []
            for path in paths:
                self.seen.add(path)
                file = numpy.load(path)
                clips += numpy.split(file["samples"], numpy.cumsum(file["lengths"])[:-1])
                numbers += file["numbers"].tolist()
            variants = [self.codec.encode(clips, self.draw) for _ in range(self.variants)]
            for index, number in enumerate(numbers):
                item = Item(self.tokenizer.ids(self.texts[number]), [variant[index] for variant in variants])
                (self.held if len(self.held) < n_held else self.items).append(item)
        return min(most, len(new))


def lay_out(samples):
    """Lays samples [(ids, codes)] out as tokens, places and codes; each place predicts the code after it."""
    time = max(len(ids) + N_SLOTS * len(codes) + 3 for ids, codes in samples)
    time = -(-time // 64) * 64
    tokens = numpy.zeros((len(samples), time), numpy.int32)
    n_frames = sum(len(codes) for _, codes in samples)
    places = numpy.zeros((N_SLOTS, n_frames + len(samples)), numpy.int64)
    targets = numpy.full((N_SLOTS, n_frames + len(samples)), -1, numpy.int64)
    slots = numpy.arange(N_SLOTS)
    at = 0
    for row, (ids, codes) in enumerate(samples):
        n, p = len(codes), len(ids) + 2
        tokens[row, :p] = [letters.TEXT, *ids, letters.SPEECH]
        tokens[row, p : p + N_SLOTS * n] = (codes.astype(numpy.int32) + FIRST_CODE + N_CODES * slots).ravel()
        tokens[row, p + N_SLOTS * n] = END
        places[:, at : at + n] = row * time + p - 1 + N_SLOTS * numpy.arange(n)[None] + slots[:, None]
        targets[:, at : at + n] = codes.T
        places[0, n_frames + row] = row * time + p - 1 + N_SLOTS * n
        targets[0, n_frames + row] = N_CODES
        at += n
    return tokens, places, targets


def gather(items, draw, share_long):
    """Returns a round as samples: the half of the items that was seen least, so that late clips catch up.

    Some samples are several clips one after the other, as long texts are.
    """
    order = sorted(items, key=lambda item: (item.visits, draw.random()))[: max(len(items) // 2, 20_000)]
    draw.shuffle(order)
    samples = []
    while order:
        n = 1 if draw.random() > share_long else draw.randint(2, 5)
        ids, codes, frames = [], [], 0
        while order and n > 0:
            item, n = order[-1], n - 1
            chosen = item.variants[item.visits % len(item.variants)]
            if codes and (len(ids) + len(item.ids) > MAX_LETTERS or frames + len(chosen) > MAX_FRAMES):
                break
            order.pop()
            item.visits += 1
            ids = [*ids, letters.FIRST_LETTER, *item.ids] if ids else item.ids
            codes.append(chosen)
            frames += len(chosen)
        samples.append((ids, numpy.concatenate(codes) if len(codes) > 1 else codes[0]))
    return samples


def batches(samples, draw, tokens):
    """Cuts samples of similar lengths into batches of about `tokens`."""
    length = lambda sample: len(sample[0]) + N_SLOTS * len(sample[1]) + 3
    samples.sort(key=lambda sample: length(sample) * draw.uniform(0.97, 1.03))
    out, part, most = [], [], 0
    for sample in samples:
        most = max(most, -(-length(sample) // 64) * 64)
        if part and most * (len(part) + 1) > tokens:
            out.append(part)
            part, most = [], -(-length(sample) // 64) * 64
        part.append(sample)
    out.append(part)
    draw.shuffle(out)
    return out


class Feed:
    """Lays batches out beside the training, round after round."""

    def __init__(self, store, draw, tokens):
        self.queue, self.store, self.draw, self.tokens, self.round = queue.Queue(24), store, draw, tokens, 0
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        try:
            self.rounds()
        except Exception:
            traceback.print_exc()
            os._exit(1)

    def rounds(self):
        while True:
            parts = batches(gather(list(self.store.items), self.draw, 0.1), self.draw, self.tokens)
            for part in parts:
                # A batch of one is another shape to the compiler.
                if len(part) > 1:
                    self.queue.put([torch.from_numpy(array) for array in lay_out(part)])
            self.round += 1
