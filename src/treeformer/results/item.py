"""An image with its skeleton file: which file that is, and what it is. Both are decided here only; see docs/results.md.

What a file is follows from its content. The editor records in `metadata.editor` that it has saved a skeleton, whether a
person has accepted it, and what it still is if it was saved without a change.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from treeformer import formats
from treeformer._util.files import is_file
from treeformer.draw import low_confidence_edges
from treeformer.errors import FormatError, TreeformerError
from treeformer.formats import native_json
from treeformer.formats.rsml.confidence import has_scores
from treeformer.results.layout import JSON, OVERLAY_ENDING, RSML, Listing
from treeformer.results.saved import digest, is_own
from treeformer.skeleton import Skeleton

MAX_LISTED = 5  # files in a message
# How predictions begin in formats that store text only; see `treeformer.inference.provenance`.
MADE_BY_A_MODEL = re.compile(r"\s*treeformer \S+; model ")
# Sources of nodes and edges that no person has checked; "imported" is from a file that names no model.
UNCHECKED = ("predicted", "imported")


class Origin(StrEnum):
    """What a skeleton is.

    A prediction was made by a model. A draft is unsaved work in the editor. A correction was saved in the editor after
    a change, an accepted skeleton was checked by a person. An annotation was made in another program, by hand.
    """

    prediction = "prediction"
    draft = "draft"
    correction = "correction"
    accepted = "accepted"
    annotation = "annotation"


UNSAVED = (Origin.prediction, Origin.annotation)
SAVED_BY_A_PERSON = (Origin.correction, Origin.accepted)
GROUND_TRUTH = (Origin.accepted, Origin.annotation)


def editor_data(skeleton: Skeleton) -> Mapping[str, Any] | None:
    """Return what the editor has stored in the metadata of a skeleton, None if it did not save the skeleton."""
    data = skeleton.metadata.get("editor")
    return data if isinstance(data, Mapping) else None


def origin_of(skeleton: Skeleton) -> Origin:
    """Return what a skeleton is, from its scores and its metadata. It is never `draft`."""
    editor = editor_data(skeleton)
    if editor is None:
        return Origin.prediction if has_scores(skeleton) or _names_model(skeleton) else Origin.annotation
    if editor.get("accepted") is True:
        return Origin.accepted
    written = editor.get("written")
    stated = written.get("origin") if isinstance(written, Mapping) else None
    if stated not in UNSAVED or not isinstance(written, Mapping):
        return Origin.correction
    is_as_saved = written.get("json") == digest(native_json.to_document(skeleton))
    return Origin(str(stated)) if is_as_saved else Origin.correction  # another program may have changed it


def origin_in(file: Path) -> Origin | None:
    """Return what a file is, None if there is none or it cannot be read."""
    try:
        return origin_of(formats.read(file))
    except TreeformerError:
        return None


def _names_model(skeleton: Skeleton) -> bool:
    """Return True if a file without scores names the model that predicted it: empty RSML, and SWC."""
    if "prediction" in skeleton.metadata:  # from a format that has scores: a person has removed them
        return False
    rsml, swc = (skeleton.metadata.get(key) for key in ("rsml", "swc"))
    software = rsml.get("software") if isinstance(rsml, Mapping) and not len(skeleton) else None
    comments = swc.get("comments") if isinstance(swc, Mapping) else None
    lines = [software, *(comments if isinstance(comments, list | tuple) else ())]
    return any(isinstance(line, str) and MADE_BY_A_MODEL.match(line) for line in lines)


def is_unchanged(new: Skeleton, old: Skeleton) -> bool:
    """Return True if a person has neither changed nor checked anything: both differ in other metadata only."""
    if new.replace(metadata={}) != old.replace(metadata={}):
        return False
    after, before = editor_data(new) or {}, editor_data(old) or {}
    for key in ("node_source", "edge_source"):
        sources, known = after.get(key) or (), before.get(key)
        if known is None and not set(sources) <= set(UNCHECKED):
            return False
        if known is not None and list(sources) != known:
            return False
    return True


def open_places(skeleton: Skeleton) -> int:
    """Return the number of edges of low confidence that no person has checked."""
    editor = editor_data(skeleton)
    if editor is not None and editor.get("accepted") is True:
        return 0
    return int((low_confidence_edges(skeleton) & _unchecked(skeleton)).sum())


def expected_errors(skeleton: Skeleton) -> float | None:
    """Return the sum of 1 - score over the edges that no person has checked; None if there are no scores."""
    if origin_of(skeleton) is Origin.accepted:
        return 0.0
    if skeleton.edge_score is None:
        return None
    doubt = np.clip(1.0 - skeleton.edge_score, 0.0, 1.0)[_unchecked(skeleton)]
    return round(math.fsum(doubt.tolist()), 6)


def _unchecked(skeleton: Skeleton) -> Any:
    """Return (E,) True for the edges that no person has checked."""
    sources = (editor_data(skeleton) or {}).get("edge_source")
    if not isinstance(sources, list) or len(sources) != len(skeleton.edges):
        return np.ones(len(skeleton.edges), dtype=bool)
    return np.array([source in UNCHECKED for source in sources], dtype=bool)


@dataclass(frozen=True)
class Item:
    """An image and the place of its results.

    Attributes:
        image: the image file.
        stem: path of its results without suffix.
    """

    image: Path
    stem: Path

    def file(self, ending: str) -> Path:
        """Return the result with an ending; it need not exist."""
        return self.stem.with_name(self.stem.name + ending)

    @property
    def json(self) -> Path:
        """The result in the native format."""
        return self.file(JSON)

    @property
    def rsml(self) -> Path:
        """The result in RSML."""
        return self.file(RSML)


@dataclass(frozen=True)
class Targets(Item):
    """An image and the files that a prediction of it writes.

    Attributes:
        suffixes: the ending of the file of each format. The first is "json", the native format.
        has_overlay: also draw the skeleton over the image.
    """

    suffixes: Mapping[str, str] = field(default_factory=lambda: {"json": JSON})
    has_overlay: bool = False

    @property
    def skeletons(self) -> dict[str, Path]:
        """One file per format, by format name."""
        return {name: self.file(ending) for name, ending in self.suffixes.items()}

    @property
    def overlay(self) -> Path | None:
        """File of the skeleton drawn over the image, None if it is not requested."""
        return self.file(OVERLAY_ENDING) if self.has_overlay else None

    def is_done(self) -> bool:
        """Return True if all files exist."""
        return all(map(is_file, self.skeletons.values())) and (self.overlay is None or is_file(self.overlay))


@dataclass(frozen=True)
class About:
    """What a skeleton file says of itself.

    Attributes:
        origin: what it is.
        image_name: the name of its image, None if it states none.
        nodes: number of nodes.
        plants: number of plants.
        expected_errors: see `expected_errors`.
        open_places: see `open_places`.
        version: changes whenever the file changes.
    """

    origin: Origin
    image_name: str | None
    nodes: int
    plants: int
    expected_errors: float | None
    open_places: int
    version: str


def _about(skeleton: Skeleton, version: str) -> About:
    plants = len(set(skeleton.plant_of_node.tolist()))
    doubt = expected_errors(skeleton), open_places(skeleton)
    return About(origin_of(skeleton), skeleton.image_name, len(skeleton), plants, *doubt, version)


class Reader:
    """Find and read the skeleton files of images. What a file says of itself is read again only if it has changed.

    `check` is called with each folder before it is listed and may raise an error.
    """

    def __init__(self, check: Callable[[Path], object] = lambda _: None) -> None:
        self._check = check
        self._known: dict[Path, tuple[tuple[int, int], About | TreeformerError]] = {}
        self._last: tuple[Path, tuple[int, int], Skeleton] | None = None
        self.refresh()

    def refresh(self) -> None:
        """List folders again."""
        self.listing = Listing(self._check)

    def read(self, path: Path) -> Skeleton:
        """Read a skeleton. The last one is kept, so that a file is not parsed twice in a row."""
        version = _version(path)
        if self._last is None or self._last[:2] != (path, version):
            self._last = (path, version, formats.read(path))
        return self._last[2]

    def about(self, path: Path) -> About:
        """Return what a file says of itself. Raise `UnknownKindError` if it is no skeleton."""
        version = _version(path)
        found = self._known.get(path)
        if found is None or found[0] != version:
            try:
                found = version, _about(self.read(path), "{:x}-{:x}".format(*version))
            except TreeformerError as error:
                found = version, error
            self._known[path] = found
        if isinstance(found[1], TreeformerError):
            raise found[1]
        return found[1]

    def choose(self, item: Item) -> Path | None:
        """Return the skeleton file of an image, None if there is none.

        Results come before files beside the image, and the order of `layout` decides among the files of one place. A
        file of another program, such as settings of a camera, does not hide a skeleton.
        """
        files = list(self._candidates(item))
        while len(files) > 1 and self._is_no_skeleton(files[0]):
            del files[0]
        return files[0] if files else None

    def choices(self, items: Iterable[Item], copies: Collection[Path] = ()) -> str | None:
        """Return one line about the images with several skeleton files, None if there are none.

        JSON and RSML that the editor wrote together are one, and so are predictions in several formats, and `copies`.
        """
        found = []
        for item in items:
            chosen = self.choose(item)
            others = [file for file in self._candidates(item) if chosen and file != chosen]
            others = [file for file in others if chosen and file not in copies and not self._is_copy(file, chosen)]
            if chosen and others:
                found.append(f"{chosen.name} (not {', '.join(file.name for file in others)})")
        if not found:
            return None
        more = f" and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
        images = "1 image has" if len(found) == 1 else f"{len(found)} images have"
        return f"{images} several skeleton files; used: {', '.join(found[:MAX_LISTED])}{more}"

    def _is_copy(self, file: Path, chosen: Path) -> bool:
        if is_own(chosen, file):
            return True
        try:
            return {self.about(one).origin for one in (file, chosen)} == {Origin.prediction}
        except TreeformerError:
            return False

    def _candidates(self, item: Item) -> Iterator[Path]:
        stem, image = item.stem, item.image
        # The results of a.png and a.jpg are a.png.json and a.jpg.json, but a.json may be older than one of the images.
        is_shared = stem.name == image.name
        earlier = [stem.with_name(image.stem)] if is_shared else []
        for place in dict.fromkeys((stem, *earlier, image.with_suffix(""))):
            for file in self.listing.skeletons(place):
                if not (is_shared and place != stem and self._is_of_another_image(file, image)):
                    yield file

    def _is_of_another_image(self, file: Path, image: Path) -> bool:
        """Return True if a skeleton states that it belongs to another image of this name, `a.png` beside `a.jpg`."""
        try:
            name = self.about(file).image_name or ""
        except (OSError, TreeformerError):
            return False
        is_neighbor = Path(name).name == name and Path(name).stem == image.stem and name != image.name
        return is_neighbor and image.with_name(name).is_file()

    def _is_no_skeleton(self, file: Path) -> bool:
        try:
            self.about(file)
        except formats.UnknownKindError:
            return True
        except (OSError, TreeformerError):
            pass  # a damaged skeleton, which the caller reports
        return False


def _version(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror or error})") from None
    return status.st_mtime_ns, status.st_size
