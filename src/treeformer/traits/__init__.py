"""Measure skeletons. Tables have one row per plant, axis or segment; `TRAITS` defines their columns.

A compact table has `COMPACT_COLUMNS` only.
"""

from treeformer.traits.compact import COMPACT_COLUMNS, compact
from treeformer.traits.definitions import STATISTICS, TRAITS, Trait
from treeformer.traits.growth import growth
from treeformer.traits.measure import check_px_per_mm, measure, measure_files
from treeformer.traits.plant_level import scanline_counts

__all__ = [
    "COMPACT_COLUMNS",
    "STATISTICS",
    "TRAITS",
    "Trait",
    "check_px_per_mm",
    "compact",
    "growth",
    "measure",
    "measure_files",
    "scanline_counts",
]
