"""Training data: folders of images with skeletons, synthetic images, public data sets, and augmentation."""

from treeformer.data.augmentation import Augmentation
from treeformer.data.datasets import FolderDataset, Sample, Skipped, SkipReport, SyntheticDataset, samples
from treeformer.data.splits import check_splits

__all__ = [
    "Augmentation",
    "FolderDataset",
    "Sample",
    "SkipReport",
    "Skipped",
    "SyntheticDataset",
    "check_splits",
    "samples",
]
