"""A data set of synthetic images, which are generated on the fly."""

from __future__ import annotations

from dataclasses import dataclass

from treeformer.data.sample import OpenedSample, Sample, Skipped
from treeformer.errors import TreeformerError


@dataclass(frozen=True)
class SyntheticDataset:
    """Synthetic images, generated from their seeds when they are loaded.

    Consecutive seeds cycle through the presets, then through the styles.

    Attributes:
        seeds: one seed per image; `treeformer.synthetic.SPLITS` has the ranges for training, validation and test.
        presets: names of plant presets.
        styles: names of image styles.
        size: (width, height), px.

    Raises:
        TreeformerError: if there is no seed, no preset or no style.

    Example:
        >>> dataset = SyntheticDataset(range(4), presets=("paper", "vine"), size=(64, 64))
        >>> len(dataset), dataset[3].name
        (4, 'vine-paper-3')
    """

    seeds: range
    presets: tuple[str, ...] = ("paper",)
    styles: tuple[str, ...] = ("paper",)
    size: tuple[int, int] = (512, 512)

    def __post_init__(self) -> None:
        if not (self.seeds and self.presets and self.styles):
            raise TreeformerError("a synthetic data set needs seeds, a preset and a style")

    def __len__(self) -> int:
        return len(self.seeds)

    def __getitem__(self, index: int) -> Sample:
        opened = self.open(index)
        return Sample(opened.read_image(), opened.skeleton, opened.name)

    def load(self, index: int) -> Sample | Skipped:
        """Return a sample. Synthetic images are never skipped."""
        return self[index]

    def open(self, index: int) -> OpenedSample:
        """Return a sample whose image is rendered on request. Growing a plant takes a fraction of the time."""
        from treeformer import synthetic

        seed = self.seeds[index]
        cycle, position = divmod(seed, len(self.presets))
        preset, style = self.presets[position], self.styles[cycle % len(self.styles)]
        grown = synthetic.generate(preset, seed, size=self.size)
        skeleton = grown.replace(radius=synthetic.drawn_radius(grown, style))
        return OpenedSample(skeleton, f"{preset}-{style}-{seed}", lambda: synthetic.render(grown, style, seed))
