"""Define the domains: images for training, validation and test."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from treeformer.data.config import DataConfig, SourceConfig
from treeformer.errors import TreeformerError

SIDE_PX = 512
SPLIT_FOR_VALIDATION, SPLIT_FOR_TEST = "valid", "test"
ANY_NUMBER_OF_NODES = 1_000_000  # no test image is skipped for its size
SOURCES = Path(os.environ.get("TREEFORMER_DATA", Path(__file__).parents[3] / "shared" / "data"))
FOLDER_NAMES = {"single-guyot": "guyot-vines"}  # of sets whose folder has another name


@dataclass(frozen=True)
class Domain:
    """Images of one kind.

    Attributes:
        name: key of the domain.
        title: heading of its tables.
        source: source of images; its split is replaced.
        public_set: a set of `treeformer prepare`, "" for synthetic images.
        paper: domain of the paper whose figures are shown, "" for none.
        tokens: object tokens of a model.
        max_nodes: training images with more nodes are skipped.
        batch_size: images per step.
        valid_count: number of validation images, 0 for all.
        test_count: number of test images, 0 for all.
        side_px: side of the images.
        bounded_test: if True, test images with more than `max_nodes` nodes are skipped.
        validate_during_training: True if runs are validated repeatedly, False if only at the end.
        one_plant: True if every image has one plant. A constrained model then gives one tree, as in the paper.
        warmup_steps: steps of learning rate warm-up.
        two_stage: settings of the two-stage method, a row of the paper's Table S3.
        seeds: replaces the seeds of a table in this domain, if given.
        when_missing: caption if there is no result.
    """

    name: str
    title: str
    source: SourceConfig
    public_set: str
    paper: str
    tokens: int
    max_nodes: int
    batch_size: int
    valid_count: int
    test_count: int
    side_px: int = SIDE_PX
    bounded_test: bool = False
    validate_during_training: bool = True
    one_plant: bool = True
    warmup_steps: int = 100
    two_stage: dict[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    when_missing: str = "not run"

    def images(self, data: Path) -> DataConfig:
        """Return the training and validation images."""
        source = replace(self.source, path=str(prepared(self.public_set, data))) if self.public_set else self.source
        valid = replace(source, split=SPLIT_FOR_VALIDATION, augmentation="none", count=self.valid_count)
        return DataConfig(train=(source,), valid=(valid,), image_size=self.side_px, max_nodes=self.max_nodes)

    def test_images(self, images: DataConfig) -> DataConfig:
        """Return the test images as the `valid` part of a data configuration."""
        test = replace(images.valid[0], split=SPLIT_FOR_TEST, count=self.test_count)
        if self.bounded_test:
            places = small_images(replace(test, count=0), images.image_size, self.max_nodes, self.test_count)
            return replace(images, valid=(replace(test, images=places),))
        return replace(images, valid=(test,), max_nodes=ANY_NUMBER_OF_NODES)

    def missing(self, data: Path) -> str:
        """Return why the images of this domain are missing, "" if they are available."""
        folders = (prepared(self.public_set, data), published(self.public_set))
        available = not self.public_set or any(folder.is_dir() for folder in folders)
        return "" if available else f"the set {folders[1].name} is not in the folder given by TREEFORMER_DATA"

    def make_ready(self, data: Path) -> None:
        """Prepare the public set if necessary."""
        if self.public_set:
            make_ready(self.public_set, data)


@lru_cache
def small_images(source: SourceConfig, side_px: int, max_nodes: int, count: int) -> tuple[int, ...]:
    """Return the first images with few nodes.

    Args:
        source: source of images.
        side_px: side of the images.
        max_nodes: largest accepted number of nodes.
        count: number of images.

    Returns:
        Indices of the images in their source.
    """
    from treeformer.data import Sample
    from treeformer.data.mixture import EvalDataset

    images = EvalDataset((source,), DataConfig(image_size=side_px, max_nodes=max_nodes))
    fitting = (index for index in range(len(images)) if isinstance(images[index][0], Sample))
    return tuple(islice(fitting, count))


def published(public_set: str) -> Path:
    """Return the folder of a public set as it was published."""
    return SOURCES / FOLDER_NAMES.get(public_set, public_set)


def prepared(public_set: str, data: Path) -> Path:
    """Return the folder of a prepared public set."""
    return data / f"{public_set}-{SIDE_PX}"


def make_ready(public_set: str, data: Path) -> Path:
    """Prepare a public set as `treeformer prepare --size 512` does, if necessary, and return its folder."""
    out = prepared(public_set, data)
    if not out.is_dir():
        source = published(public_set)
        if not source.is_dir():
            raise TreeformerError(f"{source}: no such folder (set TREEFORMER_DATA to its parent)")
        from treeformer.data.prepare import prepare

        unfinished = out.with_name(f"{out.name}-unfinished")
        prepare(public_set, source, unfinished, size=SIDE_PX)
        unfinished.rename(out)
    return out


# Rows of the paper's Table S3; the synthetic row is the model's default.
ROOT_MAPS = {"node_diameter_px": 3.0, "node_search_px": 7.0, "node_peak_share": 0.99, "node_threshold": 0.3}
# Grapevine images have half the paper's size here, so all lengths are halved. The node diameter is not, because it
# must cover a cell.
GRAPEVINE_MAPS = {"map_stride": 2, "node_diameter_px": 3.0, "edge_width_px": 5.0, "node_search_px": 12.5}
# Synthetic vines have a node every 8 px. No row of Table S3 fits them.
VINE_MAPS = {"node_search_px": 7.0, "max_nodes": 400}
# Root nodes lie where roots cross the grid of the default model. With a node every 8 px there would be up to 700.
# Batches are small because short parallel runs are limited by the number of steps, not by the images per step.
ROOTS = {"tokens": 192, "max_nodes": 168, "batch_size": 16, "two_stage": ROOT_MAPS | {"max_nodes": 512}}

DOMAINS: dict[str, Domain] = {
    domain.name: domain
    for domain in (
        Domain(
            name="synthetic",
            title="synthetic (style `paper`)",
            source=SourceConfig(presets=("paper",)),
            public_set="",
            paper="synthetic",
            tokens=128,
            max_nodes=100,
            batch_size=32,
            valid_count=32,
            test_count=500,
        ),
        Domain(
            name="osr-roots",
            title="osr-roots",
            source=SourceConfig(path="…", augmentation="roots", grid_px=44.0),
            public_set="osr-roots",
            paper="root",
            valid_count=0,
            test_count=0,
            **ROOTS,
        ),
        Domain(
            name="barley-roots",
            title="barley-roots (one to three plants per image)",
            one_plant=False,
            source=SourceConfig(path="…", augmentation="roots", grid_px=44.0),
            public_set="barley-roots",
            paper="root",
            valid_count=0,
            test_count=0,
            **ROOTS,
        ),
        Domain(
            name="grapevine",
            title="grapevine (3D2cut Single Guyot, 190 of the paper's 1,185 training and 20 of its 255 test images)",
            source=SourceConfig(path="…", augmentation="vines"),
            public_set="single-guyot",
            paper="grapevine",
            tokens=256,
            max_nodes=240,
            batch_size=16,
            valid_count=0,
            test_count=0,
            two_stage=GRAPEVINE_MAPS,
            # All runs share the GPU and have to end together.
            validate_during_training=False,
            seeds=(0,),
            when_missing="not run; with the set in $TREEFORMER_DATA/guyot-vines, `--run --domain grapevine` fills "
            "these rows",
        ),
        Domain(
            name="vine",
            title="synthetic vines (preset `vine`, style `photo`)",
            source=SourceConfig(presets=("vine",), styles=("photo",)),
            public_set="",
            paper="grapevine",
            tokens=400,
            max_nodes=400,
            batch_size=32,
            valid_count=32,
            test_count=200,
            two_stage=VINE_MAPS,
        ),
        Domain(
            name="small-drawings",
            title="drawings of the paper's L-system at 256×256 px, at most 64 nodes",
            source=SourceConfig(presets=("paper",)),
            public_set="",
            paper="",
            tokens=96,
            max_nodes=64,
            batch_size=64,
            valid_count=64,
            test_count=400,
            side_px=256,
            bounded_test=True,
            # A short parallel run has about a thousand steps.
            validate_during_training=False,
            one_plant=False,
        ),
    )
}
