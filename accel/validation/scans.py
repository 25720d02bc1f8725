"""The selective scans (fused Mamba) behind the published timings, in our own words.

As `matmuls.py`, in the older form of the language, which is the one that was measured. The three
versions differ in loop order and in how much of the sequence one instruction takes.

Shapes: delta, u [batch, channels, seq]; a [channels, states]; b, c [batch, states, seq]; the result
is shaped as delta. For each channel: x[t] = exp(delta[t]·a)·x[t − 1] + delta[t]·u[t]·b[t], summed
over the states as c[t]·x[t].
"""

from __future__ import annotations

from typing import cast

from accel.nki.legacy import isa as nisa
from accel.nki.legacy import jit
from accel.nki.legacy import language as nl
from accel.nki.legacy.tile import Tile

CHANNELS = 128
COLUMNS = 512


def _channel_tile(index: int) -> slice:
    return slice(index * CHANNELS, (index + 1) * CHANNELS)


def _result_like(delta: Tile) -> Tile:
    return cast(Tile, nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm))


def _zeros(columns: int, like: Tile) -> Tile:
    return cast(Tile, nl.zeros((nl.par_dim(CHANNELS), columns), dtype=like.dtype))


@jit.jit
def scan_states_outer(delta: Tile, u: Tile, a: Tile, b: Tile, c: Tile) -> Tile:
    """Version 1: states outside, channels inside, so delta and u are loaded again a state."""
    batches, channels, length = delta.shape
    out, tiles = _result_like(delta), channels // CHANNELS
    for batch in range(batches):
        sums = nl.zeros((tiles, nl.par_dim(CHANNELS), length), dtype=delta.dtype)
        for state in range(a.shape[1]):
            for tile in range(tiles):
                rows = _channel_tile(tile)
                step = nl.load(delta[batch, rows, 0:length])
                decay = nisa.activation(op=nl.exp, data=step, scale=nl.load(a[rows, state]))
                inputs = nl.load(u[batch, rows, 0:length])
                drive = nl.load(b[batch, state : state + 1, 0:length])
                driven = _driven(step, inputs, drive)
                states = nisa.tensor_tensor_scan(
                    decay, driven, initial=0, op0=nl.multiply, op1=nl.add
                )
                read = nl.load(c[batch, state : state + 1, 0:length])
                part = _read_out(states, read)
                kept = cast(Tile, sums[tile, 0:CHANNELS, 0:length])
                kept += part
        for tile in range(tiles):
            total = cast(Tile, sums[tile, 0:CHANNELS, 0:length])
            nl.store(out[batch, _channel_tile(tile), 0:length], total)
    return out


@jit.jit
def scan_channels_outer(delta: Tile, u: Tile, a: Tile, b: Tile, c: Tile) -> Tile:
    """Version 2: channels outside, the whole sequence in one instruction."""
    batches, channels, length = delta.shape
    out = _result_like(delta)
    for batch in range(batches):
        for tile in range(channels // CHANNELS):
            rows = _channel_tile(tile)
            sums = _zeros(length, delta)
            step = nl.load(delta[batch, rows, 0:length])
            inputs = nl.load(u[batch, rows, 0:length])
            for state in range(a.shape[1]):
                decay = nisa.activation(op=nl.exp, data=step, scale=nl.load(a[rows, state]))
                drive = nl.load(b[batch, state : state + 1, 0:length])
                driven = _driven(step, inputs, drive)
                states = nisa.tensor_tensor_scan(
                    decay, driven, initial=0, op0=nl.multiply, op1=nl.add
                )
                read = nl.load(c[batch, state : state + 1, 0:length])
                sums[0:CHANNELS, 0:length] += _read_out(states, read)
            nl.store(out[batch, rows, 0:length], sums[0:CHANNELS, 0:length])
    return out


@jit.jit
def scan_in_pieces(delta: Tile, u: Tile, a: Tile, b: Tile, c: Tile) -> Tile:
    """Version 3: as version 2, 512 columns of the sequence at a time, the scan carried over."""
    batches, channels, length = delta.shape
    out = _result_like(delta)
    for batch in range(batches):
        for tile in range(channels // CHANNELS):
            rows = _channel_tile(tile)
            sums = _zeros(length, delta)
            step = nl.load(delta[batch, rows, 0:length])
            inputs = nl.load(u[batch, rows, 0:length])
            for state in range(a.shape[1]):
                scale = nl.load(a[rows, state])
                carried = _zeros(1, step)
                for piece in range(length // COLUMNS):
                    span = slice(piece * COLUMNS, (piece + 1) * COLUMNS)
                    decay = nisa.activation(op=nl.exp, data=step[0:CHANNELS, span], scale=scale)
                    drive = nl.load(b[batch, state : state + 1, span])
                    driven = _driven(step[0:CHANNELS, span], inputs[0:CHANNELS, span], drive)
                    states = nisa.tensor_tensor_scan(
                        decay, driven, initial=carried, op0=nl.multiply, op1=nl.add
                    )
                    carried[...] = states[0:CHANNELS, COLUMNS - 1]
                    read = nl.load(c[batch, state : state + 1, span])
                    sums[0:CHANNELS, span] += _read_out(states, read)
            nl.store(out[batch, rows, 0:length], sums[0:CHANNELS, 0:length])
    return out


def _driven(step: Tile, inputs: Tile, drive: Tile) -> Tile:
    """delta · u · b, the one row of b on every partition."""
    weighted = nisa.tensor_tensor(step, inputs, op=nl.multiply)
    return nisa.tensor_tensor(weighted, drive.broadcast_to(inputs.shape), op=nl.multiply)


def _read_out(states: Tile, read: Tile) -> Tile:
    """x · c, the one row of c on every partition."""
    return nisa.tensor_tensor(states, read.broadcast_to(states.shape), op=nl.multiply)
