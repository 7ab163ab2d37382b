"""``F.interpolate`` from and to sizes that only the run knows."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.errors import GraphBoolError

MODES = ("nearest", "nearest-exact", "bilinear", "bicubic")


def same(f, *args):
    x = args[0].requires_grad_()
    results = [
        (g := h(*args), torch.autograd.grad((g**2).sum(), x)[0]) for h in (tg.function(f), f)
    ]
    for ours, eager in zip(*results):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", (1, 5))
def test_sizes_of_the_run(mode, n):
    same(
        lambda x, n: F.interpolate(x, size=(int(n), int(n) + 1), mode=mode),
        torch.randn(1, 2, 4, 4),
        torch.tensor(n),
    )


@pytest.mark.parametrize("mode", MODES)
def test_from_as_many_rows_as_a_mask_selects(mode):
    mask = torch.tensor([True, False, True, True])
    same(
        lambda x, m: F.interpolate(x[:, :, m], scale_factor=1.7, mode=mode),
        torch.randn(1, 2, 4, 4),
        mask,
    )


def test_one_and_three_dimensions_and_smoothing():
    n = torch.tensor(3)
    same(
        lambda x, n: F.interpolate(x, int(n), mode="linear", align_corners=True),
        torch.randn(1, 2, 5),
        n,
    )
    same(lambda x, n: F.interpolate(x, int(n), mode="trilinear"), torch.randn(1, 1, 2, 3, 2), n)
    same(
        lambda x, n: F.interpolate(x, int(n), mode="bilinear", antialias=True),
        torch.randn(1, 2, 6, 6),
        n,
    )


def test_a_mask_is_pasted_into_an_image():
    def paste(mask, box):
        h, w = max(int(box[1] - box[0] + 1), 1), max(int(box[3] - box[2] + 1), 1)
        mask = F.interpolate(mask[None, None], size=(h, w), mode="bilinear", align_corners=False)[
            0, 0
        ]
        image = torch.zeros(8, 8)
        x_0, x_1 = max(box[0], 0), min(box[1] + 1, 8)
        y_0, y_1 = max(box[2], 0), min(box[3] + 1, 8)
        image[x_0:x_1, y_0:y_1] = mask[
            (x_0 - box[0]) : (x_1 - box[0]), (y_0 - box[2]) : (y_1 - box[2])
        ]
        return image

    converted, mask = tg.function(paste), torch.randn(4, 4)
    for box in ([1, 5, 2, 7], [-1, 4, 2, 3], [0, 0, 5, 9]):
        torch.testing.assert_close(
            converted(mask, torch.tensor(box)), paste(mask, torch.tensor(box))
        )


def test_a_factor_of_the_run_is_refused():
    with pytest.raises(GraphBoolError, match="give it the size"):
        tg.function(lambda x, s: F.interpolate(x, scale_factor=s.item()))(
            torch.ones(1, 1, 2), torch.tensor(2.0)
        )


@pytest.mark.parametrize("n", (2, 5))
def test_a_tensor_as_the_size(n):
    same(lambda x, n: F.interpolate(x, size=n), torch.randn(1, 3, 4), torch.tensor(n))
    same(lambda x, n: F.interpolate(x, size=(n, 2), mode="bilinear"), torch.randn(1, 3, 4, 1), torch.tensor(n))  # fmt: skip
