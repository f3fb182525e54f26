"""Measurements of skeletons as tables: a row a plant, an axis or a segment; `TRAITS` says what each column means."""

from treeformer.traits.definitions import STATISTICS, TRAITS, Trait
from treeformer.traits.growth import growth
from treeformer.traits.measure import measure, measure_files
from treeformer.traits.plant_level import scanline_counts

__all__ = ["STATISTICS", "TRAITS", "Trait", "growth", "measure", "measure_files", "scanline_counts"]
