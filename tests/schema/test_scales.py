"""Bins without a scale: each distance from the centre is in one of them, the same on every machine."""

import math

import numpy as np
import pytest

from dpforest.schema.grid import BITS, CENTRE, LEAST, MOST, N_BINS, N_SIDE, bin_of, distances, middle_of


def test_bins_begin_at_sixteenths_of_octaves():
    begins = distances()
    assert begins[0] == 2.0**LEAST
    assert begins[-1] == 2.0**MOST
    assert len(begins) == N_SIDE + 1
    assert (np.diff(begins) > 0).all()
    assert begins[16] == 2 * begins[0]
    assert begins[1] == begins[0] * (1 + 1 / (1 << BITS))


@pytest.mark.parametrize("centre", [0.0, -3.5, 1e6, 2.0**62])
def test_the_middle_of_a_bin_is_in_it(centre):
    for index in [0, 1, 900, CENTRE - 1, CENTRE, CENTRE + 1, 3000, N_BINS - 1]:
        middle = middle_of(index, centre)
        # Around a large centre floats are too coarse for the smallest bins.
        assert bin_of(middle, centre) == index or abs(middle - centre) < 1e-12 * max(abs(centre), 1)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_bin_of_a_distance_is_that_of_its_first_bits(sign):
    for k, begin in enumerate(distances()[:-1], 1):
        assert bin_of(sign * begin, 0.0) == CENTRE + sign * k
        assert bin_of(sign * math.nextafter(begin, 0), 0.0) == CENTRE + sign * (k - 1)


def test_no_distance_of_two_numbers_of_64_bits_is_beyond_the_bins():
    assert bin_of(2.0**63, -(2.0**63)) < N_BINS - 1
    assert bin_of(-(2.0**63), 2.0**63) > 0
