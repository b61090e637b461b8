r"""Dropout whose mask is a hash of position and seed: nothing to store, the same on any number of
threads, and eight numbers at a time where PyTorch draws one.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from meanmax.ops.numba.branchless import where
from meanmax.ops.numba.launch import (kernel, subroutine)

BLOCK = 1 << 15
W = np.uint32
U = np.uint64
GOLDEN = W(0x9E3779B9)
FIRST, SECOND = W(0x7FEB352D), W(0x846CA68B)


def masked(x: np.ndarray, seed: int, rate: float) -> np.ndarray:
    r"""Sets each number to 0 with probability :obj:`rate` and scales the others up.

    Args:
        x (ndarray): Contiguous, of any shape.
        seed (int): From 0 to 2^63; the same seed gives the same mask.
        rate (float): Below 1; met to within 2^-32.
    """
    out = np.empty_like(x)
    scale = x.dtype.type(1 / (1 - rate))
    mask(x.reshape(-1), out.reshape(-1), *words_of(seed), threshold_of(rate), scale)
    return out


def words_of(seed: int) -> tuple[np.uint32, np.uint32]:
    r"""The low and the high half of a seed."""
    return W(seed & 0xFFFFFFFF), W(seed >> 32)


def threshold_of(rate: float) -> np.uint32:
    r"""The number below which as large a share of all words is as is dropped."""
    return W(min(round(rate * 2**32), 2**32 - 1))


@subroutine
def mix(word):
    r"""A hash of 32 bits in which every bit of the input moves half of the output's."""
    word = W(W(word ^ W(word >> W(16))) * FIRST)  # numba widens products to 64 bits
    word = W(W(word ^ W(word >> W(15))) * SECOND)
    return W(word ^ W(word >> W(16)))


@subroutine
def block_seed(block, low, high):
    r"""The seed of a block of numbers."""
    return mix(W(mix(W(W(block) + low)) ^ high))


@subroutine
def word(place, seed, low):
    r"""The word that decides about the number at a place in its block."""
    return mix(W(mix(W(W(W(place) * GOLDEN) + seed)) ^ low))


@kernel()
def mask(x, out, low, high, threshold, scale):
    r"""Block by block, each with a seed of its own."""
    for b in prange((x.size + BLOCK - 1) // BLOCK):
        seed = block_seed(b, low, high)
        start = U(b) * U(BLOCK)
        size = min(U(BLOCK), U(x.size) - start)
        source, target = x[start : start + size], out[start : start + size]
        for i in range(size):
            drawn = word(i, seed, low)
            target[i] = where(drawn < threshold, source[i] * x.dtype.type(0), source[i] * scale)
