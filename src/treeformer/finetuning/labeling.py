"""Label the images of a run that nobody has annotated, with the network that was trained on the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeformer.finetuning import measuring, pseudo_labels, work_folder
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.finetuning.progress import Report
from treeformer.finetuning.run import Run, Task
from treeformer.inference.predictor import Predictor
from treeformer.models.treeformer import TreeFormer

# Share of the time that is left in which images are labeled.
LABELING_SHARE = 0.25


def label_unannotated(
    run: Run, task: Task, stored: dict[str, Any], network: TreeFormer, device: str
) -> list[AnnotatedImage]:
    """Label images without annotation, and return those on which views agree. Labels are kept for a resume.

    Args:
        run: the run.
        task: what is trained.
        stored: the plan in the work folder. The agreement of every image is added.
        network: the trained network, on the device.
        device: "cpu" or "cuda".

    Returns:
        The images with their labels.

    Raises:
        KeyboardInterrupt: if the run is to stop.
    """
    folder = run.work / "labels"
    folder.mkdir(exist_ok=True)
    order = np.random.default_rng(run.seed).permutation(len(task.unannotated))[: pseudo_labels.MAX_IMAGES]
    images = [task.unannotated[index] for index in order]
    agreement: dict[str, Any] = stored.setdefault("agreement", {})
    if not stored.get("labeled"):
        began, limit = run.clock(), LABELING_SHARE * run.left

        def after_each(count: int) -> bool:
            work_folder.write_plan(run.work, stored)
            run.listen(Report("labels", "", count, len(images)))
            run.check_stop()
            return run.clock() - began > limit

        engine = measuring.LiveEngine(network, task.chosen, device=device)
        predictor = Predictor(task.chosen, engine=engine)
        pseudo_labels.label_images(predictor, images, task.root, folder, agreement, after_each)
        stored["labeled"] = True
        work_folder.write_plan(run.work, stored)
    labeled = pseudo_labels.agreed(images, task.root, folder, agreement)
    text = f"pseudo-labels: {len(labeled)} of {len(agreement)} images without corrected skeletons"
    if labeled:
        text += f", on which views agree with F1 {min(agreement[image.name] for image in labeled):.2f} or more"
    run.say("labels", text, {"pseudo_labels": len(labeled)})
    return labeled
