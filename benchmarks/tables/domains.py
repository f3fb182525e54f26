"""The domains: which images a model learns from, is watched on, and is tested on."""

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
ANY_NUMBER_OF_NODES = 1_000_000  # no test image is left out for its size
SOURCES = Path(os.environ.get("TREEFORMER_DATA", Path(__file__).parents[3] / "shared" / "data"))


@dataclass(frozen=True)
class Domain:
    """Images of one kind.

    source: of images; its split is replaced. public_set: a set of `treeformer prepare`, "" for synthetic images.
    paper: the domain of the paper whose figures stand beside ours, "" for none. tokens: object tokens of a model.
    max_nodes: a training image with more is passed over; with bounded_test the test images are the first
    `test_count` that have no more, otherwise the first `test_count` of any size. watched: validated on the way, not at
    the end alone. one_plant: every image has one, so that a constrained model gives one tree, as the paper's does.
    two_stage: the row of the paper's Table S3 that fits.
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
    watched: bool = True
    one_plant: bool = True
    warmup_steps: int = 100
    two_stage: dict[str, Any] = field(default_factory=dict)
    when_missing: str = "not run yet"

    def images(self, data: Path) -> DataConfig:
        """What is trained and validated on."""
        source = replace(self.source, path=str(prepared(self.public_set, data))) if self.public_set else self.source
        valid = replace(source, split=SPLIT_FOR_VALIDATION, augmentation="none", count=self.valid_count)
        return DataConfig(train=(source,), valid=(valid,), image_size=self.side_px, max_nodes=self.max_nodes)

    def test_images(self, images: DataConfig) -> DataConfig:
        """The test images, in the place where a validator looks for its own."""
        test = replace(images.valid[0], split=SPLIT_FOR_TEST, count=self.test_count)
        if self.bounded_test:
            places = small_images(replace(test, count=0), images.image_size, self.max_nodes, self.test_count)
            return replace(images, valid=(replace(test, images=places),))
        return replace(images, valid=(test,), max_nodes=ANY_NUMBER_OF_NODES)

    def missing(self, data: Path) -> str:
        """Why there are no images of this domain; "" where there are."""
        there = not self.public_set or prepared(self.public_set, data).is_dir() or (SOURCES / self.public_set).is_dir()
        return "" if there else f"the set {self.public_set} is not in the folder that TREEFORMER_DATA names"

    def make_ready(self, data: Path) -> None:
        """Prepare the public set, once."""
        if self.public_set:
            make_ready(self.public_set, data)


@lru_cache
def small_images(source: SourceConfig, side_px: int, max_nodes: int, count: int) -> tuple[int, ...]:
    """The places in their source of the first `count` images that have at most `max_nodes` nodes."""
    from treeformer.data import Sample
    from treeformer.data.mixture import EvalDataset

    images = EvalDataset((source,), DataConfig(image_size=side_px, max_nodes=max_nodes))
    fitting = (place for place in range(len(images)) if isinstance(images[place][0], Sample))
    return tuple(islice(fitting, count))


def prepared(public_set: str, data: Path) -> Path:
    """Where the prepared images of a public set lie."""
    return data / f"{public_set}-{SIDE_PX}"


def make_ready(public_set: str, data: Path) -> Path:
    """Prepare a public set as `treeformer prepare --size 512` does, once; where it lies."""
    out = prepared(public_set, data)
    if not out.is_dir():
        if not (SOURCES / public_set).is_dir():
            raise TreeformerError(f"{SOURCES / public_set}: no such folder (TREEFORMER_DATA names the one above it)")
        from treeformer.data.prepare import prepare

        unfinished = out.with_name(f"{out.name}-unfinished")
        prepare(public_set, SOURCES / public_set, unfinished, size=SIDE_PX)
        unfinished.rename(out)
    return out


# Rows of the paper's Table S3; the synthetic row is the model's default.
ROOT_MAPS = {"node_diameter_px": 3.0, "node_search_px": 7.0, "node_peak_share": 0.99, "node_threshold": 0.3}
# Images of grapevines have half the paper's size here, and so have all lengths but a node's, which a cell must hold.
GRAPEVINE_MAPS = {"map_stride": 2, "node_diameter_px": 3.0, "edge_width_px": 5.0, "node_search_px": 12.5}
# Synthetic vines have a node every 8 px: no row of that table was made for them.
VINE_MAPS = {"node_search_px": 7.0, "max_nodes": 400}
# Nodes of roots are where they cross the grid that the default model knows: every 8 px they would be up to 700. Their
# batches are small: in minutes beside other runs the number of steps is what lacks, not the images a step.
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
            title="barley-roots (one to three plants an image)",
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
            title="grapevine (3D2cut Single Guyot)",
            source=SourceConfig(path="…", augmentation="vines"),
            public_set="single-guyot",
            paper="grapevine",
            tokens=256,
            max_nodes=240,
            batch_size=16,
            valid_count=0,
            test_count=0,
            two_stage=GRAPEVINE_MAPS,
            when_missing="not run: the 3D2cut Single Guyot set (CC BY-NC-SA 4.0) is not here; wherever it lies in "
            "$TREEFORMER_DATA/single-guyot, `--run --domain grapevine` fills these rows",
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
            # A run of some minutes beside others has a thousand steps.
            watched=False,
            one_plant=False,
        ),
    )
}
