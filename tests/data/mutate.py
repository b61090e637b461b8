"""Damaged copies of a file: what a parser must refuse clearly, or read as something valid."""

import numpy as np

from meanmax.data.files import DataError


def mutations(content, count, seed=0):
    """Seeded copies with bits flipped, bytes replaced, cut out, doubled, or the end missing."""
    random = np.random.default_rng(seed)
    for number in range(count):
        data = bytearray(content)
        for _ in range(int(random.integers(1, 4))):
            place = int(random.integers(len(data))) if data else 0
            match number % 5:
                case 0 if data:
                    data[place] ^= 1 << int(random.integers(8))
                case 1 if data:
                    data[place] = int(random.integers(256))
                case 2:
                    del data[place : place + int(random.integers(1, 9))]
                case 3:
                    data[place:place] = data[place : place + int(random.integers(1, 9))]
                case _:
                    del data[place:]
        yield bytes(data)


def only_clear_errors(parse, content, count, seed=0):
    """Runs a parser on damaged copies; returns how many it refused. Anything but the clear error
    comes through and fails the test."""
    refused = 0
    for damaged in mutations(content, count, seed):
        try:
            parse(damaged)
        except DataError as error:
            assert str(error)
            refused += 1
    return refused
