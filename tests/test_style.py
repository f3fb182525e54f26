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
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted(PACKAGE.rglob("*.md"))]
SOURCES = [path for folder in ("src", "tests", "benchmarks", "tools") for path in sorted((ROOT / folder).rglob("*.py"))]

LONGEST_LINE = 120
LONGEST_OF_DOCUMENTS = 100  # of lines of text in docs/
# Code, images, links and formulas of one line.
UNBREAKABLE = re.compile(r"`[^`]*`|!?\[[^\]]*\]\([^)]*\)|\$\$.*\$\$")
MOST_BYTES = 48_000_000

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
# Words for missing values and callers; the code `is None` has a capital. Not checked in tests.
BANNED_WORD = re.compile(r"(?<!there )\b(?:is|are)\s+none\b|\b(?i:whoever|somebody|nobody)\b")
# These spell out what is banned, or read a file whose keys are given.
EXEMPT = {"tests/test_style.py", "tests/metrics/test_parity.py"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef

# What users see: in the code of a page (those of the lab are for developers), or in the reference.
IMPORT = re.compile(r"^(?:>>> )?from (treeformer[\w.]*) import ([\w, ]+)$", re.MULTILINE)
REFERENCE = re.compile(r"^\.\. auto(?:class|function):: (treeformer[\w.]*)\.(\w+)$", re.MULTILINE)
SECTION = re.compile(r"^ *(?:Args|Returns|Yields|Raises):$", re.MULTILINE)
OUTSIDE = "sections outside of the API"


def module_file(module: str) -> Path:
    path = PACKAGE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def imports(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """(module, name there) of each name that a module imports from the package."""
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def exported(tree: ast.Module) -> list[str]:
    """`__all__` of a module."""
    assigned = (node for node in tree.body if isinstance(node, ast.Assign))
    lists = [ast.literal_eval(node.value) for node in assigned if ast.unparse(node.targets[0]) == "__all__"]
    return [name for names in lists for name in names]


def api() -> set[tuple[Path, str]]:
    """(file, name) of each definition that an `__init__.py` exports, the reference documents or a page imports."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("__init__.py")}
    names = [(path, name) for path, tree in trees.items() for name in exported(tree)]
    for page in PAGES:
        text = "" if "lab" in page.parts else page.read_text(encoding="utf-8")
        names += [(module_file(module), name) for module, name in REFERENCE.findall(text)]
        names += [(module_file(module), name) for module, given in IMPORT.findall(text) for name in given.split(", ")]
    found = set()
    for path, name in names:
        while path in trees and (source := imports(trees[path]).get(name)) and module_file(source[0]) != path:
            path, name = module_file(source[0]), source[1]
        found.add((path, name))
    return found


def definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """(qualified name, definition) of all functions and classes of a module, also inside of others."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Definition):
            yield prefix + node.name, node
        yield from definitions(node, f"{prefix}{node.name}." if isinstance(node, Definition) else prefix)


def is_public(name: str, exported: set[str]) -> bool:
    """True for what a module exports, and for the public methods of classes that it exports."""
    first, *rest = name.split(".")
    return first in exported and len(rest) < 2 and not any(one.startswith("_") and one != "__call__" for one in rest)


def parameters(function: Function) -> list[str]:
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [one.arg for one in (given.vararg, given.kwarg) if one is not None]
    return [name for name in names if name not in ("self", "cls") and not name.startswith("_")]


def missing(name: str, function: Function) -> list[str]:
    """What the docstring of a function of the API does not document."""
    text = ast.get_docstring(function) or ""
    names = parameters(function)
    if len(names) < 2 or any(ast.unparse(one).endswith("overload") for one in function.decorator_list):
        return []
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", text, re.MULTILINE)
    if section is None:
        return [f"{name}: no Args section"]
    documented = set(re.findall(r"\w+", " ".join(re.findall(r"^ {4}([*\w, ]+?)(?: \([^)]*\))?:", section[1], re.M))))
    found = [f"{name}: {one} is not documented" for one in names if one not in documented]
    returns = ast.unparse(function.returns) if function.returns is not None else "None"
    is_property = any("property" in ast.unparse(one) for one in function.decorator_list)
    gives = returns not in ("None", "NoReturn") and not is_property
    if gives and not re.search(r"^(Returns|Yields):", text, re.MULTILINE):
        found.append(f"{name}: no Returns section")
    return found


def complaints(tree: ast.Module, exported: set[str]) -> list[str]:
    """What the docstrings of a module lack inside of the API and have too much outside of it."""
    found = []
    for name, node in definitions(tree):
        if not is_public(name, exported):
            found += [f"{name}: {OUTSIDE}"] if SECTION.search(ast.get_docstring(node) or "") else []
        elif isinstance(node, Function):
            found += missing(name, node)
    return found


def undocumented_fields(tree: ast.Module) -> list[str]:
    """Fields of configurations without a text below them."""
    return [
        f"{name}.{ast.unparse(field.target)}: no text below the field"
        for name, node in definitions(tree)
        if isinstance(node, ast.ClassDef) and name.endswith("Config")
        for field, below in zip(node.body, [*node.body[1:], None], strict=True)
        if isinstance(field, ast.AnnAssign)
        and not (isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant))
    ]


# One test for all files: a thousand tests of a millisecond take ten times as long as their work.


@pytest.mark.slow
def test_docstrings_have_sections_in_the_api_only():
    names = api()
    found = []
    for path in (*sorted(PACKAGE.rglob("*.py")), *sorted((ROOT / "tools").rglob("*.py"))):
        where, tree = path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))
        lines = complaints(tree, {name for file, name in names if file == path})
        found += [f"{where}: {line}" for line in (*lines, *undocumented_fields(tree))]
    assert not found


