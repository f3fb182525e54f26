"""The description of a public data set, and the report on its preparation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from treeformer.data.prepare.lines import Line
from treeformer.data.sample import Skipped


@dataclass(frozen=True)
class SourceImage:
    """One image of a public data set."""

    image: Path
    annotation: Path
    split: str  # `train`, `valid` or `test`


@dataclass
class Notes:
    """Notes on what was dropped and what was changed."""

    dropped: list[str] = field(default_factory=list)  # one line per dropped item
    changed: list[str] = field(default_factory=list)  # one line per changed item


@dataclass(frozen=True)
class PublicSet:
    """How to read one public data set.

    Attributes:
        name: name of the data set.
        license: license of the data set.
        size: default longer side of the prepared images, px.
        spacing_px: default node spacing, px; 0 keeps the annotated nodes.
        find: returns the images in a source folder with their splits, and the files without a partner.
        has_lines: True if annotations are lines that must be joined, False if they are graphs.
        clean: corrects the lines of an image before they are joined; None if that is not necessary.
        plate: regular expression for the part of an image's stem that identifies the plate; None for the whole stem.
    """

    name: str
    license: str
    size: int
    spacing_px: float
    find: Callable[[Path], tuple[list[SourceImage], list[Skipped]]]
    has_lines: bool = True
    clean: Callable[[list[Line]], tuple[list[Line], Notes]] | None = None
    plate: str | None = None


@dataclass
class PrepareReport:
    """The result of `prepare`; `str` returns the text of `report.txt`. Lengths are in px of the prepared images.

    Attributes:
        name: name of the data set.
        license: license of the data set.
        images: number of written images per split.
        plants: number of plants.
        nodes: number of nodes.
        drawn_px: total length of the annotated roots, px.
        merged_px: length that was merged with other roots of the same plant, px.
        farthest_snap_px: largest distance over which a lateral was snapped to its parent, px.
        notes: what was dropped and changed.
    """

    name: str
    license: str
    images: dict[str, int] = field(default_factory=dict)
    plants: int = 0
    nodes: int = 0
    drawn_px: float = 0.0
    merged_px: float = 0.0
    farthest_snap_px: float = 0.0
    notes: Notes = field(default_factory=Notes)

    def add(self, other: PrepareReport) -> None:
        """Add the counts and notes of another report, for other images of the same data set."""
        for split, count in other.images.items():
            self.images[split] = self.images.get(split, 0) + count
        self.plants += other.plants
        self.nodes += other.nodes
        self.drawn_px += other.drawn_px
        self.merged_px += other.merged_px
        self.farthest_snap_px = max(self.farthest_snap_px, other.farthest_snap_px)
        self.notes.dropped += other.notes.dropped
        self.notes.changed += other.notes.changed

    def __str__(self) -> str:
        by_split = ", ".join(f"{split} {count}" for split, count in self.images.items())
        lines = [
            f"{self.name} ({self.license})",
            f"images: {sum(self.images.values())} ({by_split})",
            f"plants: {self.plants}",
            f"nodes: {self.nodes}",
            f"length annotated: {self.drawn_px:.0f} px",
            f"of it on other roots of the same plant, and merged: {self.merged_px:.0f} px",
            f"farthest snap of a lateral to its parent: {self.farthest_snap_px:.1f} px",
        ]
        for heading, entries in (("dropped", self.notes.dropped), ("changed", self.notes.changed)):
            lines += [f"{heading}: {len(entries)}", *(f"  {entry}" for entry in entries)]
        return "\n".join(lines)
