"""Text and tables of the page, from stored comparisons."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.summary.accuracy import KINDS
from benchmarks.trust.confidence import risk
from benchmarks.trust.traits import TRAITS, Agreement, agreement

Documents = Mapping[str, dict[str, Any]]
"""What is stored of each set, by its name."""

# Traits that the sentences name, with words for a prediction that is too low and too high.
WORDS = {
    "total_length": ("too short", "too long"),
    "primary_length": ("too short", "too long"),
    "lateral_count": ("too low", "too high"),
    "tip_count": ("too low", "too high"),
    "mean_diameter": ("too thin", "too thick"),
}
# A smaller median error has no direction that matters.
NO_BIAS = 0.02
# Sets whose plants are stars: all roots begin at the seed.
STARS = ("barley-roots published", "barley-roots test2")
STAR_NOTE = (
    "Every root of these plants begins at the seed, so there is no main root: `primary_length` is the sum of all "
    "roots that begin at the seed, and the annotation has no laterals. Use `total_length` and `tip_count`."
)
COVERAGE = 0.5


def title(name: str) -> str:
    """Return what a set shows. Sets at published size need no reference to others of the same kind."""
    kinds = {
        "osr-roots published": "oilseed rape roots, photographs",
        "barley-roots published": "barley roots, photographs",
        "barley-roots test2": "barley roots, photographs, the second test folder",
        "single-guyot published": "winter vines, photographs, a kind that was never trained on",
    }
    name = name.removesuffix(", 100 images")
    return kinds.get(name, KINDS[name])


def sentences(documents: Documents) -> str:
    """Return one line per set that says which traits are wrong in which direction.

    Args:
        documents: by set.

    Returns:
        Markdown.
    """
    lines = (f"- **{_capital(title(name))}**: {_sentence(name, one)}." for name, one in documents.items())
    return "\n".join(wrapped(line, "  ") for line in lines)


def wrapped(text: str, indent: str = "") -> str:
    """Break a paragraph into lines of at most 100 letters, those after the first with an indent."""
    return textwrap.fill(text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _sentence(set_name: str, document: dict[str, Any]) -> str:
    parts = []
    for name, words in WORDS.items():
        found = agreement(name, *document["traits"][name])
        is_defined = name != "primary_length" or set_name not in STARS
        if is_defined and found is not None and found.is_relative:
            parts.append(f"`{name}` is {_direction(found, words)}")
    matched, missed, false = document["plants"]
    plants = f"{matched} of {matched + missed} plants were found" + (f", {false} are false" if false else "")
    return "; ".join([plants, *parts])


def _direction(found: Agreement, words: tuple[str, str]) -> str:
    error, within = f"{100 * found.error:.0f} %", f"within 10 % in {100 * found.within:.0f} % of them"
    if abs(found.bias) >= NO_BIAS:
        return f"{100 * abs(found.bias):.0f} % {words[found.bias > 0]} in the median plant and {within}"
    return f"{words[0]} as often as {words[1]}, by {error} in the median plant, and {within}"


def trait_tables(documents: Documents) -> str:
    """Return one section with a table of all traits per set.

    Args:
        documents: by set.

    Returns:
        Markdown.
    """
    sections = []
    for name, document in documents.items():
        matched, missed, false = document["plants"]
        lines = [f"### {_capital(title(name))}", ""]
        lines += [f"{document['images']} images: {matched} plants matched, {missed} missed, {false} false.", ""]
        lines += [wrapped(STAR_NOTE), ""] if name in STARS else []
        lines += ["| trait | plants | bias (− too low, + too high) | median error | within 10 % | correlation |"]
        lines += ["|" + " --- |" * 6]
        for trait in TRAITS:
            found = agreement(trait, *document["traits"][trait])
            if found is not None:
                lines.append(f"| `{trait}` | {' | '.join(_cells(trait, found))} |")
        sections.append("\n".join(lines))
    return "\n\n".join(sections) + "\n"


def _cells(trait: str, found: Agreement) -> list[str]:
    correlation = "—" if math.isnan(found.correlation) else f"{found.correlation:.2f}".replace("-", "−")
    within = f"{100 * found.within:.0f} %" + (" (10°)" if trait.endswith("_angle_mean") else "")
    return [str(found.plants), _signed(trait, found, found.bias), _signed(trait, found, found.error).lstrip("+"),
            within, correlation]  # fmt: skip


def _signed(trait: str, found: Agreement, value: float) -> str:
    if found.is_relative:
        text = "∞" if math.isinf(value) else f"{100 * value:+.0f} %"
    else:
        text = f"{value:+.1f}°" if trait.endswith("_angle_mean") else f"{value:+.3g}"
    return text.replace("-", "−").replace("+0 %", "0 %").replace("−0 %", "0 %")


def confidence_table(documents: Documents) -> str:
    """Return the table of edge scores and of images that are put aside.

    Args:
        documents: by set.

    Returns:
        Markdown.
    """
    lines = [
        "| images | edges | correct | ECE | order (AUC) | length doubted | length wrong "
        "| wrong in the more confident half of the images | in the best half |",
        "|" + " --- |" * 9,
    ]
    for name, document in documents.items():
        count, correct, error, order = document["confidence"]["edges"]
        images = document["confidence"]["images"]
        if not images:
            continue
        doubted, wrong = (float(np.mean([image[k] for image in images])) for k in (2, 1))
        chosen, best = risk(images, COVERAGE)
        cells = [title(name), str(count), f"{correct:.3f}", f"{error:.3f}", "—" if order is None else f"{order:.2f}"]
        cells += [f"{100 * share:.1f} %" for share in (doubted, wrong, chosen, best)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def reliability_diagram(documents: Documents, path: Path) -> None:
    """Draw the fraction of correct edges over the mean score, 15 groups of edges of similar score per set.

    Args:
        documents: by set.
        path: the image to write.
    """
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(9, 5), layout="constrained")
    ax = drawing.subplots()
    ax.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for number, (name, document) in enumerate(documents.items()):
        style = ("o-", "s--", "^:")[number // 10]  # there are ten colors
        x, y = zip(*document["confidence"]["bins"], strict=True)
        ax.plot(x, y, style, markersize=3, linewidth=1, label=title(name), color=f"C{number % 10}")
    ax.set_xlabel("edge score")
    ax.set_ylabel("fraction of correct edges")
    drawing.legend(fontsize=7, loc="outside right upper")
    drawing.savefig(path, dpi=110)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
