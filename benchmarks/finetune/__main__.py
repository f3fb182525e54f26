"""Fine-tuning on a few images of a domain that the model has not seen: factors varied once each, and learning curves.

PYTHONPATH=src python -m benchmarks.finetune factors --domain orchard-row -o benchmarks/results/finetune.csv
PYTHONPATH=src python -m benchmarks.finetune curve --domain vineyard --images 2 10 -o benchmarks/results/finetune.csv
PYTHONPATH=src python -m benchmarks.finetune choice --domain barley-roots vineyard
PYTHONPATH=src python -m benchmarks.finetune simulate --domain orchard-row vineyard -o benchmarks/results/finetune.csv
PYTHONPATH=src python -m benchmarks.finetune show benchmarks/results/finetune.csv
PYTHONPATH=src python -m benchmarks.finetune gpu --model VERSION6 --steps 300 600 1500 --parallel 3 -o gpu.csv
PYTHONPATH=src python -m benchmarks.finetune course vineyard10 vineyard-valid --model VERSION6
PYTHONPATH=src python -m benchmarks.finetune export --model VERSION6
PYTHONPATH=src python -m benchmarks.finetune density --domain orchard orchard-row vineyard branch-trees

`density` needs no network: nodes per 512 px input of whole images, and what a limit of nodes per training view does to
the scale of the views, with the augmentation and the windows of `treeformer train`.
`gpu` runs `treeformer finetune` itself on a GPU, with every combination of --images, --choices, --steps and --rates. It
measures the model folders on --count images of the split --split: "valid" to choose a setting, "test" for the rest.
`course` trains on one folder of images as `treeformer finetune` does on a CPU, without validation images choosing
anything, and prints the F1 of the training images and of another folder at several node thresholds as it goes.
`export` prints the CPU time of the parts of an export, s.
`choice` asks whether `treeformer next` names the images on which the model is worst: the rank correlation of expected
and true wrong edges over test images, and the F1 of the first third of the ranking against that of all images.
`simulate` annotates --images images of a pool of two domains in the order of `treeformer next`, and as many random ones
for each --choice, trains on each choice and measures on test images of both domains.

A domain is a synthetic preset, rendered as photographs of --side px, or `barley-roots` from the folder in
TREEFORMER_DATA, reduced to --side px. The network's input has the same side. Training images of a preset have seeds of
the split `train`, test images of the split `test`. The barley images for training come from the split `train`, one per
plate; those for testing from the split `test`. The default model has been trained on barley images of the split
`train`, so barley shows only what is left to gain.

Neck, decoder and heads are trained on stored features of the frozen backbone, as `treeformer finetune` does on a CPU.
There is no validation: the last weights are measured. Results are appended to the table, and a variant that is already
there is skipped, so that an interrupted call can be repeated. Features stay in --cache.
"""

from __future__ import annotations

import argparse

from benchmarks.finetune import choice, course, density, export, factors, gpu, simulate, table, variants

# Name, arguments, program.
COMMANDS = (
    ("factors", variants.arguments, factors.main),
    ("curve", variants.arguments, factors.curve),
    ("simulate", variants.arguments, simulate.main),
    ("gpu", gpu.arguments, gpu.main),
    ("course", course.arguments, course.main),
    ("choice", choice.arguments, choice.main),
    ("density", density.arguments, density.main),
    ("export", export.arguments, export.main),
    ("show", table.arguments, table.main),
)


def main() -> None:
    """Parse the command line and run a command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.finetune", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for name, arguments, program in COMMANDS:
        command = commands.add_parser(name)
        arguments(command)
        command.set_defaults(program=program)
    args = parser.parse_args()
    args.program(args)


if __name__ == "__main__":
    main()
