"""Small folders for tests of the page: drawings with results."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw

import treeformer
from treeformer import Skeleton


def comb(offset: float = 0.0) -> Skeleton:
    """A stem with three teeth, one of them doubtful."""
    nodes = [(100, 40), (100, 100), (100, 160), (100, 220), (180, 100), (180, 160), (180 + offset, 220)]
    edges = [(0, 1), (1, 2), (2, 3), (1, 4), (2, 5), (3, 6)]
    scores = [0.95, 0.9, 0.9, 0.8, 0.3, 0.7]
    return Skeleton(nodes, edges, root=0, image_size=(400, 300), edge_score=scores, node_score=[0.9] * 7)


def folder(root: Path, *names: str, size: tuple[int, int] = (400, 300)) -> Path:
    """Write images with results into `root/images` and `root/results`; return the folder of the images."""
    for name in names:
        image = Image.new("RGB", size, (225, 228, 220))
        skeleton = comb()
        draw = ImageDraw.Draw(image)
        for a, b in skeleton.edges.tolist():
            draw.line([tuple(skeleton.nodes[a]), tuple(skeleton.nodes[b])], fill=(60, 70, 50), width=5)
        path = root / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
        result = (root / "results" / name).with_suffix(".json")
        result.parent.mkdir(parents=True, exist_ok=True)
        treeformer.write(skeleton, result)
    return root / "images"
