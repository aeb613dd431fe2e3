#!/usr/bin/env python3
"""Tunes the codec of the voice, solo24, from mini24's weights on the clips that are already there.

    codec.py CLIPS MINI24.safetensors OUT --seconds 380    # OUT/codec.safetensors in fp32, averaged; OUT/codec.done

Losses, codebooks and discriminators are those of ../mini24.py. The learning rate follows the clock.
"""
import argparse, glob, math, os, sys, time

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchaudio
from safetensors.torch import load_file, save_file
from snac import SNAC

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import mini24
from aloud import RATE

SEG, SR = mini24.SEG, mini24.SR


class Clips:
    """The clips on the device, as 24 kHz and 16 bits, one after the other; takes in new files as they appear."""

    def __init__(self, folder, device):
        self.folder, self.device, self.seen = folder, device, set()
        self.samples = torch.zeros(0, dtype=torch.int16, device=device)
        self.steps = torch.arange(SEG, device=device)

    def refresh(self, most=40):
        new = [path for path in sorted(glob.glob(f"{self.folder}/*.npz")) if ".tmp" not in path and path not in self.seen]
        for path in new[:most]:
            self.seen.add(path)
            samples = torch.from_numpy(numpy.load(path)["samples"]).to(self.device).float()
            louder = torchaudio.functional.resample(samples, RATE, SR).round().clamp(-32767, 32767).short()
            self.samples = torch.cat([self.samples, louder])
        return len(new)

    def hours(self):
        return len(self.samples) / SR / 3600

    def batch(self, n):
        """Returns random segments, [n, 1, SEG], up to 4 dB softer."""
        first = torch.randint(len(self.samples) - SEG, (n, 1), device=self.device)
        x = self.samples[first + self.steps].float() / 32768
        return (x * 10 ** (torch.rand(n, 1, device=self.device) * -4 / 20))[:, None]


