"""The command `edit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treeformer.cli.common import app, examples, say
from treeformer.errors import TreeformerError


@app.command(
    epilog=examples(
        "treeformer edit photos/",
        "treeformer edit photos/ --results corrected/",
        "treeformer predict photos/ -o results && treeformer edit results/",
    )
)
def edit(
    images: Annotated[
        Path,
        typer.Argument(
            metavar="IMAGES",
            readable=False,
            help="Folder of images, one image, or the results of `treeformer predict` or `treeformer series`.",
        ),
    ],
    results: Annotated[
        Path | None,
        typer.Option(help="Folder for the results. By default the folder of the images, or the results given."),
    ] = None,
    model: Annotated[
        str, typer.Option(help="default, small, a model folder, or a name on the Hugging Face hub.")
    ] = "default",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the server. 0 chooses a free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address only.")] = False,
) -> None:
    """Correct skeletons in the browser: see them over the images, edit, measure, save as JSON and RSML."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError:
        raise TreeformerError("the editor needs further packages: pip install 'treeformer[web]'") from None
    from treeformer.hub.model_folder import DEFAULT, HUB_NAME, open_model
    from treeformer.web.folder import open_workspace
    from treeformer.web.serve import serve

    workspace = open_workspace(images, results)
    if model != DEFAULT and (Path(model).exists() or not HUB_NAME.fullmatch(model)):
        open_model(model, check_hashes=False)  # a wrong name is an error now, not at the first prediction

    def announce(address: str) -> None:
        say(f"images in {workspace.images_root}, results in {workspace.results_root}; Ctrl-C ends the editor")
        print(address, flush=True)

    serve(workspace, model=model, port=port, browser=not no_browser, announce=announce)
    say("treeformer: the editor has ended")
