"""Pseudo-labels: predicted trees that stand in for the ground truth of images without annotation.

A model that has seen a few images of a new kind is right on some of the others and wrong on the rest. Where it is
right, it mostly predicts the same tree from the image, its mirror image and shifted windows. So every image is
predicted in six views. Its label is the tree that agrees best with those of the other views, and only the images whose
views agree best are used.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from treeformer import formats
from treeformer._util.arrays import ImageArray
from treeformer._util.images import open_image
from treeformer.errors import TreeformerError
from treeformer.finetuning import measuring
from treeformer.finetuning.annotated import AnnotatedImage, shown_name
from treeformer.finetuning.run import Report, Run, SavedRun, Task
from treeformer.inference.predictor import Predictor
from treeformer.inference.views import MAX_VIEWS, view_agreement
from treeformer.models.treeformer import TreeFormer
from treeformer.skeleton import Skeleton

# Share of the images that are used: those whose views agree best.
SHARE = 0.5
MAX_IMAGES = 100
# Share of the time that is left in which images are labeled.
LABELING_SHARE = 0.25
# What people are told before the training.
LIMITS = f"at most {MAX_IMAGES} images are predicted for pseudo-labels; the {SHARE:.0%} whose views agree best are used"


def label(predictor: Predictor, pixels: ImageArray) -> tuple[Skeleton, float]:
    """Predict the views of an image and return the tree that agrees best with those of the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing found is a tree as well
        tree = predictor.predict(pixels, views=MAX_VIEWS)
    return tree.replace(node_score=None, edge_score=None), view_agreement(tree) or 0.0


def label_images(
    predictor: Predictor,
    images: Sequence[Path],
    root: Path,
    folder: Path,
    known: dict[str, float],
    after_each: Callable[[int], bool],
) -> None:
    """Label images, and note the agreement of each."""
    for number, path in enumerate(images):
        name = shown_name(path, root)
        if name not in known:
            try:
                tree, agreement = label(predictor, np.asarray(open_image(path)))
            except TreeformerError:  # a damaged file has nothing to learn from
                tree, agreement = Skeleton([], []), 0.0
            if len(tree.edges):
                formats.write(tree, _label_file(folder, name))
            known[name] = round(agreement, 4) if len(tree.edges) else 0.0
        if after_each(number + 1):
            return


def agreed(
    images: Sequence[Path], root: Path, folder: Path, agreement: dict[str, float], share: float = SHARE
) -> list[AnnotatedImage]:
    """Return the labeled images whose views agree best."""
    labeled = [(path, shown_name(path, root)) for path in images if shown_name(path, root) in agreement]
    best = sorted(labeled, key=lambda one: -agreement[one[1]])[: math.ceil(share * len(labeled))]
    result = []
    for path, name in best:
        if agreement[name] > 0:
            file = _label_file(folder, name)
            result.append(AnnotatedImage(path, file, name, formats.read(file)))
    return result


def _label_file(folder: Path, name: str) -> Path:
    """Return the file of a label. Names of images in sub-folders have slashes."""
    return folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.json"


def label_unannotated(run: Run, task: Task, saved: SavedRun, network: TreeFormer, device: str) -> list[AnnotatedImage]:
    """Label images without annotation, and return those on which views agree. Labels are kept for a resume."""
    folder = run.work / "labels"
    folder.mkdir(exist_ok=True)
    order = np.random.default_rng(run.seed).permutation(len(task.unannotated))[:MAX_IMAGES]
    images = [task.unannotated[index] for index in order]
    if not saved.labeled:
        began, limit = run.clock(), LABELING_SHARE * run.left

        def after_each(count: int) -> bool:
            saved.write(run.work)
            run.listen(Report("labels", "", count, len(images)))
            run.check_stop()
            return run.clock() - began > limit

        engine = measuring.LiveEngine(network, task.chosen, device=device)
        predictor = Predictor(task.chosen, engine=engine)
        label_images(predictor, images, task.root, folder, saved.agreement, after_each)
        saved.labeled = True
        saved.write(run.work)
    agreement = saved.agreement
    labeled = agreed(images, task.root, folder, agreement)
    text = f"pseudo-labels: {len(labeled)} of {len(agreement)} images without corrected skeletons"
    if labeled:
        text += f", on which views agree with F1 {min(agreement[image.name] for image in labeled):.2f} or more"
    run.say("labels", text, {"pseudo_labels": len(labeled)})
    return labeled
