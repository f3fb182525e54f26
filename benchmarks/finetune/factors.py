"""`factors` varies one factor at a time."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.finetune import table
from benchmarks.finetune.domains import CACHE, domain_images
from benchmarks.finetune.variants import FACTORS, run


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `factors`."""
    parser.add_argument("--domain", default="orchard-row")
    parser.add_argument("--model", default="default", help="start model, which has not seen the domain")
    parser.add_argument("--images", type=int, nargs="+", default=[10])
    parser.add_argument("--side", type=int, default=256, help="side of images and input, px")
    parser.add_argument(
        "--max-minutes", type=float, default=1e9, help="stop after this time; repeat the call to continue"
    )
    parser.add_argument("--test-images", type=int, default=12)
    parser.add_argument("--image-steps", type=int, default=48)
    parser.add_argument("--crops-per-image", type=int, default=3)
    parser.add_argument("--choice", type=int, default=0, help="which images: 0 are the first, 1 the next, …")
    parser.add_argument("--only", help="only this variant")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("-o", "--output", type=Path, required=True)


def main(args: argparse.Namespace) -> None:
    """Run the variants that the table does not have yet."""
    deadline = time.monotonic() + 60 * args.max_minutes
    test = domain_images(args.domain, "test", args.test_images, args.cache, args.side)
    for count in args.images:
        pool = domain_images(args.domain, "train", (args.choice + 1) * count, args.cache, args.side)
        train = pool[args.choice * count : (args.choice + 1) * count]
        for variant in FACTORS:
            if args.only and variant.name != args.only:
                continue
            if time.monotonic() > deadline:
                return
            key = (args.domain, str(args.side), variant.name, str(len(train)), str(args.choice))
            if key in table.keys(args.output):
                continue
            row = run(
                variant,
                args.domain,
                args.model,
                train,
                test,
                args.cache,
                image_steps=args.image_steps,
                crops_per_image=args.crops_per_image,
                choice=args.choice,
                side=args.side,
                deadline=deadline,
            )
            if row is None:
                return
            table.append(args.output, row)
            print(*(f"{name} {row[name]}" for name in table.FIELDS), file=sys.stderr, flush=True)
