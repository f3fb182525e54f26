"""What there is to know of a public set, and what there is to say of it once it is prepared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from treeformer.data.datasets import Skipped
from treeformer.data.prepare.lines import Line


@dataclass(frozen=True)
class SourceImage:
    """One image of a public set, its annotation, and the split it goes to."""

    image: Path
    annotation: Path
    split: str


@dataclass
class Notes:
    """What was left out and what was changed, a line each."""

    dropped: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PublicSet:
    """How one public set is read.

    size: the longer side of a prepared image, px. spacing_px: of the nodes, 0 for those of the annotation.
    find: the images in a source folder, with their splits, and what has no partner there. has_lines: whether an
    annotation is a set of lines to be joined, not one graph. clean: what this set's lines need before that.
    plate: a pattern for the beginning of an image's stem that names the plate, None where that is the whole stem.
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
    """What `prepare` wrote, changed and left out; `str` is the text of `report.txt`. Lengths at training scale."""

    name: str
    license: str
    images: dict[str, int] = field(default_factory=dict)
    """Written, by split."""
    plants: int = 0
    nodes: int = 0
    drawn_px: float = 0.0
    """The length of all roots in the annotations."""
    merged_px: float = 0.0
    """What of it lay on other roots of the same plant."""
    farthest_snap_px: float = 0.0
    notes: Notes = field(default_factory=Notes)

    def add(self, other: PrepareReport) -> None:
        """Take in what another report, of other images of the set, says."""
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
