"""The commands `finetune` and `next`: teach a model own images, and choose the images to annotate."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from treeformer.cli.common import BAR, app, counted, examples, finish, say
from treeformer.cli.common import progress as progress_bar
from treeformer.errors import TreeformerError

if TYPE_CHECKING:
    from treeformer.finetuning.run import Listener, Report


class DeviceChoice(StrEnum):
    """Where training runs."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class ProgressChoice(StrEnum):
    """How progress is shown."""

    text = "text"
    json = "json"


@app.command(
    epilog=examples(
        "treeformer finetune photos/ -o models/my-plants",
        "treeformer finetune photos/ -o models/my-plants --max-minutes 60",
        "treeformer finetune photos/ -o models/second --model models/first",
        "treeformer finetune photos/ -o models/my-plants --unannotated",
    )
)
def finetune(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            readable=False,
            help="Images with accepted or annotated skeletons beside them, or results of `treeformer edit`.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model folder to write.")],
    max_minutes: Annotated[
        float | None,
        typer.Option(help="Time limit of the whole command, minutes. By default 15 on a CPU and 5 on a GPU."),
    ] = None,
    model: Annotated[
        str,
        typer.Option(help="Model to start from: default, small, a model folder, or a name on the Hugging Face hub."),
    ] = "default",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split, the crops and their order.")] = 0,
    unannotated: Annotated[
        bool,
        typer.Option(
            "--unannotated",
            help="Learn from images without corrected skeletons, too, where views of them agree. Needs a GPU.",
        ),
    ] = False,
    include_unaccepted: Annotated[
        bool,
        typer.Option("--include-unaccepted", help="Learn from corrections that were not accepted, too."),
    ] = False,
    device: Annotated[DeviceChoice, typer.Option(help="auto is a GPU if there is one.")] = DeviceChoice.auto,
    progress: Annotated[
        ProgressChoice, typer.Option(help="json prints one JSON object per line on standard output.")
    ] = ProgressChoice.text,
) -> None:
    """Train a model on own images, about 15 minutes on a CPU. Needs the extras train and export. Can be resumed."""
    began = time.monotonic()  # before the import of torch, which takes seconds
    try:
        from treeformer.finetuning.finetune import finetune as run
        from treeformer.training.signals import DeferredSignals
    except ModuleNotFoundError as error:
        raise TreeformerError(f"fine-tuning needs {error.name}: pip install 'treeformer[train,export]'") from None
    show = _json_lines if progress is ProgressChoice.json else _text
    try:
        signals = DeferredSignals()
        with show() as listen, signals.defer():
            run(
                folder,
                output,
                start=model,
                max_minutes=max_minutes,
                device=device.value,
                seed=seed,
                unannotated=unannotated,
                include_unaccepted=include_unaccepted,
                listen=listen,
                should_stop=lambda: signals.received,
                began=began,
            )
    except KeyboardInterrupt:
        say("treeformer: the same command continues this run")
        raise


@contextmanager
def _json_lines() -> Iterator[Listener]:
    """Print every report as one line of JSON on standard output."""
    yield lambda report: print(report.as_json(), flush=True)


@contextmanager
def _text() -> Iterator[Listener]:
    """Print messages as lines, and show a progress bar on a terminal."""
    console = Console(stderr=True)
    with Progress(*BAR, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=None)

        def listen(report: Report) -> None:
            if report.total:
                bar.update(task, description=report.stage, completed=report.done, total=report.total)
            if report.message:
                say(report.message)

        yield listen


@app.command(
    "next",
    epilog=examples("treeformer next photos/", "treeformer next photos/ --model models/my-plants --count 5"),
)
def next_images(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", readable=False, help="Images, some of them with corrected skeletons."),
    ],
    count: Annotated[int, typer.Option(min=1, help="Number of images to name.")] = 10,
    model: Annotated[
        str, typer.Option(help="default, small, a model folder, or a name on the Hugging Face hub.")
    ] = "default",
) -> None:
    """Name the images to annotate next: uncertain predictions first, and images unlike those annotated already."""
    from treeformer.finetuning.next_images import rank_folder

    with progress_bar("examining") as show:
        ranked, failures = rank_folder(folder, model=model, progress=show)
    for one in ranked[:count]:
        print(one.path)
    is_complete = not ranked and not failures
    done = (
        "every image has a corrected skeleton"
        if is_complete
        else f"{counted(len(ranked), 'image')} without corrections"
    )
    finish(done, failures, total=len(ranked) + len(failures))
