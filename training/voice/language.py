#!/usr/bin/env python3
"""Trains the language model of the voice while the clips are still being read aloud.

    language.py TEXTS.json.gz CLIPS CODEC OUT --until SECONDS   # CODEC/codec.safetensors, once CODEC/codec.done is there

Every clip is encoded twice, begun at random places of a frame, so that the model cannot learn codes by heart. New clips
are taken in every few seconds. OUT/voice.safetensors has averaged weights in fp32, written every two
minutes. `--until` counts from the start of the process.
"""
import argparse, gzip, json, math, os, random, sys, time

import numpy
import torch
import torch.nn as nn
from safetensors.torch import save_file

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import mini24
from encoder import FRAME, ROW_FRAMES, ROWS, Encoder
from letters import FIRST_CODE, N_CODES, N_SLOTS
from model import Llama
from rounds import Feed, Store, batches, lay_out

WEIGHTS = (1.5, 1.0, 0.6, 0.6, 1.0, 0.6, 0.6)


def disturb(tokens, share):
    """Replaces a share of the codes by random ones of the same slot."""
    hit = (torch.rand(tokens.shape, device=tokens.device) < share) & (tokens >= FIRST_CODE)
    other = torch.randint(0, N_CODES, tokens.shape, device=tokens.device, dtype=tokens.dtype)
    slot = torch.div(tokens - FIRST_CODE, N_CODES, rounding_mode="floor")
    return torch.where(hit, FIRST_CODE + slot * N_CODES + other, tokens)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("texts", "clips", "codec", "out"):
        parser.add_argument(name)
    parser.add_argument("--until", type=float, default=1300)
    parser.add_argument("--tokens", type=int, default=72_000, help="tokens of a batch")
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--drop", type=float, default=0.12)
    parser.add_argument("--noise", type=float, default=0.06)
    parser.add_argument("--variants", type=int, default=2)
    parser.add_argument("--files", type=int, default=200, help="new files to take in at once")
    parser.add_argument("--held", type=int, default=400)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--plain", action="store_true", help="compile nothing")
    a = parser.parse_args()
    began, device = time.time(), torch.device(a.device)
    say = lambda *words: print(f"voice [{time.time() - began:4.0f} s]", *words, flush=True)
    random.seed(5)
    torch.manual_seed(5)
    torch.set_float32_matmul_precision("high")
    os.makedirs(a.out, exist_ok=True)
    with gzip.open(a.texts, "rt") as file:
        texts = json.load(file)
    draw, net = random.Random(3), Llama(a.drop).to(device)
    say("parameters", sum(p.numel() for p in net.parameters()))
    weights = torch.tensor(WEIGHTS, device=device)
    losses = net.losses if a.plain else torch.compile(net.losses, dynamic=True)
    codec = Encoder(device, not a.plain, a.rows)

    def loss_of(arrays, noise, function):
        tokens, places, targets = arrays
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            per = function(disturb(tokens, noise) if noise else tokens, places, targets)
        return (per * weights).sum() / weights.sum(), per

    def fake(n, frames):
        return [([4 + k % 30 for k in range(40)], numpy.zeros((frames, N_SLOTS), numpy.int16)) for _ in range(n)]

    if not a.plain:
        mini24.make_fast()
        for n, frames in ((200, 40), (120, 70), (300, 25)):
            try:
                arrays = [torch.from_numpy(array).to(device) for array in lay_out(fake(n, frames))]
                loss_of(arrays, 0.05, losses)[0].backward()
                net.zero_grad(set_to_none=True)
                say("compiled for", tuple(arrays[0].shape))
            except Exception as error:
                say("compiling failed:", repr(error)[:500])
                losses = net.losses
                break
        try:
            with torch.no_grad():
                codec.run(torch.zeros(a.rows, 1, ROW_FRAMES * FRAME, device=device))
            say("encoder compiled")
        except Exception as error:
            say("compiling the encoder failed:", repr(error)[:500])
            codec.run = codec.plain
    while not os.path.exists(f"{a.codec}/codec.done"):
        time.sleep(0.5)
    codec.load(f"{a.codec}/codec.safetensors")
    net.start_from(codec.books())
    store = Store(texts, a.clips, codec, a.variants)
    say("files", store.refresh(10**6, a.held), "clips", len(store.items), "frames", sum(len(item.variants[0]) for item in store.items))
    decay = [p for p in net.parameters() if p.dim() > 1]
    flat = [p for p in net.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": flat, "weight_decay": 0.0}]
    opt = torch.optim.AdamW(groups, a.rate, betas=(0.9, 0.98), fused=device.type == "cuda")
    named = list(net.named_parameters())
    ema = [p.detach().clone() for _, p in named]
    live = [p.data for _, p in named]
    start, step, sums, visits = time.time(), 0, [], 0
    saved = looked = start

    def swapped():
        """Exchanges the weights and their averages."""
        for weight, mean in zip(live, ema):
            now = weight.clone()
            weight.copy_(mean)
            mean.copy_(now)

    held = [(item.ids, item.variants[0]) for item in store.held]
    held = [[torch.from_numpy(x).to(device) for x in lay_out(part)] for part in batches(held, random.Random(1), a.tokens // 2)]

    def held_losses():
        net.eval()
        with torch.no_grad():
            per = torch.stack([loss_of(arrays, 0, net.losses)[1] for arrays in held]).mean(0)
        net.train()
        return [round(x, 3) for x in per.tolist()]

    def save():
        swapped()
        net.eval()
        path = f"{a.out}/voice.safetensors"
        save_file({key: weight.float().contiguous().cpu() for key, weight in net.published().items()}, path + ".tmp")
        os.replace(path + ".tmp", path)
        say("saved; held out, averaged", held_losses())
        swapped()
        net.train()

    end = lambda: float(open(f"{a.out}/until").read()) if os.path.exists(f"{a.out}/until") else a.until
    until, feed = end(), Feed(store, draw, a.tokens)
    net.train()
    while (share := (time.time() - start) / max(1.0, until - (start - began))) < 1:
        arrays = [array.to(device, non_blocking=True) for array in feed.queue.get()]
        rate = a.rate * min(1, (step + 1) / 400) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))
        for group in opt.param_groups:
            group["lr"] = rate
        loss, per = loss_of(arrays, a.noise if draw.random() < 0.75 else 0.0, losses)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        step += 1
        visits += arrays[0].shape[0]
        with torch.no_grad():
            torch._foreach_lerp_(ema, live, 1 - min(0.9985, (step + 1) / (step + 100)))
        sums.append(per.detach())
        if step % 500 == 0 or step in (10, 100):
            train = [round(x, 2) for x in torch.stack(sums).mean(0).tolist()]
            say(f"step {step} rate {rate:.1e} round {feed.round} clips {len(store.items)} visits {visits} train", train)
            sums, until = [], end()
        if step % 2500 == 0:
            say("held out", held_losses())
        if time.time() - saved > 120:
            save()
            saved = time.time()
        if time.time() - looked > 8:
            store.refresh(a.files, a.held)
            looked = time.time()
    say(f"trained {step} steps, {feed.round} rounds, {visits} samples")
    save()
    swapped()
    net.eval()
    open(f"{a.out}/voice.done", "w").write(f"{step}\n")


if __name__ == "__main__":
    main()
