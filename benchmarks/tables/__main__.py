"""The paper's tables.

python -m benchmarks.tables table1                      rebuild a table from benchmarks/results/, without a GPU
python -m benchmarks.tables all --markdown              … all of them, into docs/results.md
python -m benchmarks.tables table1 --run --minutes 4    train what has no result yet, one run after another
python -m benchmarks.tables table1 --run --minutes 6 --parallel 6         … six at a time on one GPU
python -m benchmarks.tables all --list                  the runs of the tables, and which of them have a result
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.tables import results
from benchmarks.tables.build import Built, build
from benchmarks.tables.recipes import REAL, REHEARSAL, Run, run_named
from benchmarks.tables.show import markdown, screen, write_markdown
from benchmarks.tables.spec import TABLES, all_runs

from treeformer.errors import TreeformerError

PAGE = Path(__file__).parents[2] / "docs" / "results.md"
DEFAULT_MINUTES = 4.0
LEAST_WIDTH = 280


def parser() -> argparse.ArgumentParser:
    """All options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.tables", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("table", choices=[*TABLES, "all"])
    made.add_argument("--results", type=Path, default=results.FOLDER, help="folder of the result files")
    made.add_argument("--runs", type=Path, default=Path("runs"), help="folder of checkpoints and weights")
    made.add_argument("--take", type=Path, metavar="FOLDER", help="first take over what --bring wrote elsewhere")
    made.add_argument("--list", action="store_true", help="show the runs instead of the table")
    made.add_argument(
        "--markdown", type=Path, nargs="?", const=PAGE, metavar="PAGE", help="write it there, or into docs/results.md"
    )
    training = made.add_argument_group("training")
    training.add_argument("--run", action="store_true", help="train the runs that have no result yet")
    training.add_argument("--minutes", type=float, default=DEFAULT_MINUTES, help="of training, a run")
    training.add_argument("--only", nargs="+", metavar="RUN", help="these runs alone")
    training.add_argument("--seed", nargs="+", type=int, help="these seeds alone")
    training.add_argument("--domain", nargs="+", help="these domains alone")
    training.add_argument("--max-total", type=float, metavar="MIN", help="begin no run that would end later than this")
    training.add_argument("--data", type=Path, default=Path("data"), help="folder of the prepared sets")
    training.add_argument("--backbone", default="", metavar="FILE", help="ImageNet weights of a ResNet-50, safetensors")
    training.add_argument("--workers", type=int, help="processes for a run's images; by default runs share all cores")
    training.add_argument("--accelerator", default="auto", help="auto, cpu or cuda")
    training.add_argument(
        "--bring",
        type=Path,
        metavar="PLACE",
        help="copy results and weights, in small files, into this folder; or FILE.tar: the results alone, in one file",
    )
    training.add_argument("--parallel", type=int, default=1, metavar="N", help="train N runs at a time on one GPU")
    training.add_argument("--commit", default="", help="what to note down, where there is no checkout")
    training.add_argument("--rehearse", action="store_true", help="tiny models on tiny images: does everything work?")
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, train, show."""
    options = parser().parse_args(arguments)
    try:
        if options.take:
            from benchmarks.tables.transfer import take

            taken = take(options.take, runs=options.runs, results_folder=options.results)
            print(f"taken over: {', '.join(taken)}", file=sys.stderr)
        if options.run:
            _train(options)
        _show(options)
    except TreeformerError as error:
        sys.exit(f"tables: {error}")
    except KeyboardInterrupt:
        sys.exit("tables: interrupted; the same command goes on")


def chosen_runs(options: argparse.Namespace) -> list[Run]:
    """The runs that the options leave, in the order of the tables."""
    runs = all_runs() if options.table == "all" else TABLES[options.table].runs()
    if options.only:
        wanted = [run_named(name) for name in options.only]
        absent = [run.name for run in wanted if run not in runs]
        if absent:
            raise TreeformerError(f"{absent[0]} is no run of {options.table}")
        runs = wanted
    return [
        run
        for run in runs
        if (not options.seed or run.seed in options.seed) and (not options.domain or run.domain in options.domain)
    ]


def _train(options: argparse.Namespace) -> None:
    from benchmarks.tables.parallel import train_runs

    if options.rehearse and options.results.resolve() == results.FOLDER.resolve():
        raise TreeformerError("a rehearsal needs a folder of its own: --results FOLDER")
    if not options.minutes > 0:
        raise TreeformerError(f"--minutes must be positive, not {options.minutes:g}")
    if options.parallel < 1:
        raise TreeformerError(f"--parallel must be at least 1, not {options.parallel}")
    if options.backbone and not Path(options.backbone).is_file():
        raise TreeformerError(f"{options.backbone}: no such file")
    train_runs(
        chosen_runs(options),
        at_a_time=options.parallel,
        max_total=options.max_total,
        bring_to=options.bring,
        minutes=options.minutes,
        runs=options.runs,
        data=options.data,
        out=options.results,
        backbone=options.backbone,
        workers=(
            max(1, ((os.cpu_count() or 1) - 1) // options.parallel) if options.workers is None else options.workers
        ),
        accelerator=options.accelerator,
        scale=REHEARSAL if options.rehearse else REAL,
        commit=options.commit,
    )


def _show(options: argparse.Namespace) -> None:
    have = results.read_all(options.results)
    if options.list:
        for run in chosen_runs(options):
            done = have.get(run.name)
            print(f"{run.name:40}", f"{done.minutes:g} min, {done.images} images" if done else "not run yet")
        return
    for table in TABLES.values() if options.table == "all" else [TABLES[options.table]]:
        built = build(table, have)
        if options.markdown:
            write_markdown(options.markdown, table.name, markdown(built))
            print(f"{table.name}: written to {options.markdown}", file=sys.stderr)
        else:
            _print(built)


def _print(built: Built) -> None:
    try:
        from rich.console import Console
    except ModuleNotFoundError:  # a machine for training alone
        print(markdown(built))
        return
    # In a narrow terminal lines go on below: better than columns of two letters.
    console = Console(width=max(Console().width, LEAST_WIDTH), soft_wrap=True)
    for one in screen(built):
        console.print(one)
    for line in built.missing:
        console.print(f"missing: {line}", markup=False)


if __name__ == "__main__":
    main()
