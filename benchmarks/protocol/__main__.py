"""Measure models by the frozen protocol and print one table.

python -m benchmarks.protocol measure default                        all sets of the protocol, 8-bit; resumes
python -m benchmarks.protocol measure candidate=runs/x --sets drawings vine --precisions int8 float32
python -m benchmarks.protocol measure default --quick                the rendered sets with 40 to 100 images each
python -m benchmarks.protocol figures default                        the figures anew, from stored predictions
python -m benchmarks.protocol show default candidate --reference default      the table, as Markdown

Predictions are stored in data/protocol/predictions, figures in benchmarks/results/protocol.
"""

from __future__ import annotations

import argparse
import sys
import time

from benchmarks.protocol.measure import CEILING, measure, measure_ceiling, path_of, predict, stored_cases
from benchmarks.protocol.sets import ALL, QUICK, STANDARD
from benchmarks.protocol.show import PRECISIONS, table

from treeformer.errors import TreeformerError
from treeformer.inference.predictor import Predictor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("measure", help="predict and store figures")
    run.add_argument("models", nargs="+", metavar="[LABEL=]MODEL", help="a model folder or name")
    run.add_argument("--sets", nargs="+", choices=list(ALL), default=list(STANDARD), metavar="SET")
    run.add_argument("--quick", action="store_true", help="measure only the rendered sets, with few images")
    run.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=["int8"])
    run.add_argument("--engine", default="onnx", choices=("onnx", "torch"))
    run.add_argument("--threads", type=int)
    run.add_argument("--workers", type=int, default=2)
    run.add_argument("--again", action="store_true", help="measure anew what is stored")
    figures = commands.add_parser("figures", help="compute the figures of stored predictions anew")
    figures.add_argument("models", nargs="+", metavar="LABEL")
    figures.add_argument("--workers", type=int, default=2)
    show = commands.add_parser("show", help="print the table of stored figures")
    show.add_argument("models", nargs="+", metavar="LABEL")
    show.add_argument("--reference", help="label that differences are taken against; by default the first")
    arguments = parser.parse_args()
    try:
        if arguments.command == "show":
            print(table(arguments.models, arguments.reference or arguments.models[0]))
        elif arguments.command == "figures":
            _figures(arguments)
        else:
            _measure(arguments)
    except TreeformerError as error:
        sys.exit(f"treeformer: {error}")


def _measure(arguments: argparse.Namespace) -> None:
    for given in arguments.models:
        label, _, model = given.rpartition("=")
        label = label or model
        for precision in arguments.precisions:
            predictor = Predictor(model, engine=arguments.engine, threads=arguments.threads, precision=precision)
            for test_set in QUICK.values() if arguments.quick else (ALL[name] for name in arguments.sets):
                began = time.monotonic()
                try:
                    if arguments.again or not path_of(CEILING, "exact", test_set).exists():
                        measure_ceiling(predictor, test_set, workers=arguments.workers)
                    if arguments.again or not path_of(label, precision, test_set).exists():
                        if arguments.again or stored_cases(label, precision, test_set) is None:
                            predict(predictor, label, precision, test_set, workers=arguments.workers)
                        measure(label, precision, test_set, workers=arguments.workers)
                except TreeformerError as error:  # a public set that is missing leaves the others
                    print(f"{test_set.name}: {error}", file=sys.stderr, flush=True)
                    continue
                print(f"{label} {precision} {test_set.name}: {time.monotonic() - began:.0f} s", flush=True)


def _figures(arguments: argparse.Namespace) -> None:
    for label in arguments.models:
        for precision in PRECISIONS:
            for test_set in ALL.values():
                if stored_cases(label, precision, test_set) is not None:
                    print(measure(label, precision, test_set, workers=arguments.workers), flush=True)


if __name__ == "__main__":
    main()
