"""Training data: folders of images with skeletons, synthetic images, public data sets, and augmentation."""

from treeformer.data.augmentation import Augmentation
from treeformer.data.folder_dataset import FolderDataset
from treeformer.data.sample import Sample, Skipped, SkipReport, samples
from treeformer.data.splits import check_splits
from treeformer.data.synthetic_dataset import SyntheticDataset

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
