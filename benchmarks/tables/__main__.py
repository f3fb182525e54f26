"""Reproduce the paper's tables.

python -m benchmarks.tables table1                      rebuild a table from benchmarks/results/ (no GPU needed)
python -m benchmarks.tables all --markdown              write all tables into docs/lab/results.md
python -m benchmarks.tables table1 --run --minutes 4    train the runs that have no result yet, one after another
python -m benchmarks.tables table1 --run --minutes 6 --parallel 6    train six runs at a time on one GPU
python -m benchmarks.tables all --list                  list the runs and which of them have a result
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

PAGE = Path(__file__).parents[2] / "docs" / "lab" / "results.md"
DEFAULT_MINUTES = 4.0
LEAST_WIDTH = 280


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    root = argparse.ArgumentParser(
        prog="python -m benchmarks.tables", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    root.add_argument("table", choices=[*TABLES, "all"])
    root.add_argument("--results", type=Path, default=results.FOLDER, help="folder of the result files")
    root.add_argument("--runs", type=Path, default=Path("runs"), help="folder of checkpoints and weights")
    root.add_argument("--take", type=Path, metavar="FOLDER", help="first import what --bring wrote on another machine")
    root.add_argument("--list", action="store_true", help="list the runs instead of the table")
    root.add_argument(
        "--markdown",
        type=Path,
        nargs="?",
        const=PAGE,
        metavar="PAGE",
        help="write the table into this page; default docs/lab/results.md",
    )
    training = root.add_argument_group("training")
    training.add_argument("--run", action="store_true", help="train the runs that have no result yet")
    training.add_argument("--minutes", type=float, default=DEFAULT_MINUTES, help="training time per run")
    training.add_argument("--only", nargs="+", metavar="RUN", help="only these runs")
    training.add_argument("--seed", nargs="+", type=int, help="only these seeds")
    training.add_argument("--domain", nargs="+", help="only these domains")
    training.add_argument("--max-total", type=float, metavar="MIN", help="start no run that would end later than this")
    training.add_argument("--data", type=Path, default=Path("data"), help="folder of the prepared sets")
    training.add_argument("--backbone", default="", metavar="FILE", help="ImageNet weights of a ResNet-50, safetensors")
    training.add_argument("--workers", type=int, help="image processes per run; by default the runs share all cores")
    training.add_argument("--accelerator", default="auto", help="auto, cpu or cuda")
    training.add_argument(
        "--bring",
        type=Path,
        metavar="PLACE",
        help="copy results and weights into this folder, in small files; FILE.tar takes the results only",
    )
    training.add_argument("--parallel", type=int, default=1, metavar="N", help="train N runs at a time on one GPU")
    training.add_argument("--commit", default="", help="commit to record if there is no checkout")
    training.add_argument("--rehearse", action="store_true", help="use tiny models and images, to test the pipeline")
    return root


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, train and show."""
    options = parser().parse_args(arguments)
    try:
        if options.take:
            from benchmarks.tables.transfer import take

            taken = take(options.take, runs=options.runs, results_folder=options.results)
            print(f"imported: {', '.join(taken)}", file=sys.stderr)
        if options.run:
            _train(options)
        _show(options)
    except TreeformerError as error:
        sys.exit(f"tables: {error}")
    except KeyboardInterrupt:
        sys.exit("tables: interrupted; run the same command to continue")


def chosen_runs(options: argparse.Namespace) -> list[Run]:
    """Return the runs that the options select, in the order of the tables."""
    runs = all_runs() if options.table == "all" else TABLES[options.table].runs()
    if options.only:
        wanted = [run_named(name) for name in options.only]
        absent = [run.name for run in wanted if run not in runs]
        if absent:
            raise TreeformerError(f"{absent[0]} is not a run of {options.table}")
        runs = wanted
    return [
        run
        for run in runs
        if (not options.seed or run.seed in options.seed) and (not options.domain or run.domain in options.domain)
    ]


def _train(options: argparse.Namespace) -> None:
    from benchmarks.tables.parallel import train_runs

    if options.rehearse and options.results.resolve() == results.FOLDER.resolve():
        raise TreeformerError("a rehearsal needs its own folder: --results FOLDER")
    if not options.minutes > 0:
        raise TreeformerError(f"--minutes must be positive, not {options.minutes:g}")
    if options.parallel < 1:
        raise TreeformerError(f"--parallel must be at least 1, not {options.parallel}")
    if options.backbone and not Path(options.backbone).is_file():
        raise TreeformerError(f"{options.backbone}: no such file")
    train_runs(
        chosen_runs(options),
        parallel=options.parallel,
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
    available = results.read_all(options.results)
    if options.list:
        for run in chosen_runs(options):
            done = available.get(run.name)
            print(f"{run.name:40}", f"{done.minutes:g} min, {done.images} images" if done else "not run")
        return
    for table in TABLES.values() if options.table == "all" else [TABLES[options.table]]:
        built = build(table, available)
        if options.markdown:
            write_markdown(options.markdown, table.name, markdown(built))
            print(f"{table.name}: written to {options.markdown}", file=sys.stderr)
        else:
            _print(built)


def _print(built: Built) -> None:
    try:
        from rich.console import Console
    except ModuleNotFoundError:  # not installed on training machines
        print(markdown(built))
        return
    # A fixed minimum width: a narrow terminal wraps lines, which reads better than columns of two letters.
    console = Console(width=max(Console().width, LEAST_WIDTH), soft_wrap=True)
    for table in screen(built):
        console.print(table)
    for line in built.missing:
        console.print(f"missing: {line}", markup=False)


if __name__ == "__main__":
    main()
