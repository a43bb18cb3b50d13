"""Render the page of commands and options, from the command line."""

from __future__ import annotations

from typing import Any

import typer.main

from reference_pages.markdown import plain, table
from tbd_trace.cli.main import app


def cli_page() -> str:
    """Return the page of the command line."""
    root: Any = typer.main.get_command(app)
    lines = ["# Command line", "", root.help, "", root.epilog, ""]
    lines += ["## tbd-trace", "", *command_section("tbd-trace", root, "COMMAND [ARGS]...")]
    for name in root.list_commands(None):
        lines += ["", *command_sections(f"tbd-trace {name}", root.commands[name])]
    return "\n".join(lines) + "\n"


def command_sections(name: str, command: Any) -> list[str]:
    """Return the section of a command and of its subcommands."""
    below = getattr(command, "commands", {})
    if not below:
        return [f"## {name}", "", *command_section(name, command)]
    lines = [f"## {name}", "", *paragraphs(command.help), ""]
    lines += command_section(name, command, "COMMAND [ARGS]...")
    for subname, subcommand in below.items():
        lines += ["", *command_sections(f"{name} {subname}", subcommand)]
    return lines


def command_section(name: str, command: Any, rest: str = "") -> list[str]:
    """Return usage, description, arguments and options of one command."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    usage = " ".join(filter(None, [name, "[OPTIONS]", *map(argument_usage, arguments), rest]))
    lines = ["```", usage, "```"]
    if not rest:
        lines += ["", *paragraphs(command.help)]
    if arguments:
        rows = [[f"`{argument.metavar}`", plain(argument.help)] for argument in arguments]
        lines += ["", *table(["argument", "meaning"], rows)]
    rows = [
        [option_names(option), option_default(option), plain(option.help)] for option in options
    ]
    if "--help" not in {name for option in options for name in option.opts}:
        rows.append(["`--help`", "", "Show this message and exit."])
    return [*lines, "", *table(["option", "default", "meaning"], rows)]


def argument_usage(argument: Any) -> str:
    """Return an argument in the notation of a usage line."""
    name = argument.metavar if argument.required else f"[{argument.metavar}]"
    return f"{name}..." if argument.nargs == -1 else name


def option_names(option: Any) -> str:
    """Return the names of an option, the short one first, and its value."""
    names = ", ".join([*sorted(option.opts, key=len), *option.secondary_opts])
    return f"`{names} {option.metavar}`" if option.metavar else f"`{names}`"


def option_default(option: Any) -> str:
    """Return an option's default unless it is empty."""
    shown = option.show_default and option.default not in (None, False, ())
    return f"`{option.default}`" if shown and not callable(option.default) else ""


def paragraphs(text: str) -> list[str]:
    """Return a docstring's text with each paragraph on one line."""
    parts = [" ".join(part.split()) for part in text.strip().split("\n\n")]
    return "\n\n".join(parts).split("\n")
