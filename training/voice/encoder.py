"""The codec's encoder, for many clips at once."""
import numpy
import torch
import torch.nn.functional as F
import torchaudio
from safetensors.torch import load_file
from snac import SNAC

import export
from aloud import RATE

FRAME, SR = 2048, 24_000
ROWS, ROW_FRAMES = 28, 288


class Encoder:
    """Gets rows of a fixed size, in which clips lie one after the other, each in a row."""

    def __init__(self, device, compiled, rows=ROWS):
        self.device, self.rows = device, rows
        self.model = SNAC(**export.CODEC).to(device).eval()
        self.run = torch.compile(self.plain, dynamic=False) if compiled else self.plain

    def load(self, path):
        self.model.load_state_dict({key: weight.float() for key, weight in load_file(path).items()})

    def books(self):
        return torch.stack([q.codebook.weight for q in self.model.quantizer.quantizers]).float()

    def plain(self, x):
        """Returns codes [rows, frames, 7] of samples [rows, 1, n]."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            z = self.model.encoder(x)
        residual, levels = z.float(), []
        for q in self.model.quantizer.quantizers:
            r = F.avg_pool1d(residual, q.stride, q.stride) if q.stride > 1 else residual
            ze = q.in_proj(r)
            flat = ze.transpose(1, 2).reshape(-1, ze.shape[1])
            codes = (F.normalize(flat) @ F.normalize(q.codebook.weight).t()).argmax(1)
            levels.append(codes.view(len(x), -1))
            o = q.out_proj(q.codebook.weight[codes].view(*levels[-1].shape, -1).transpose(1, 2))
            residual = residual - (o.repeat_interleave(q.stride, -1) if q.stride > 1 else o)
        a, b, c = levels[0], levels[1].unflatten(1, (-1, 2)), levels[2].unflatten(1, (-1, 4))
        return torch.stack([a, b[..., 0], c[..., 0], c[..., 1], b[..., 1], c[..., 2], c[..., 3]], -1)

    @torch.no_grad()
    def encode(self, clips, draw):
        """Returns the codes of clips (samples of 16 kHz), each begun somewhere in its first frame."""
        lengths = numpy.array([len(clip) for clip in clips])
        # The resampler rounds long lengths to f32, hence the zeros behind them. Between clips it sees pauses only.
        flat = torch.from_numpy(numpy.concatenate([*clips, numpy.zeros(64, numpy.int16)])).to(self.device).float() / 32768
        flat = torchaudio.functional.resample(flat, RATE, SR)
        starts = numpy.concatenate([[0], numpy.cumsum(lengths)])[:-1] * 3 // 2
        lengths = lengths * 3 // 2
        shifts = numpy.array([draw.randrange(FRAME) for _ in clips])
        frames = -(-(lengths + shifts) // FRAME)
        firsts, at = [], 0
        for n in frames.tolist():
            if at % ROW_FRAMES + n > ROW_FRAMES:
                at = -(-at // ROW_FRAMES) * ROW_FRAMES
            firsts.append(at)
            at += n
        firsts, size = numpy.array(firsts), self.rows * ROW_FRAMES * FRAME
        line = torch.zeros(-(-at * FRAME // size) * size, device=self.device)
        # One gather instead of a copy for each clip.
        counts = torch.from_numpy(lengths).to(self.device)
        to = torch.from_numpy(firsts * FRAME + shifts).to(self.device)
        source = torch.from_numpy(starts).to(self.device)
        within = torch.arange(int(lengths.sum()), device=self.device)
        within = within - torch.repeat_interleave(torch.cumsum(counts, 0) - counts, counts)
        line[torch.repeat_interleave(to, counts) + within] = flat[torch.repeat_interleave(source, counts) + within]
        codes = [self.run(part.view(self.rows, 1, -1)).flatten(0, 1).short().cpu() for part in line.split(size)]
        codes = torch.cat(codes).numpy()
        return [codes[a : a + n] for a, n in zip(firsts, frames)]
