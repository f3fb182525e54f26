"""The command that shows the main job on the examples that ship: demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treeformer.cli.common import app, examples


@app.command(epilog=examples("treeformer demo", "treeformer demo -o somewhere/else"))
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="A folder for the results.")] = Path("demo"),
) -> None:
    """Predict the example images that ship, draw and measure them, and compare them with the ground truth."""
    from treeformer._util.files import check_writable
    from treeformer.hub.model_folder import DEFAULT_FOLDER

    check_writable(output)
    if DEFAULT_FOLDER.is_dir():
        _predict_examples(output)
    else:
        _show_ground_truth(output)


def _predict_examples(output: Path) -> None:
    from treeformer import formats
    from treeformer._util.files import atomic_write, write_table
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
    with atomic_write(comparison) as temporary:
        report.worst_sheet().save(temporary)
    print(f"{'image':10} {'nodes':>6} {'plants':>7} {'length, px':>11} {'TOPO F1':>8}")
    for job, row in zip(jobs, report.rows, strict=True):
        found = formats.read(job.skeletons["json"])
        print(f"{job.image.stem:10} {len(found):6} {len(found.plants):7} {found.length:11.0f} {row['topo_f1']:8.3f}")
    print(f"skeletons:  {output}/*.json and *.rsml")
    print(f"overlays:   {output}/*.overlay.jpg")
    print(f"traits:     {traits}")
    print(f"with ground truth: {comparison} (red: predicted, blue: true)")


def _show_ground_truth(output: Path) -> None:
    """What there is to see without a model: one example with its true skeleton."""
    from treeformer import formats
    from treeformer._util.files import atomic_write, write_table
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
    with atomic_write(results["overlay"]) as temporary:
        overlay(example_image(), skeleton).save(temporary)
    formats.write(skeleton, results["skeleton, RSML"])
    formats.write(skeleton, results["skeleton, SWC"])
    table = measure(skeleton)
    write_table(table, results["traits"])
    plant = table.iloc[0]
    print(f"this copy has no default model; a true skeleton instead: {skeleton}: {len(skeleton.axes)} axes")
    for name in ("total_length", "primary_length", "lateral_count", "tip_count", "branch_point_count"):
        print(f"  {name:20} {plant[name]:.0f}")
    for what, path in results.items():
        print(f"{what + ':':16} {path}")
