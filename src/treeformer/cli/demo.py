"""The command `demo`, which predicts the example images of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treeformer.cli.common import app, examples


@app.command(epilog=examples("treeformer demo", "treeformer demo -o results/demo"))
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path("demo"),
) -> None:
    """Predict the example images of the package, draw and measure them, and compare them with the ground truth."""
    from treeformer._util.files import check_writable
    from treeformer.hub.model_folder import DEFAULT_FOLDER

    check_writable(output)
    if DEFAULT_FOLDER.is_dir():
        _predict_examples(output)
    else:
        _show_ground_truth(output)


def _predict_examples(output: Path) -> None:
    from treeformer import formats
    from treeformer._util.files import write_table
    from treeformer._util.image_output import write_image
    from treeformer.examples import IMAGES
    from treeformer.inference.batch import plan, predict_files, traits_of
    from treeformer.inference.predictor import Predictor
    from treeformer.metrics.report import Case, evaluate_cases

    jobs = plan(IMAGES, output, ("rsml",), overlay=True)
    predict_files(jobs, Predictor())
    traits, comparison = output / "traits.csv", output / "comparison.png"
    write_table(traits_of(jobs)[0], traits)
    report = evaluate_cases(
        Case(job.image.stem, job.skeletons["json"], job.image.with_suffix(".rsml"), job.image) for job in jobs
    )
    write_image(report.worst_sheet(), comparison)
    print(f"{'image':10} {'nodes':>6} {'plants':>7} {'length, px':>11} {'TOPO F1':>8}")
    for job, row in zip(jobs, report.rows, strict=True):
        skeleton = formats.read(job.skeletons["json"])
        counts = f"{len(skeleton):6} {len(skeleton.plants):7}"
        print(f"{job.image.stem:10} {counts} {skeleton.length:11.0f} {row['topo_f1']:8.3f}")
    print(f"skeletons:  {output}/*.json and *.rsml")
    print(f"overlays:   {output}/*.overlay.jpg")
    print(f"traits:     {traits}")
    print(f"comparison: {comparison} (red: predicted, blue: ground truth)")


def _show_ground_truth(output: Path) -> None:
    """Show one example with its ground truth, for copies of the package without a model."""
    from treeformer import formats
    from treeformer._util.files import write_table
    from treeformer._util.image_output import write_image
    from treeformer.draw import draw as overlay
    from treeformer.examples import EXAMPLE, example_image
    from treeformer.traits import measure

    skeleton = formats.read(EXAMPLE)
    results = {
        "overlay": output / "overlay.png",
        "skeleton, RSML": output / "skeleton.rsml",
        "skeleton, SWC": output / "skeleton.swc",
        "traits": output / "traits.csv",
    }
    write_image(overlay(example_image(), skeleton), results["overlay"])
    formats.write(skeleton, results["skeleton, RSML"])
    formats.write(skeleton, results["skeleton, SWC"])
    table = measure(skeleton)
    write_table(table, results["traits"])
    plant = table.iloc[0]
    print(f"no default model in this copy; showing the ground truth: {skeleton}: {len(skeleton.axes)} axes")
    for name in ("total_length", "primary_length", "lateral_count", "tip_count", "branch_point_count"):
        print(f"  {name:20} {plant[name]:.0f}")
    for title, path in results.items():
        print(f"{title + ':':16} {path}")