def test_the_check_of_docstrings_can_fail():
    docstring = '"""Add.\n\n{0}    Args:\n{0}        a: first.\n{0}"""'
    method = f"    def {{}}(self, a: int, b: int) -> int:\n        {docstring.format('    ')}\n        return a + b\n"
    code = f"def f(a: int, b: int) -> int:\n    {docstring.format('')}\n    return a + b\n"
    code += f"class C:\n{method.format('g')}{method.format('_h')}class RunConfig:\n    steps: int = 0\n"
    tree = ast.parse(code)
    lacks = ["b is not documented", "no Returns section"]
    assert complaints(tree, {"f"}) == [*(f"f: {one}" for one in lacks), *(f"C.{n}: {OUTSIDE}" for n in ("g", "_h"))]
    assert complaints(tree, {"C"}) == [f"f: {OUTSIDE}", *(f"C.g: {one}" for one in lacks), f"C._h: {OUTSIDE}"]
    assert undocumented_fields(tree) == ["RunConfig.steps: no text below the field"]


def test_the_api_is_found():
    names = api()
    for path, name in (("formats/__init__.py", "read"), ("skeleton/skeleton.py", "Skeleton")):
        assert (PACKAGE / path, name) in names  # the second is exported by two packages
    assert (PACKAGE / "training" / "config.py", "OptimizerConfig") in names
    assert not [(path, name) for path, name in names if not path.is_file()]


@pytest.mark.slow
def test_plain_english():
    found = []
    for path in (*SOURCES, *PAGES):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        if name not in EXEMPT:
            hits = [*BANNED_PHRASE.finditer(text.lower())]
            hits += [] if name.startswith("tests/") else BANNED_WORD.finditer(text)
            found += [f"{name}:{text.count(chr(10), 0, one.start()) + 1}: {one[0]!r}" for one in hits]
    assert not found


def test_the_check_of_phrases_can_fail():
    text = "A Picture, one row an image and the truth; ground truth, pictured, ground_truths, demented".lower()
    assert [one[0] for one in BANNED_PHRASE.finditer(text)] == ["picture", "one row an image", "truth"]
    text = "Whoever reads it, or nobody; if there is none, x is None, RequestError: if it is\nnone"
    assert [one[0] for one in BANNED_WORD.finditer(text)] == ["Whoever", "nobody", "is\nnone"]


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
