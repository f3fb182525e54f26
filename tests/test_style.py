"""The rules of CONTRIBUTING.md that a machine can check: docstrings, banned phrases, line lengths, repository size."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "treeformer"
ONE_LINE = {"cli", "finetuning", "training"}  # sections are for the API only
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if not ONE_LINE & set(path.parts))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted(PACKAGE.rglob("*.md"))]
SOURCES = [path for folder in ("src", "tests", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))]

LONGEST_LINE = 120
LONGEST_OF_DOCUMENTS = 100  # of lines of text in docs/
# Code, images, links and formulas of one line.
UNBREAKABLE = re.compile(r"`[^`]*`|!?\[[^\]]*\]\([^)]*\)|\$\$.*\$\$")
MOST_BYTES = 47_500_000

# Phrases that CONTRIBUTING.md replaces by plain English, in lower case, from the beginning of a word.
BANNED = (
    r"pictures?\b",
    r"a row a\b",
    r"(one|an?) \w+ an? (image|plant|file|node|format|row|picture)\b",
    r"(that|what) is none\b",
    r"mended\b",
    r"script that was not kept",
    r"by heart\b",
    r"key nodes?\b",
    r"(?<!ground )(?<!ground_)(?<!ground-)truths?\b(?!-)",
    r"(colour|centre|grey|neighbour|behaviour|optimis|normalis|quantis|rasteris|licence)",
)
# One boundary for all phrases and no case: eight times as fast as a boundary per phrase and any case.
BANNED_PHRASE = re.compile(rf"\b(?:{'|'.join(BANNED)})")
# These spell out what is banned, or read a file whose keys are given.
EXEMPT = {"tests/test_style.py", "tests/metrics/test_parity.py"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """(qualified name, definition) of the public functions of a module and the public methods of its public classes."""
    for node in tree.body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for inner in node.body:
                if isinstance(inner, Function) and not inner.name.startswith("_"):
                    yield f"{node.name}.{inner.name}", inner


def parameters(function: Function) -> list[str]:
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [one.arg for one in (given.vararg, given.kwarg) if one is not None]
    return [name for name in names if name not in ("self", "cls") and not name.startswith("_")]


def complaints(name: str, function: Function) -> list[str]:
    text = ast.get_docstring(function) or ""
    names = parameters(function)
    if len(names) < 2 or any(ast.unparse(one).endswith("overload") for one in function.decorator_list):
        return []
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", text, re.MULTILINE)
    if section is None:
        return [f"{name}: no Args section"]
    documented = set(re.findall(r"\w+", " ".join(re.findall(r"^ {4}([*\w, ]+?)(?: \([^)]*\))?:", section[1], re.M))))
    missing = [f"{name}: {one} is not documented" for one in names if one not in documented]
    returns = ast.unparse(function.returns) if function.returns is not None else "None"
    is_property = any("property" in ast.unparse(one) for one in function.decorator_list)
    gives = returns not in ("None", "NoReturn") and not is_property
    if gives and not re.search(r"^(Returns|Yields):", text, re.MULTILINE):
        missing.append(f"{name}: no Returns section")
    return missing


# One test for all files: a thousand tests of a millisecond take ten times as long as their work.


@pytest.mark.slow
def test_public_functions_document_every_argument():
    assert not [
        f"{path.relative_to(PACKAGE)}: {line}"
        for path in MODULES
        for name, function in public_functions(ast.parse(path.read_text(encoding="utf-8")))
        for line in complaints(name, function)
    ]


def test_the_check_of_docstrings_can_fail():
    code = 'def f(a: int, b: int) -> int:\n    """Add.\n\n    Args:\n        a: first.\n    """\n    return a + b\n'
    (name, function), *_ = public_functions(ast.parse(code))
    assert complaints(name, function) == ["f: b is not documented", "f: no Returns section"]


@pytest.mark.slow
def test_plain_english():
    found = []
    for path in (*SOURCES, *PAGES):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8").lower()
        if name not in EXEMPT:
            found += [
                f"{name}:{text.count(chr(10), 0, one.start()) + 1}: {one[0]!r}" for one in BANNED_PHRASE.finditer(text)
            ]
    assert not found


def test_the_check_of_phrases_can_fail():
    text = "A Picture, one row an image and the truth; ground truth, pictured, ground_truths, demented".lower()
    assert [one[0] for one in BANNED_PHRASE.finditer(text)] == ["picture", "one row an image", "truth"]


def long_lines(page: str, longest: int) -> list[int]:
    """Numbers of the lines of a page that could be broken and are longer; those of code and tables may have 120."""
    found, is_code = [], False
    for number, line in enumerate(page.splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        can_be_broken = UNBREAKABLE.sub("", line).strip() and not line.startswith("|")
        if can_be_broken and len(line) > (LONGEST_LINE if is_code else longest):
            found.append(number)
    return found


def test_lines_of_pages_are_short():
    assert not [
        f"{page.relative_to(ROOT)}:{number}"
        for page in PAGES
        for number in long_lines(
            page.read_text(encoding="utf-8"),
            LONGEST_OF_DOCUMENTS if page.is_relative_to(ROOT / "docs") else LONGEST_LINE,
        )
    ]


def test_the_check_of_lines_can_fail():
    word = "word " * 25
    page = f"{word}\n```\n{'a' * 121}\n{'a' * 110}\n```\n`{word}`\n| {word} |\n{'a ' * 50}"
    assert long_lines(page, 100) == [1, 3]


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_the_repository_stays_small():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert sum(path.stat().st_size for path in files if path.is_file()) < MOST_BYTES
