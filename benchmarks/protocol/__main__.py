"""Measure models by the frozen protocol and print one table.

python -m benchmarks.protocol measure default                        both precisions, all sets; resumes
python -m benchmarks.protocol measure candidate=runs/x --sets drawings vine --precisions int8
python -m benchmarks.protocol measure default --quick                the rendered sets with 40 to 100 images each
python -m benchmarks.protocol show default candidate --reference default      the table, as Markdown
"""

from __future__ import annotations

import argparse
import sys
import time

from benchmarks.protocol.measure import CEILING, measure, measure_ceiling, path_of
from benchmarks.protocol.sets import QUICK, SETS, VALIDATION
from benchmarks.protocol.show import table

from treeformer.errors import TreeformerError
from treeformer.inference.predictor import Predictor

ALL = SETS | VALIDATION


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("measure", help="predict and store figures")
    run.add_argument("models", nargs="+", metavar="[LABEL=]MODEL", help="a model folder or name")
    run.add_argument("--sets", nargs="+", choices=list(ALL), default=list(SETS), metavar="SET")
    run.add_argument("--quick", action="store_true", help="measure fewer images of the rendered sets")
    run.add_argument("--precisions", nargs="+", choices=("int8", "float32"), default=["int8", "float32"])
    run.add_argument("--engine", default="onnx", choices=("onnx", "torch"))
    run.add_argument("--threads", type=int)
    run.add_argument("--workers", type=int, default=2)
    run.add_argument("--again", action="store_true", help="measure anew what is stored")
    show = commands.add_parser("show", help="print the table of stored figures")
    show.add_argument("models", nargs="+", metavar="LABEL")
    show.add_argument("--reference", help="label that differences are taken against; by default the first")
    arguments = parser.parse_args()
    try:
        if arguments.command == "show":
            print(table(arguments.models, arguments.reference or arguments.models[0]))
        else:
            _measure(arguments)
    except TreeformerError as error:
        sys.exit(f"treeformer: {error}")


def _measure(arguments: argparse.Namespace) -> None:
    for given in arguments.models:
        label, _, model = given.rpartition("=")
        for precision in arguments.precisions:
            predictor = Predictor(model, engine=arguments.engine, threads=arguments.threads, precision=precision)
            for name in arguments.sets:
                test_set = QUICK.get(f"{name}, quick") if arguments.quick else ALL[name]
                if test_set is None:  # real sets are small already
                    continue
                began = time.monotonic()
                try:
                    if arguments.again or not path_of(CEILING, "exact", test_set).exists():
                        measure_ceiling(predictor, test_set, workers=arguments.workers)
                    if arguments.again or not path_of(label or model, precision, test_set).exists():
                        measure(predictor, label or model, precision, test_set, workers=arguments.workers)
                except TreeformerError as error:  # a public set that is missing leaves the others
                    print(f"{name}: {error}", file=sys.stderr, flush=True)
                    continue
                print(f"{label or model} {precision} {test_set.name}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
