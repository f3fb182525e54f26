"""Fine-tuning on a few images of a domain that the model has not seen: factors varied once each, and learning curves.

PYTHONPATH=src python -m benchmarks.finetune curve --domain barley-roots --model FREE --reference ALL \\
    --images 1 2 5 10 20 --choices 3 --split test -o curve.csv
PYTHONPATH=src python -m benchmarks.finetune curve --domain barley-roots --model FREE --reference ALL --order next \\
    --images 2 5 10 --choices 3 --split test -o curve.csv
PYTHONPATH=src python -m benchmarks.finetune curve --model VERSION6 --images 10 --device cpu -o curve-cpu.csv
PYTHONPATH=src python -m benchmarks.finetune factors --domain orchard-row --model VERSION6 -o factors.csv
PYTHONPATH=src python -m benchmarks.finetune gpu-factors --model VERSION6 --parallel 8 -o gpu-factors.csv
PYTHONPATH=src python -m benchmarks.finetune self-training --model VERSION6 --parallel 3 -o self-training.csv
PYTHONPATH=src python -m benchmarks.finetune show factors.csv
PYTHONPATH=src python -m benchmarks.finetune choice --domain barley-roots --model FREE
PYTHONPATH=src python -m benchmarks.finetune folds --set osr-roots --model FREE --folds 4 -o folds.csv
PYTHONPATH=src python -m benchmarks.finetune course vineyard10 vineyard-valid --model VERSION6
PYTHONPATH=src python -m benchmarks.finetune export --model VERSION6
PYTHONPATH=src python -m benchmarks.finetune density --domain orchard orchard-row vineyard branch-trees

`curve` runs `treeformer finetune` itself, with every combination of --images, --choices, --order, --steps and --rates.
It measures the model folders on --count images of the split --split: "valid" to choose a setting, "test" for the rest.
Each choice is a random order of the training images, of which the first ones are annotated, or with `--order next`
those that `treeformer next` names among the first --pool. Steps and rates are for a GPU.
`factors` trains neck, decoder and heads on stored features of the frozen backbone, and varies one factor at a time.
`treeformer finetune` on a CPU is its variant "last stage trained". There is no validation: the last weights are
measured.
`gpu-factors` varies one factor at a time of the mode for a GPU, which trains the whole network, and measures several
node thresholds. There is no validation either.
`self-training` trains on ten images in the mode for a GPU, predicts views of --others images, and trains again on the
ten and on those images whose views agree, from the first weights and from the start model. There is no validation.
`choice` asks whether `treeformer next` names the images on which the model is worst: the rank correlation of expected
and true wrong edges over test images, and the F1 of the first third of the ranking against that of all images.
`folds` is a cross-validation over all images of a public set: each fold is measured with a model that `treeformer
finetune` has trained on the other folds. The start model must not have seen the set.
`course` trains on one folder of images as `treeformer finetune` does on a CPU, without validation images choosing
anything, and prints the F1 of the training images and of another folder at several node thresholds as it goes.
`export` prints the CPU time of the parts of an export, s.
`density` needs no network: nodes per 512 px input of whole images, and what a limit of nodes per training view does to
the scale of the views, with the augmentation and the windows of `treeformer train`.

A domain is a synthetic preset, rendered as photographs of --side px, or `barley-roots` from the folder in
TREEFORMER_DATA, reduced to --side px. The network's input has the same side. Training images of a preset have seeds of
the split `train`, test images of the split `test`. Training images of barley are one per plate of the split `train`;
test images are those of the splits `valid` and `test`, which have other plates. The default model has been trained on
barley images of the split `train`, so a start model without them is needed.

`curve`, `factors`, `gpu-factors` and `self-training` append to a table, and skip what is already there, so that an
interrupted call can be repeated. Images and features stay in --cache.
"""

from __future__ import annotations

import argparse

from benchmarks.finetune import (
    choice,
    course,
    curve,
    density,
    export,
    factors,
    folds,
    gpu_factors,
    self_training,
    table,
)

# Name, arguments, program.
COMMANDS = (
    ("curve", curve.arguments, curve.main),
    ("factors", factors.arguments, factors.main),
    ("gpu-factors", gpu_factors.arguments, gpu_factors.main),
    ("self-training", self_training.arguments, self_training.main),
    ("show", table.arguments, table.main),
    ("choice", choice.arguments, choice.main),
    ("folds", folds.arguments, folds.main),
    ("course", course.arguments, course.main),
    ("export", export.arguments, export.main),
    ("density", density.arguments, density.main),
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
