"""`simulate` trains on the images that `treeformer next` names, and on random ones."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

import numpy as np
from benchmarks.finetune import table
from benchmarks.finetune.choice import ranked
from benchmarks.finetune.domains import domain_images
from benchmarks.finetune.variants import BASE, run_as_given

from treeformer.inference.predictor import Predictor
from treeformer.teaching import measuring


def main(args: argparse.Namespace) -> None:
    """Train on the images that `treeformer next` names, and on random ones, of a pool of several domains."""
    deadline = time.monotonic() + 60 * args.max_minutes
    pool = [i for name in args.domain for i in domain_images(name, "train", args.pool, args.cache, args.side)]
    test = [i for name in args.domain for i in domain_images(name, "test", args.test_images, args.cache, args.side)]
    domain = "+".join(args.domain)
    for count in args.images:
        for variant in (replace(BASE, name="next"), replace(BASE, name="random")):
            key = (domain, str(args.side), variant.name, str(count), str(args.choice))
            if key in table.keys(args.output) or (args.only and variant.name != args.only):
                continue
            order = np.random.default_rng([args.choice, 5]).permutation(len(pool)).tolist()
            if variant.name == "next":
                order = [index for index, _ in ranked(measuring.predict_images(Predictor("default"), pool), pool)]
            train = [pool[index] for index in order[:count]]
            print(variant.name, [f"{image.path.parent.name}/{image.name}" for image in train], file=sys.stderr)
            name = f"{domain}-{variant.name}"
            row = run_as_given(args, variant, name, train, test, deadline)
            if row is None:
                return
            table.append(args.output, {**row, "domain": domain})
