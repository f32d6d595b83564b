"""The help of the verbs that are built with typer, as plain text.

Typer's own help reads texts as markup, which takes asterisks away, and shows Python's types. This one prints what
the declarations say, in the manner of `oncelog help` and of argparse, which the other verbs use.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_WIDTH_MAX = 100
_NAMES_WIDTH_MAX = 34


class App(typer.Typer):
    """A Typer whose commands have the help of this module."""

    def __init__(self, help: str) -> None:
        super().__init__(
            cls=_Group,
            help=help,
            add_completion=False,
            rich_markup_mode=None,
            context_settings={"help_option_names": ["-h", "--help"]},
        )

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        return super().command(name, cls=_Command, **options)


class _Command(TyperCommand):
    def get_help(self, ctx: Any) -> str:
        parameters: list[Any] = list(self.get_params(ctx))
        arguments = [each for each in parameters if each.param_type_name == "argument"]
        options = [each for each in parameters if each.param_type_name == "option"]
        usage = " ".join([ctx.command_path, *map(_argument_usage, arguments), "[OPTIONS]"])
        described = [(_argument_name(each), each.help) for each in arguments if each.help]
        return _join(
            f"Usage: {usage}",
            *_paragraphs(self.help or ""),
            _section("Arguments", described),
            _section("Options", [(_option_names(each), _option_help(each)) for each in options]),
        )


class _Group(TyperGroup):
    def get_help(self, ctx: Any) -> str:
        commands: list[tuple[str, Any]] = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return _join(
            f"Usage: {ctx.command_path} COMMAND [OPTIONS]",
            *_paragraphs(self.help or ""),
            _section("Commands", [(name, _paragraphs(command.help)[0]) for name, command in commands]),
            f"{ctx.command_path} COMMAND --help shows the options of a command.",
        )


def _join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _argument_name(argument: Any) -> str:
    return f"{argument.metavar}..." if argument.nargs < 0 else str(argument.metavar)


def _argument_usage(argument: Any) -> str:
    name = _argument_name(argument)
    return name if argument.required else f"[{name}]"


def _option_names(option: Any) -> str:
    names = [*sorted(option.opts, key=len), *option.secondary_opts]
    shown = ", ".join(names)
    return shown if option.is_flag else f"{shown} {option.metavar}"


def _option_help(option: Any) -> str:
    default = getattr(option.default, "value", option.default)
    notes = []
    if not option.is_flag and default not in (None, ()):
        notes.append(f"default: {default}")
    if option.envvar:
        notes.append(f"environment: {option.envvar}")
    return f"{option.help} ({', '.join(notes)})" if notes else str(option.help)


def _paragraphs(text: str) -> list[str]:
    """Lines of a paragraph are filled anew, unless one of them is indented, as examples are."""
    paragraphs = text.strip().split("\n\n")
    return [
        paragraph if "\n " in paragraph else textwrap.fill(" ".join(paragraph.split()), _width())
        for paragraph in paragraphs
    ]


def _section(title: str, rows: Iterable[tuple[str, str]]) -> str:
    found = list(rows)
    if not found:
        return ""
    names_width = min(_NAMES_WIDTH_MAX, max(len(names) for names, _ in found))
    indent = " " * (names_width + 4)
    lines = [f"{title}:"]
    for names, help_text in found:
        filled = textwrap.wrap(" ".join(help_text.split()), max(20, _width() - len(indent)))
        if len(names) > names_width:
            lines += [f"  {names}", *(indent + line for line in filled)]
        else:
            first, *rest = filled or [""]
            lines += [f"  {names:<{names_width}}  {first}".rstrip(), *(indent + line for line in rest)]
    return "\n".join(lines)


def _width() -> int:
    return min(_WIDTH_MAX, shutil.get_terminal_size().columns)
