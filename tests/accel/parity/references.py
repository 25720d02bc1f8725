"""What the kernels beside this file should compute."""

import math

import numpy as np


def softmax(x):
    shifted = x - x.max(axis=1, keepdims=True)
    weights = np.exp(shifted)
    return weights / weights.sum(axis=1, keepdims=True)


def softmax_plus_one(x):
    weights = softmax(x)
    return weights + 1


def doubled(x):
    return 2 * x


def product(left_t, right):
    return np.maximum(left_t.T @ right, 0)


def opaque_softmax(x):
    """As `softmax`, computed where no array is seen."""
    rows = [[math.exp(value - max(row)) for value in row] for row in x.tolist()]
    return np.array([[value / sum(row) for value in row] for row in rows])


def fails(x):
    return x.reshape(3, -1)


def returns_nothing(x):
    pass
