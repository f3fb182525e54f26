"""Commands on models: export, info."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from treeformer.cli.common import app, examples, say
from treeformer.errors import TreeformerError

CARD_LINES = 12  # of the card that `info` shows


@app.command(
    epilog=examples(
        "treeformer export runs/drawings/best.safetensors -o drawings",
        "treeformer export runs/drawings/best.safetensors -o drawings --node-threshold 0.42 --card card.md",
        "treeformer export drawings -o drawings-wide --tokens 320",
    )
)
def export(
    model: Annotated[
        Path, typer.Argument(help="The best.safetensors of a run (default, paper, tiny), or a model folder.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model folder to write.")],
    input_size: Annotated[int | None, typer.Option(help="Side of the square input, px.")] = None,
    working_size: Annotated[
        int | None, typer.Option(help="Longer side that images are scaled to before they are cut into inputs, px.")
    ] = None,
    node_threshold: Annotated[float | None, typer.Option(help="Least probability of a node.")] = None,
    root_threshold: Annotated[float | None, typer.Option(help="Least probability of a further plant's root.")] = None,
    candidate_threshold: Annotated[
        float | None, typer.Option(help="Least node score that leaves the network, at most the node threshold.")
    ] = None,
    min_peak_heat: Annotated[
        float | None, typer.Option(help="Least heat of a peak that a token begins at; 0: as many tokens as there are.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(help="The most nodes of one input, where tokens come from the heat map.")
    ] = None,
    card: Annotated[Path | None, typer.Option(help="A file with the text of card.md.")] = None,
    int8: Annotated[
        bool, typer.Option("--int8/--no-int8", help="Also a graph in 8 bits, calibrated on synthetic images.")
    ] = True,
) -> None:
    """Write a model folder: weights, ONNX graphs that run without torch, settings, hashes. Takes minutes."""
    try:
        from treeformer.models.export import begun_from, export_model
    except ModuleNotFoundError as error:
        raise TreeformerError(f"export needs {error.name}: pip install 'treeformer[train,export]'") from None
    settings = {
        "input_size": input_size,
        "working_size": working_size,
        "node_threshold": node_threshold,
        "root_threshold": root_threshold,
        "candidate_threshold": candidate_threshold,
        "min_peak_heat": min_peak_heat,
    }
    folder = export_model(
        model,
        output,
        card=card,
        tokens=tokens,
        int8=int8,
        settings={name: value for name, value in settings.items() if value is not None},
    )
    size = sum((folder.path / file).stat().st_size for file in folder.hashes)
    name, active = begun_from(model) if model.is_file() else ("", None)
    taken_over = f", sizes and thresholds as in {name} where no option says otherwise"
    not_found = f", sizes and thresholds not as in {name}, which is gone or of another architecture"
    say(f"{folder.path}: {size / 1e6:.1f} MB" + (taken_over if active else not_found if name else ""))


@app.command(epilog=examples("treeformer info default", "treeformer info drawings"))
def info(
    model: Annotated[str, typer.Argument(help='"default", a model folder, or a name on the Hugging Face hub.')],
) -> None:
    """Show what a model is: architecture, size, thresholds, hashes, and the beginning of its card."""
    from treeformer.hub import safetensors
    from treeformer.hub.model_folder import open_model

    folder = open_model(model)
    config = folder.config
    entries, _ = safetensors.read_header(folder.weights)
    values = sum(math.prod(entry.shape) for entry in entries.values())
    table = Table(show_header=False, box=None)
    table.add_column()
    table.add_column(overflow="fold")  # the whole path, however narrow the screen
    rows = [
        ("where", str(folder.path.resolve())),
        ("architecture", config.architecture),
        ("weights", f"{values:,}"),
        ("input", f"{config.input_size} × {config.input_size} px"),
        ("working size", f"{config.working_size} px"),
        ("most nodes", f"{config.settings.get('tokens', '?')} in one input"),
        ("node threshold", f"{config.node_threshold:g}"),
        ("root threshold", f"{config.root_threshold:g}"),
        ("candidate score", f"{config.candidate_threshold:g}"),
        ("peak heat", f"{config.min_peak_heat:g}"),
        ("8 bits", "yes" if folder.has_int8 else "no"),
    ]
    for file, digest in folder.hashes.items():
        rows.append(
            (file, f"{(folder.path / file).stat().st_size / 1e6:.2f} MB, SHA-256 {digest[:16]}… as it should be")
        )
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
