"""`factors` varies one factor at a time, `curve` the number of images."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.finetune import table
from benchmarks.finetune.domains import domain_images
from benchmarks.finetune.variants import BASE, FACTORS, Variant, run_as_given


def main(args: argparse.Namespace) -> None:
    """Run the variants that the table does not have yet."""
    _run_all(args, FACTORS)


def curve(args: argparse.Namespace) -> None:
    """Run one variant with every number of images that the table does not have yet."""
    _run_all(args, (replace(BASE, name="curve"),))


def _run_all(args: argparse.Namespace, variants: Sequence[Variant]) -> None:
    deadline = time.monotonic() + 60 * args.max_minutes
    (args.domain,) = args.domain
    test = domain_images(args.domain, "test", args.test_images, args.cache, args.side)
    for count in args.images:
        pool = domain_images(args.domain, "train", (args.choice + 1) * count, args.cache, args.side)
        train = pool[args.choice * count : (args.choice + 1) * count]
        for variant in variants:
            if args.only and variant.name != args.only:
                continue
            if time.monotonic() > deadline:
                return
            key = (args.domain, str(args.side), variant.name, str(len(train)), str(args.choice))
            if key in table.keys(args.output):
                continue
            row = run_as_given(args, variant, args.domain, train, test, deadline)
            if row is None:
                return
            table.append(args.output, row)
            print(*(f"{name} {row[name]}" for name in table.FIELDS), file=sys.stderr, flush=True)
