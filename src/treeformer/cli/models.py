"""The commands `export` and `info` for models."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from treeformer.cli.common import app, examples, say
from treeformer.errors import TreeformerError

if TYPE_CHECKING:
    from treeformer.hub.model_folder import ModelSettings

CARD_LINES = 12  # lines of the card that `info` shows


@app.command(
    epilog=examples(
        "treeformer export runs/drawings/best.safetensors -o drawings",
        "treeformer export runs/drawings/best.safetensors -o drawings --node-threshold 0.42 --card card.md",
        "treeformer export drawings -o drawings-wide --tokens 320",
        "treeformer export default --web -o page-model",
    )
)
def export(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="best.safetensors of a run (model default, small, paper or tiny), a model folder, or a name.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model folder to write.")],
    input_size: Annotated[int | None, typer.Option(help="Side of the square input, px.")] = None,
    working_size: Annotated[
        int | None, typer.Option(help="Longer side to which images are scaled before they are cut into tiles, px.")
    ] = None,
    node_threshold: Annotated[float | None, typer.Option(help="Minimum probability of a node.")] = None,
    root_threshold: Annotated[
        float | None, typer.Option(help="Minimum probability of the root of a further plant.")
    ] = None,
    candidate_threshold: Annotated[
        float | None, typer.Option(help="Minimum score of node candidates, at most the node threshold.")
    ] = None,
    min_peak_heat: Annotated[
        float | None, typer.Option(help="Minimum heat of a peak that becomes a token. 0 always uses all tokens.")
    ] = None,
    version: Annotated[str | None, typer.Option(help="Version of the weights, for the record of predictions.")] = None,
    direction_weight: Annotated[
        float | None, typer.Option(help="Weight of predicted directions in the costs of edges. 0 ignores them.")
    ] = None,
    low_confidence_threshold: Annotated[
        float | None, typer.Option(help="Score below which edges are drawn dashed and counted as doubtful.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(help="Maximum number of nodes per input, for models with a heat map.")
    ] = None,
    card: Annotated[Path | None, typer.Option(help="File with the text of card.md.")] = None,
    int8: Annotated[
        bool, typer.Option("--int8/--no-int8", help="Also write an 8-bit graph, calibrated on synthetic images.")
    ] = True,
    web: Annotated[
        bool,
        typer.Option(
            "--web", help="Write a model folder's model for the web page instead: one ONNX file with 8-bit weights."
        ),
    ] = False,
) -> None:
    """Write a model folder: weights, settings, hashes, and ONNX graphs that run without torch. Takes minutes."""
    settings = {
        "input_size": input_size,
        "working_size": working_size,
        "node_threshold": node_threshold,
        "root_threshold": root_threshold,
        "candidate_threshold": candidate_threshold,
        "min_peak_heat": min_peak_heat,
        "version": version,
        "direction_weight": direction_weight,
        "low_confidence_threshold": low_confidence_threshold,
    }
    if web:
        if card is not None or tokens is not None or any(value is not None for value in settings.values()):
            raise TreeformerError("--web writes the model as it is: no other option than --output has a meaning")
        from treeformer.hub.model_folder import open_model
        from treeformer.hub.web_model import write_web_model

        file = write_web_model(open_model(str(model)), output)
        say(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
        return
    try:
        from treeformer.models.export import export_model, find_start_model
    except ModuleNotFoundError as error:
        raise TreeformerError(f"export needs {error.name}: pip install 'treeformer[train,export]'") from None
    folder = export_model(
        model,
        output,
        card=card,
        tokens=tokens,
        int8=int8,
        settings={name: value for name, value in settings.items() if value is not None},
    )
    size = sum((folder.path / file).stat().st_size for file in folder.hashes)
    name, start = find_start_model(model) if model.is_file() else ("", None)
    side = f"{folder.config.input_size} px"
    taken_over = f", sizes and thresholds as in {name} unless given by an option"
    not_found = f", input {side}, default thresholds: {name} is missing or of another architecture"
    from_scratch = f", input {side}, default thresholds unless given by an option"
    remark = taken_over if start else not_found if name else from_scratch if model.is_file() else ""
    say(f"{folder.path}: {size / 1e6:.1f} MB{remark}")


def _working_size(config: ModelSettings) -> str:
    """Return the working size, or the rule that chooses it, for people to read."""
    rule = config.scale_rule
    if rule is None:
        return f"{config.working_size} px"
    largest = config.input_size * 2**rule.max_doublings
    measured = "median keypoint spacing" if rule.signal == "spacing" else "median radius"
    crowded = f"; more if keypoints are nearer than {rule.crowded_px:g} px" if rule.crowded_px else ""
    return f"auto: {config.input_size} to {largest} px, so that the {measured} is near {rule.target_px:g} px{crowded}"


def _or_unknown(threshold: float | None) -> str:
    return "not stated" if threshold is None else f"below {threshold:g}"


@app.command(epilog=examples("treeformer info default", "treeformer info drawings"))
def info(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="default, small, a model folder, or a name on the Hugging Face hub.")
    ],
) -> None:
    """Show a model: architecture, size, thresholds, hashes, and the beginning of its card."""
    from treeformer.hub import safetensors
    from treeformer.hub.model_folder import open_model

    folder = open_model(model)
    config = folder.config
    entries, _ = safetensors.read_header(folder.weights)
    values = sum(math.prod(entry.shape) for entry in entries.values())
    table = Table(show_header=False, box=None)
    table.add_column()
    table.add_column(overflow="fold")  # show the whole path on a narrow screen
    rows = [
        ("folder", str(folder.path.resolve())),
        ("architecture", config.architecture),
        ("version", config.version or "not stated"),
        ("weights", f"{values:,}"),
        ("input", f"{config.input_size} × {config.input_size} px"),
        ("working size", _working_size(config)),
        ("maximum nodes", f"{config.settings.get('tokens', '?')} per input"),
        ("node threshold", f"{config.node_threshold:g}"),
        ("root threshold", f"{config.root_threshold:g}"),
        ("candidate threshold", f"{config.candidate_threshold:g}"),
        ("minimum peak heat", f"{config.min_peak_heat:g}"),
        ("direction weight", f"{config.direction_weight:g}"),
        ("edge scores", "calibrated" if config.edge_calibration else "as the network gives them"),
        ("low confidence", _or_unknown(config.low_confidence_threshold)),
        ("8 bits", "yes" if folder.has_int8 else "no"),
    ]
    for file, digest in folder.hashes.items():
        rows.append((file, f"{(folder.path / file).stat().st_size / 1e6:.2f} MB, SHA-256 {digest[:16]}…, checked"))
    for name, text in rows:
        table.add_row(f"[bold]{name}[/bold]", text)
    console = Console()
    console.print(table)
    lines = folder.card.strip().splitlines()
    if lines:
        console.print()
        console.print("\n".join(lines[:CARD_LINES]), markup=False, highlight=False)
        if len(lines) > CARD_LINES:
            say(f"… {len(lines) - CARD_LINES} more lines in {folder.path / 'card.md'}")
