"""How long the arithmetic of a GEMM takes: tiles of the result over the SMs, wave by wave."""

import math

from simulator.kernels import ITEM_BYTES, Kernels
from workloads.ops import Compute

TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64))
"""Tiles of the result that libraries choose from, rows × columns."""

LARGEST_REUSE = 256 * 128 / (256 + 128)
"""FLOPs a loaded element that the largest of them has (half of them)."""


def seconds(op: Compute, peak: float, sm_count: int, kernels: Kernels) -> float:
    """Time of the arithmetic of a GEMM of shape (m, n, k), or of (groups, m, n, k) together, with its best tile.

    tiles = groups × ⌈m / rows⌉ × ⌈n / columns⌉; waves = tiles / SMs, of which `quantisation` of the unfilled part of
    the last is waited for; a tile takes 2 rows × columns × (k + extra depth) FLOPs at its share of an SM's peak. Small
    tiles load more for each FLOP, so that they take 1 + tile_loss / reuse, relative to the largest, with reuse = rows ×
    columns / (rows + columns). On ideal kernels a GEMM is its FLOPs at the peak.

    Assumes that the groups of a grouped GEMM are alike, and fill the SMs one after another; those of a batched one
    together. Results of any size are as well aligned as those of whole tiles.
    """
    groups, m, n, k = op.shape if len(op.shape) == 4 else (1.0, *op.shape)
    turns, at_once = (groups, 1.0) if op.kind == "grouped_gemm" else (1.0, groups)
    if not kernels.gemm:
        return 2.0 * groups * m * n * k / peak
    best = math.inf
    for rows, columns in TILES:
        waves = at_once * math.ceil(m / rows) * math.ceil(n / columns) / sm_count
        waves += kernels.quantisation * (math.ceil(waves) - waves)
        best = min(best, waves * (rows * columns + kernels.tile_loss * (rows + columns)))
    depth = k + kernels.extra_depth_bytes / ITEM_BYTES[op.dtype]
    largest = 1.0 + kernels.tile_loss / LARGEST_REUSE
    return turns * best / largest * 2.0 * depth * sm_count / (peak * kernels.gemm_share(op.dtype))