def rate_at(share, step, peak):
    return peak * min(1, (step + 1) / 200) * (0.04 + 0.96 * 0.5 * (1 + math.cos(math.pi * share)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("clips", "start", "out"):
        parser.add_argument(name)
    parser.add_argument("--seconds", type=float, default=380)
    parser.add_argument("--hours", type=float, default=4, help="wait for so many hours of clips")
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--gan-from", type=float, default=0.2)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", default="inductor", help="'' turns it off")
    parser.add_argument("--log", type=int, default=200)
    a = parser.parse_args()
    began, device = time.time(), torch.device(a.device)
    say = lambda *words: print(f"codec [{time.time() - began:4.0f} s]", *words, flush=True)
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    os.makedirs(a.out, exist_ok=True)
    amp = lambda on=True: torch.autocast(device.type, dtype=torch.bfloat16, enabled=on)
    model = SNAC(**mini24.CONFIG).to(device)
    model.load_state_dict({key: weight.float() for key, weight in load_file(a.start).items()})
    quant, disc = mini24.Quantiser(model.quantizer), mini24.Discriminators().to(device).to(memory_format=torch.channels_last)
    params = [p for p in model.parameters() if p.requires_grad]
    fused = device.type == "cuda"
    opt = torch.optim.AdamW(params, a.rate, betas=(0.8, 0.99), weight_decay=1e-3, fused=fused)
    optd = torch.optim.AdamW(disc.parameters(), a.rate, betas=(0.8, 0.99), weight_decay=1e-3, fused=fused)
    spectral = mini24.SpectralLoss(device)

    def encode(x):
        with amp():
            return model.encoder(x)

    def decode(z):
        with amp():
            h = model.decoder.model[:-3](z)
        with amp(False):
            return model.decoder.model[-3:](h.float())

    def generate(x, **kw):
        zq, commit = quant(encode(x).float(), **kw)
        return decode(zq), commit

    quant.ready = True
    if a.compile:
        kept = {key: weight.clone() for key, weight in model.state_dict().items()}
        try:
            mini24.make_fast()
            plain = (encode, decode)
            encode, decode = (torch.compile(f, dynamic=False, backend=a.compile) for f in plain)
            generate(torch.randn(a.batch, 1, SEG, device=device) * 0.1)[0].square().mean().backward()
        except Exception as error:
            say("compiling failed:", repr(error)[:300])
            encode, decode = plain
        opt.zero_grad(set_to_none=True)
        model.load_state_dict(kept)
        quant = mini24.Quantiser(model.quantizer)
        quant.ready = True
        say("compiled")
    clips = Clips(a.clips, device)
    while clips.hours() < a.hours:
        clips.refresh()
        time.sleep(0.5)
    say(f"{clips.hours():.1f} hours of clips")
    names, weights = zip(*[(key, p.data) for key, p in model.named_parameters()])
    ema = [weight.clone() for weight in weights]

    def save():
        path = f"{a.out}/codec.safetensors"
        save_file({k: w.float().cpu().contiguous() for k, w in zip(names, ema)}, path + ".tmp")
        os.replace(path + ".tmp", path)

    start = saved = time.time()
    step, gan0, log, good = 0, None, {}, None
    while (share := (time.time() - start) / a.seconds) < 1:
        if step % 100 == 0:
            clips.refresh(8)
        for o in (opt, optd):
            for group in o.param_groups:
                group["lr"] = rate_at(share, step, a.rate)
        gan = share >= a.gan_from
        gan0 = step if gan and gan0 is None else gan0
        x = clips.batch(a.batch)
        y, commit = generate(x, decay=0.99 if share < 0.5 else 0.997, revive=step % 25 == 24 and share < 0.75)
        if gan:
            with amp():
                out = disc(torch.cat([x, y.detach()]))
            n = len(x)
            ld = sum((1 - o[-1][:n].float()).square().mean() + o[-1][n:].float().square().mean() for o in out)
            optd.zero_grad(set_to_none=True)
            ld.backward()
            nn.utils.clip_grad_norm_(disc.parameters(), 10.0)
            optd.step()
            real = [[f[:n].detach() for f in o[:-1]] for o in out]
            log["d"] = ld.detach()
            del out
        mel, st = spectral(y, x)
        loss = 20 * mel + st + F.l1_loss(y, x) + 0.25 * commit
        if gan:
            disc.requires_grad_(False)
            with amp():
                out = disc(y)
            disc.requires_grad_(True)
            adv = sum((1 - o[-1].float()).square().mean() for o in out)
            fm = sum(F.l1_loss(f.float(), r.float()) / len(rs) for o, rs in zip(out, real) for f, r in zip(o[:-1], rs))
            loss = loss + min(1.0, max(0.0, (step - gan0 - 200) / 500)) * (0.7 * adv + 2 * fm)
            log.update(adv=adv.detach(), fm=fm.detach())
            del out, real
        opt.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        torch._foreach_lerp_(ema, list(weights), 1 - min(0.998, (step + 1) / (step + 20)))
        log.update(mel=mel.detach(), st=st.detach(), commit=commit.detach(), norm=norm)
        step += 1
        if step % a.log == 0 or step in (1, 20):
            values = {key: float(value) for key, value in log.items()}
            say(f"step {step}, {time.time() - start:.0f} s, {clips.hours():.0f} h,",
                " ".join(f"{key} {value:.3f}" for key, value in values.items()), "codes", quant.usage())
            if not all(map(math.isfinite, values.values())) and good is not None:
                say("not finite: back to the last good state")
                for now, then in zip((*weights, *ema), good):
                    now.copy_(then)
                opt.state.clear()
                optd.state.clear()
            elif time.time() - saved > 60:
                good = [weight.clone() for weight in (*weights, *ema)]
                save()
                saved = time.time()
    save()
    open(f"{a.out}/codec.done", "w").write(f"{step}\n")
    say(f"done: {step} steps in {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
