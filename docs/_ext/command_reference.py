"""Sphinx extension: `<!-- commands -->` in a page becomes a description of every command, made from the commands."""

from __future__ import annotations

import re
from typing import Any

import typer.main

MARK = "<!-- commands -->"
OPTION = re.compile(r"(?<![\w-])(--[a-z][\w-]*)")


def reference() -> str:
    """Return one section per command in Markdown: usage, help text, arguments and options."""
    from treeformer.cli import app

    commands: dict[str, Any] = getattr(typer.main.get_command(app), "commands")  # noqa: B009
    return "\n".join(line for name, command in commands.items() for line in describe(name, command))


def describe(name: str, command: Any) -> list[str]:
    """Describe one command.

    Args:
        name: Name of the command.
        command: The command, a `click.Command`.

    Returns:
        Lines of Markdown.
    """
    title = f"treeformer {name}"
    if name == "train":
        return describe_training(title)
    context = command.context_class(command, info_name=title)
    usage = " ".join(command.collect_usage_pieces(context))
    rows = [row for parameter in command.params if (row := parameter_row(parameter, context))]
    return [
        f"## {title}",
        "",
        *("```text", f"{title} {usage}", "```", ""),
        *help_lines(f"{command.help or ''}\n\n{command.epilog or ''}"),
        *(["| argument or option | meaning |", "| --- | --- |"] if rows else []),
        *(f"| {names} | {text} |" for names, text in rows),
        "",
    ]


def describe_training(title: str) -> list[str]:
    """Describe `treeformer train`, which has a parser of its own so that it works without typer.

    Args:
        title: The command, "treeformer train".

    Returns:
        Lines of Markdown.
    """
    from treeformer.training.command import parser

    arguments = parser(title)
    rows = []
    for action in arguments._actions:
        names = ", ".join(f"`{name}`" for name in action.option_strings or [action.metavar])
        rows.append(f"| {names} | {quote_options(action.help or '')} |")
    usage = " ".join(arguments.format_usage().removeprefix("usage: ").split())
    return [
        f"## {title}",
        "",
        *("```text", usage, "```", ""),
        *help_lines(f"{arguments.description}\n\n{arguments.epilog}"),
        *("| argument or option | meaning |", "| --- | --- |"),
        *rows,
        "",
    ]


def help_lines(text: str) -> list[str]:
    """Turn help text into Markdown. Paragraphs of commands become code blocks.

    Args:
        text: The help text of a command.

    Returns:
        Lines of Markdown.
    """
    lines: list[str] = []
    for line in re.sub(r"\[/?bold\]|\x08", "", text).splitlines():
        is_command = line.strip().startswith("treeformer ")
        line = line if is_command else quote_options(line)
        if is_command and lines[-1:] == ["```"]:
            lines[-1:] = [line.strip(), "```"]
        elif is_command:
            lines += ["", "```sh", line.strip(), "```"]
        elif line.strip():
            lines += ["", line.strip()] if lines[-1:] == ["```"] else [line.strip()]
        elif lines[-1:] not in ([], ["```"]):
            lines.append("")
    return [*lines, ""]


def parameter_row(parameter: Any, context: Any) -> tuple[str, str] | None:
    """Return the two cells of a parameter, None if it is hidden.

    Args:
        parameter: An argument or option, a `click.Parameter`.
        context: The context of its command.

    Returns:
        Its names and its meaning with the default value.
    """
    if getattr(parameter, "hidden", False):
        return None
    is_option = parameter.param_type_name == "option"
    names = [*parameter.opts, *parameter.secondary_opts] if is_option else [argument_name(parameter)]
    text = " ".join((getattr(parameter, "help", None) or "").split())
    default = parameter.get_default(context)
    if is_option and default not in (None, False, (), []) and not callable(default):
        text += f" Default: `{getattr(default, 'value', default)}`."
    text = quote_options(text).replace("|", "\\|").replace("*", "\\*")
    return ", ".join(f"`{name}`" for name in names), text


def quote_options(text: str) -> str:
    """Put the options in a help text in backquotes; otherwise Sphinx makes dashes of their hyphens."""
    outside_and_inside = text.split("`")
    outside_and_inside[::2] = [OPTION.sub(r"`\1`", part) for part in outside_and_inside[::2]]
    return "`".join(outside_and_inside)


def argument_name(parameter: Any) -> str:
    """Return the name of an argument as the usage line has it, without braces."""
    return str(parameter.metavar or parameter.name).strip("{}.")


def setup(app: Any) -> dict[str, bool]:
    """Replace the mark when a page is read.

    Args:
        app: The Sphinx application.

    Returns:
        What Sphinx wants to know about the extension.
    """

    def read(_app: Any, _name: str, source: list[str]) -> None:
        if MARK in source[0]:
            source[0] = source[0].replace(MARK, reference())

    app.connect("source-read", read)
    return {"parallel_read_safe": True}
