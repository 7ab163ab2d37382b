"""Single ops and short chains: tograph beside eager PyTorch, values compared, in one table.

Each row is what a user may write on one line. Time per call is the least of ``--rounds`` rounds, taken in turn, on two threads;
``level`` says what runs it, and a row of the host shows what a call costs beyond its op. ``--compile``: torch.compile in the same turns, where it has a C++ compiler.
Usage: ``python benchmarks/ops.py [NAME...]``. Machines are shared: read the ratios.
"""

import argparse
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import tograph as tg  # noqa: E402

torch.manual_seed(0)
LAYER = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0).eval()


class Block(torch.nn.Sequential):
    def __init__(self, given, made):
        super().__init__(torch.nn.Conv2d(given, made, 3, padding=1), torch.nn.GroupNorm(4, made), torch.nn.SiLU())  # fmt: skip


class UNet(torch.nn.Module):
    """Two levels down and up again."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.middle, self.up = Block(3, 16), Block(16, 32), Block(32, 32), Block(64, 16)  # fmt: skip
        self.last = torch.nn.Conv2d(32, 3, 1)

    def forward(self, x):
        fine = self.first(x)
        coarse = self.second(F.avg_pool2d(fine, 2))
        deep = F.interpolate(self.middle(F.avg_pool2d(coarse, 2)), scale_factor=2)
        up = F.interpolate(self.up(torch.cat([deep, coarse], 1)), scale_factor=2)
        return self.last(torch.cat([up, fine], 1))


def gradient(f, x):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(f(x).sum(), x)[0]


def slope(x):
    return gradient(F.hardswish, x)


def cases():
    """(name, function, argument)."""
    long, wide, square = torch.randn(4_000_000), torch.randn(1000, 1000), torch.randn(64, 64)
    yield "sum of 4 M", lambda x: x.sum(), long
    yield "sum of 4 M + 3", lambda x: x.sum(), torch.randn(4_000_003)
    yield "sum of 1 M + 3", lambda x: x.sum(), torch.randn(1_000_003)
    yield "sum of 4 M integers", lambda x: x.sum(), torch.randint(0, 9, (4_000_000,))
    yield "argmax of 4 M", lambda x: x.argmax(), long
    yield "dot of 4 M", lambda x: torch.dot(x, x), long
    yield "column means", lambda x: x.mean(0), torch.randn(100_000, 32)
    yield "column sums", lambda x: x.sum(0), torch.randn(4000, 1000)
    yield "mask", lambda x: x[x > 0].sum(), torch.randn(1_000_000)
    yield "singular values", lambda x: torch.linalg.svdvals(x), square
    yield "eigenvalues", lambda x: torch.linalg.eigvalsh(x + x.t()), square
    yield "encoder layer", lambda x: LAYER(x), torch.randn(2, 32, 128)
    yield "padding", lambda x: F.pad(x, (1, 1, 1, 1)) * 2, torch.randn(8, 16, 64, 64)
    yield "smooth l1", lambda x: F.smooth_l1_loss(x, x * 2), wide
    yield "product of integers", lambda x: x @ x, torch.randint(0, 5, (4, 4))
    yield "bincount", lambda x: torch.bincount((x.abs() * 20).long().clamp(max=99)), torch.randn(100_000)  # fmt: skip
    yield "bincount of 1 M", lambda x: torch.bincount(x), torch.randint(0, 100, (1_000_000,))
    yield "flip and roll", lambda x: x.flip(0).roll(3, 1), wide
    image, rows = torch.randn(4, 16, 32, 32), torch.randn(40, 33)
    yield "variances of columns", lambda x: x.var(0), torch.randn(3000, 40)
    yield "cross entropy of rows", lambda x: F.cross_entropy(x, x.argmax(1)), torch.randn(3000, 40)
    yield "group norm and SiLU", lambda x: F.silu(F.group_norm(x, 4)), image
    yield "nearest, twice as large", lambda x: F.interpolate(x, scale_factor=2) * 2, image
    yield "bilinear, twice as large", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear") * 2, image  # fmt: skip
    yield "spectrogram", lambda x: torch.stft(x, 64, window=torch.ones(64), return_complex=True).abs(), torch.randn(8192)  # fmt: skip
    yield "medians of windows", lambda x: x.unfold(1, 5, 1).sort(-1)[0][..., 2], rows
    yield "U-Net", UNet(), torch.randn(2, 3, 32, 32)
    yield "remainder", lambda x: x % 0.7, wide
    yield "floor division", lambda x: x // 0.3, wide
    yield "softmax over 10 classes", lambda x: x.softmax(-1), torch.randn(20_000, 10)
    yield "running sums of exponentials", lambda x: x.exp().cumsum(-1), torch.randn(500, 2000)
    places, given = torch.randint(0, 500, (20_000,)), torch.rand(1000, 500)
    yield "rows added at positions", lambda x: torch.zeros(500, 16).index_add(0, places, x), torch.randn(20_000, 16)  # fmt: skip
    yield "cross entropy of logits", lambda x: F.binary_cross_entropy_with_logits(x, given), torch.randn(1000, 500)  # fmt: skip
    yield "slope of hard swish", slope, torch.randn(500, 500)
    table, tokens, chances = (
        torch.randn(1000, 32),
        torch.randint(0, 1000, (64, 16)),
        torch.rand(256, 512),
    )
    signal = torch.randn(10_000, dtype=torch.complex64)
    yield "complex product and sum", lambda x: x * signal + x, torch.randn(10_000, dtype=torch.complex64)  # fmt: skip
    yield "convolution by FFT", lambda x: torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(x.flip(-1))), torch.randn(32, 4096)  # fmt: skip
    yield "gated linear unit", lambda x: F.glu(x) * 2, torch.randn(256, 512)
    yield "binary cross entropy", lambda x: F.binary_cross_entropy(x.sigmoid(), chances), torch.randn(256, 512)  # fmt: skip
    yield "sinc", lambda x: torch.sinc(x) + 1, torch.randn(256, 512)
    yield "norm by the third power", lambda x: torch.linalg.vector_norm(x, 3, -1) + 1, torch.randn(256, 512)  # fmt: skip
    yield "pixel shuffle", lambda x: F.pixel_shuffle(x, 2) + 1, image
    yield "gradient of an embedding", lambda x: gradient(lambda w: F.embedding(tokens, w) ** 2, x), table  # fmt: skip
    yield "gradient of a layer norm", lambda x: gradient(lambda y: F.layer_norm(y, (512,)) ** 2, x), torch.randn(256, 512)  # fmt: skip
    yield "kron", lambda x: torch.kron(x, x), torch.randn(30, 30)


def timed(f, x, calls):
    start = time.perf_counter()
    for _ in range(calls):
        f(x)
    return (time.perf_counter() - start) / calls


def measure(f, x, rounds, peers):
    """(least seconds of eager PyTorch, of tograph and of the peers, level)."""
    g = tg.function(f)
    runs = [f, g, *(peer(f) for peer in peers)]
    for _ in range(5):
        for h in runs[1:]:
            torch.testing.assert_close(h(x), f(x), rtol=1e-3, atol=1e-3)
    calls = [max(1, int(0.02 / max(timed(h, x, 3), 1e-7))) for h in runs]
    turns = [[timed(h, x, n) for h, n in zip(runs, calls)] for _ in range(rounds)]
    return list(map(min, zip(*turns))), g.concrete_functions[-1].scheduled.level


def row(name, times, level):
    """A line of the table."""
    eager, staged, *others = times
    cells = [name, f"{eager * 1e6:.1f}", f"{staged * 1e6:.1f}", f"{staged / eager:.2f}"]
    for other in others:
        cells += [f"{other * 1e6:.1f}", f"{staged / other:.2f}"]
    return "| " + " | ".join([*cells, level]) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--compile", action="store_true", help="beside torch.compile, too")
    options = parser.parse_args()
    torch.set_num_threads(2)
    more = " torch.compile us | ratio |" if options.compile else ""
    print(f"| op | eager us | tograph us | ratio |{more} level |")
    print(f"|---|--:|--:|--:|{'--:|--:|' if more else ''}---|")
    peers = [torch.compile] if options.compile else []
    for name, f, x in cases():
        if options.names and name not in options.names:
            continue
        with torch.no_grad():
            times, level = measure(f, x, options.rounds, peers)
        print(row(name, times, level), flush=True)


if __name__ == "__main__":
    main()
