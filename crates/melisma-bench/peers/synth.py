"""The pads of `melisma bench synth` in PyTorch, vectorised over voices: the same oscillators, envelope and filter.

Prints one JSON object: row to peer to figure. Arguments: cpu or cuda.
"""

import json
import math
import sys
import time

import torch

RATE = 48_000
REACH, PER_SAMPLE, CUTOFF, BETA = 8, 64, 0.35, 7.5
TICK = 32


def step_table(device):
    """The band-limited step, as in our kernel."""
    parts = 16
    n = REACH * PER_SAMPLE * parts
    x = (torch.arange(n, dtype=torch.float64) + 0.5) / (PER_SAMPLE * parts)
    kernel = torch.sinc(2 * CUTOFF * x) * torch.special.i0(BETA * torch.sqrt(1 - (x / REACH) ** 2))
    sums = torch.cat([torch.zeros(1, dtype=torch.float64), torch.cumsum(kernel, 0)])[::parts]
    values = (sums / sums[-1]).float()
    slopes = torch.cat([values[1:] - values[:-1], torch.zeros(1)])
    return values.to(device), slopes.to(device)


class Pads:
    """Pads with keys of five octaves, in chunks of time; the filter's recursion is a loop over samples."""

    def __init__(self, n, device):
        index = torch.arange(n, device=device)
        key = 36 + index * 7 % 49
        self.hz = 440.0 * 2.0 ** ((key.double() - 69.0) / 12.0)
        self.phase = torch.full((n,), 0.75, dtype=torch.float64, device=device)
        self.saw_phase = torch.full((n,), 0.5, dtype=torch.float64, device=device)
        self.detune = 2.0 ** (5.0 / 1200.0)
        self.pan = torch.stack([torch.cos((index % 9 / 4.0) * math.pi / 4), torch.sin((index % 9 / 4.0) * math.pi / 4)]).float()
        self.state = [torch.zeros(n, device=device), torch.zeros(n, device=device)]
        self.cutoff = torch.log2(1200.0 * torch.sqrt(self.hz / 261.6) / RATE).float()
        self.values, self.slopes = step_table(device)
        self.now = 0

    def level(self, t):
        """The attack of 2.5 s; benches stay inside of it."""
        last = 2.0**-2.0
        return 1.0 - (torch.exp2(-2.0 * t / (2.5 * RATE)) - last) / (1.0 - last)

    def saw(self, phase, period):
        turn = torch.where(phase >= 0.5, phase - 1.0, phase)
        place = torch.clamp(turn.abs() * period * PER_SAMPLE, max=REACH * PER_SAMPLE)
        whole = place.long()
        height = self.values[whole] + (place - whole) * self.slopes[whole]
        return 2 * turn - torch.sign(turn) * height

    def inputs(self, n):
        """Oscillators, envelope and coefficients of n samples: [n, voices]."""
        t = torch.arange(n, device=self.hz.device, dtype=torch.float64)[:, None]
        turns = self.hz / RATE
        phase = torch.remainder(self.phase + t * turns, 1.0).float()
        saw_phase = torch.remainder(self.saw_phase + t * turns * self.detune, 1.0).float()
        self.phase = torch.remainder(self.phase + n * turns, 1.0)
        self.saw_phase = torch.remainder(self.saw_phase + n * turns * self.detune, 1.0)
        x = 0.5 * torch.cos(2 * math.pi * phase) + 0.5 * self.saw(saw_phase, (RATE / self.hz / self.detune).float())
        age = (self.now + t).float()
        self.now += n
        octaves = self.cutoff - 1.5 * torch.exp2(-age / (0.5 * RATE)) + 0.35 * torch.cos(2 * math.pi * 0.5 * age / RATE)
        g = torch.tan(math.pi * torch.clamp(torch.exp2(octaves), max=0.45))
        a1 = 1.0 / (1.0 + g * (g + 1.25))
        return x, a1, g * a1, g * g * a1, self.level(age)

    def render(self, n):
        """Stereo mix: [2, n]."""
        x, a1, a2, a3, level = self.inputs(n)
        s1, s2 = self.state
        low = torch.empty_like(x)
        for i in range(n):
            v3 = x[i] - s2
            v1 = a1[i] * s1 + a2[i] * v3
            v2 = s2 + a2[i] * s1 + a3[i] * v3
            s1, s2 = 2 * v1 - s1, 2 * v2 - s2
            low[i] = v2
        self.state = [s1, s2]
        return self.pan @ (low * level * 0.08).T


def median(work, runs):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def cpu():
    torch.set_num_threads(1)
    n, length = 4096, 960
    pads = Pads(n, "cpu")
    pads.render(length)
    seconds = median(lambda: pads.render(length), 5)
    figure = n * length / RATE / seconds
    name = f"PyTorch {torch.__version__.split('+')[0]}"
    return {f"synth/pads 1t {isa}": {name: figure} for isa in ("avx2", "avx512")}


def additive(increments, levels, rates, left, right, n):
    """Mixes of eight voices with eight partials each: [mixes, n, 2]."""
    t = torch.arange(n, device=increments.device, dtype=torch.float32)
    attack, decay = 0.003 * RATE, 4.0 * RATE
    rise = 1.0 - (torch.exp2(-t / attack) - 0.5) / 0.5
    fall = (torch.exp2(-6.0 * (t - attack) / decay) - 2.0**-6) / (1 - 2.0**-6)
    envelope = torch.where(t < attack, rise, fall)
    phase = torch.frac(increments[:, :, None] * t)
    total = torch.zeros_like(phase)
    for k in range(8):
        wave = torch.sin((2 * math.pi * (k + 1)) * phase)
        total = total + levels[:, :, k, None] * torch.exp2(-rates[:, :, k, None] * t) * wave
    total = total * envelope
    return torch.stack([(total * left[:, :, None]).sum(1), (total * right[:, :, None]).sum(1)], -1)


def cuda():
    torch.backends.cuda.matmul.allow_tf32 = False
    n_mixes, length = 512, RATE
    key = (36 + torch.arange(8 * n_mixes, device="cuda") * 7 % 49).reshape(n_mixes, 8)
    hz = 440.0 * 2.0 ** ((key.float() - 69.0) / 12.0)
    k = torch.arange(1, 9, device="cuda")
    levels = (0.5 / k**1.3).expand(n_mixes, 8, 8).contiguous()
    rates = (k / (0.5 * RATE)).expand(n_mixes, 8, 8).contiguous()
    gain = torch.full((n_mixes, 8), 0.1, device="cuda")
    compiled = torch.compile(additive)

    def work():
        compiled(hz / RATE, levels, rates, gain, gain, length)
        torch.cuda.synchronize()

    work()
    work()
    seconds = median(work, 9)
    return {"synth/additive voices": {f"torch.compile {torch.__version__.split('+')[0]}": 8 * n_mixes * length / RATE / seconds}}


torch.manual_seed(0)
with torch.no_grad():
    print(json.dumps(cpu() if sys.argv[1] == "cpu" else cuda()))
