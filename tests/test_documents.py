"""Links, commands and code of the documents are right, every page is reachable, the map of the package is complete."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def links(page: Path) -> list[tuple[Path, str]]:
    """(file, anchor or "") of every link of a page within the repository."""
    parts = [link.partition("#") for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    return [((page.parent / name).resolve() if name else page, anchor) for name, _, anchor in parts]


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for file, anchor in links(page):
        assert file.exists(), f"{page.name} links to {file}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {file.name}#{anchor}"


def blocks(page: Path, *languages: str) -> list[str]:
    """The code blocks of a page in one of the languages."""
    found = re.findall(r"^```([^\n]*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [code for language, code in found if language.strip() in languages]


def commands(page: Path) -> list[list[str]]:
    """The words of every `treeformer` command in a block of a page, without comments."""
    found = []
    for code in blocks(page, "", "sh", "bash", "console"):
        for line in code.replace("\\\n", " ").splitlines():
            text = re.sub(r"^\$ ", "", line.strip())
            if re.match(r"treeformer [a-z]", text):
                words = shlex.split(text, comments=True)
                ends = [k for k, word in enumerate(words) if word in ("|", "&&", ";", ">", "2>", "&")]
                found.append(words[1 : min(ends, default=len(words))])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_exists(page):
    import typer.main

    from treeformer.cli import app
    from treeformer.training.command import parser

    known = {
        name: {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for name, command in typer.main.get_command(app).commands.items()
    }
    known["train"] |= set(parser("train")._option_string_actions)  # parsed there, so that it works without typer
    for name, *words in commands(page):
        assert name in known, f"{page.name}: treeformer {name}"
        options = known[name]
        given = {word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)}
        assert given <= options | {"--help", "-h"}, f"{page.name}: treeformer {name} {' '.join(given - options)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_code_of_a_page_parses(page):
    for code in blocks(page, "python", "{code-cell} ipython3", "{code-cell}"):
        if ">>> " in code:
            continue  # doctests run elsewhere
        plain = "\n".join(line for line in code.splitlines() if not line.startswith((":", "%", "!")))
        ast.parse(plain)


def test_commands_and_code_were_found():
    assert sum(len(commands(page)) for page in PAGES) > 50
    assert sum(len(blocks(page, "python", "{code-cell} ipython3", "{code-cell}")) for page in PAGES) > 20


def test_every_page_is_reached_from_the_readme():
    reached, pending = set(), [ROOT / "README.md"]
    while pending:
        page = pending.pop()
        if page not in reached and page in PAGES:
            reached.add(page)
            pending += [file for file, _ in links(page)]
    assert set(PAGES) == reached


def test_every_guide_ends_with_next_steps():
    guides = [
        (index.parent / f"{name}.md").resolve()
        for index in (ROOT / "docs" / "how-to" / "index.md", ROOT / "docs" / "tutorials" / "index.md")
        for name in index.read_text(encoding="utf-8").split(":hidden:\n")[1].split("```")[0].split()
    ]
    assert len(guides) > 15
    for guide in (ROOT / "docs" / "get-started.md", *guides):
        last = guide.read_text(encoding="utf-8").split("\n## ")[-1]
        assert last.startswith("Next steps\n"), guide.name
        assert len(LINK.findall(last)) >= 2, guide.name


def test_the_map_shows_every_part_of_the_package_and_no_other():
    layout = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[3]
    layout = layout.split("\nconfigs/")[0]
    shown = set(re.findall(r"^  (\w+(?:\.py|/))(?= )", layout, re.MULTILINE))
    package = [path for path in (ROOT / "src" / "treeformer").iterdir() if path.name != "__pycache__"]
    assert shown == {f"{path.name}/" if path.is_dir() else path.name for path in package} - {"py.typed"}


@pytest.mark.slow
def test_printed_results_are_those_of_the_shipped_model():
    """A few nodes and lengths depend on how a processor rounds."""
    import treeformer

    readme, page = (path.read_text(encoding="utf-8") for path in (ROOT / "README.md", ROOT / "docs" / "get-started.md"))
    skeleton = treeformer.predict(ROOT / "src" / "treeformer" / "examples" / "taproot.jpg")
    length = pytest.approx(skeleton.length, rel=0.02)
    assert int(re.search(r"<Skeleton: tree, (\d+) nodes", readme)[1]) == pytest.approx(len(skeleton), abs=2)
    assert float(re.search(r"^0 +([\d.]+)", readme, re.MULTILINE)[1]) == length
    assert float(re.search(r"taproot\.jpg \| 0 \| px \| ([\d.]+)", page)[1]) == length
