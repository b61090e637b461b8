from __future__ import annotations

import pytest
import torch

from meanmax import use_backend
from meanmax.ops import dropout


def kept(seed: int, rate: float, size: tuple[int, ...]) -> torch.Tensor:
    torch.manual_seed(seed)
    return (dropout(torch.ones(size), rate) != 0).double()


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.6, 0.9])
def test_rate_and_scale(rate):
    torch.manual_seed(0)
    out = dropout(torch.ones(2000, 500), rate)
    scale = torch.tensor(1 / (1 - rate), dtype=torch.float32)
    assert set(out.unique().tolist()) == {0.0, float(scale)}
    deviation = (rate * (1 - rate) / out.numel()) ** 0.5
    assert abs(float((out == 0).double().mean()) - rate) < 4 * deviation


def test_masks_are_independent():
    first, second = kept(0, 0.5, (1000, 1000)) - 0.5, kept(1, 0.5, (1000, 1000)) - 0.5
    pairs = {
        "seeds": first * second,
        "rows": first[1:] * first[:-1],
        "columns": first[:, 1:] * first[:, :-1],
        "blocks": first.view(-1)[: 1 << 15] * first.view(-1)[1 << 15 : 1 << 16],
    }
    for name, product in pairs.items():
        assert abs(float(4 * product.mean())) < 4.5 / product.numel() ** 0.5, name
    # The spread of row sums is that of a binomial, neither too even nor too uneven.
    assert float(first.sum(1).var()) == pytest.approx(250, rel=0.2)


def test_the_seed_repeats_it_whatever_the_threads():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = kept(3, 0.3, (300, 300))
        torch.set_num_threads(2)
        assert torch.equal(kept(3, 0.3, (300, 300)), alone)
    finally:
        torch.set_num_threads(before)
    assert not torch.equal(kept(4, 0.3, (300, 300)), alone)


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_gradient_has_the_same_mask(backend):
    x = torch.randn(40, 30, dtype=torch.float64, requires_grad=True)
    with use_backend(backend):
        out = dropout(x, 0.4)
        (grad,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(grad, (out != 0).double() / 0.6)
    assert 0 < int((out == 0).sum()) < out.numel()


def test_half_precision_and_empty_input():
    assert dropout(torch.ones(4, 4, dtype=torch.bfloat16), 0.5).dtype == torch.bfloat16
    assert dropout(torch.ones(0, 3), 0.5).shape == (0, 3)
