"""Shift between two sets of points by phase correlation of their drawn, blurred rasters."""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import FloatArray


def draw_points(points: FloatArray, low: FloatArray, shape: tuple[int, int], cell_px: float) -> FloatArray:
    """Count points (P,2) per cell of a raster of (rows, columns), shared between the four nearest cells.

    `low` is the raster's corner. Points outside are left out.
    """
    raster = np.zeros(shape)
    place = (points - low) / cell_px - 0.5
    corner = np.floor(place).astype(np.intp)
    part = place - corner
    for dx in (0, 1):
        for dy in (0, 1):
            column, row = corner[:, 0] + dx, corner[:, 1] + dy
            weight = np.abs(1 - dx - part[:, 0]) * np.abs(1 - dy - part[:, 1])
            inside = (column >= 0) & (row >= 0) & (column < shape[1]) & (row < shape[0])
            np.add.at(raster, (row[inside], column[inside]), weight[inside])
    return raster


def residual_shift(
    source: FloatArray, target: FloatArray, reach_px: float, blur_px: float = 2.0
) -> tuple[FloatArray, float]:
    """Find the shift (2,), px, that moves points (P,2) onto others (Q,2), within a reach, and how clear it is.

    Both sets are drawn and blurred. Their cross-power spectrum is divided by its magnitude where that is large, so that
    all frequencies that both contain count alike. The peak is refined to a fraction of a cell. The second result is the
    height of the peak relative to the mean of the magnitudes within the reach: about 1 if nothing agrees. It is 0.0,
    and the shift (0, 0), if a set is empty.
    """
    from scipy.fft import irfft2, next_fast_len, rfft2
    from scipy.ndimage import gaussian_filter

    if len(source) == 0 or len(target) == 0 or not reach_px > 0:
        return np.zeros(2), 0.0
    low = np.minimum(source.min(axis=0), target.min(axis=0)) - reach_px
    high = np.maximum(source.max(axis=0), target.max(axis=0)) + reach_px
    cell_px = max(1.0, float((high - low).max()) / 768)
    columns, rows = (next_fast_len(int(side / cell_px) + 2, real=True) for side in (high - low).tolist())
    rasters = [
        gaussian_filter(draw_points(points, low, (rows, columns), cell_px), blur_px / cell_px, mode="constant")
        for points in (source, target)
    ]
    spectra = [rfft2(raster) for raster in rasters]
    cross = spectra[1] * np.conj(spectra[0])
    magnitude = np.abs(cross)
    correlation = irfft2(cross / (magnitude + 0.1 * magnitude.max() + 1e-12), s=(rows, columns))
    reach = max(int(reach_px / cell_px), 1)
    window = np.roll(correlation, (reach, reach), axis=(0, 1))[: 2 * reach + 1, : 2 * reach + 1]
    row, column = np.unravel_index(int(window.argmax()), window.shape)
    peak = float(window[row, column])
    offset = np.asarray([_vertex(window[row, :], int(column)), _vertex(window[:, column], int(row))])
    return (offset - reach) * cell_px, peak / (float(np.abs(window).mean()) + 1e-12)


def _vertex(values: FloatArray, index: int) -> float:
    """Return the position of the parabola's vertex through a maximum and its two neighbors."""
    if not 0 < index < len(values) - 1:
        return float(index)
    before, peak, after = values[index - 1 : index + 2].tolist()
    curvature = before - 2 * peak + after
    return index + 0.5 * (before - after) / curvature if curvature < 0 else float(index)
