"""``tbd-trace env``: create, list and remove virtual environments for the frameworks."""

# polars and the collectors are imported when the command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tbd_trace.cli.options import FormatOption, OutputOption, WideOption
from tbd_trace.cli.output import busy, emit, failure, note
from tbd_trace.errors import TbdTraceError

if TYPE_CHECKING:
    from tbd_collectors.environments import Environment

env = typer.Typer(
    help="Create, list and remove environments for the frameworks.\n\n"
    "An environment is a directory with tested versions of one framework, numpy and nvtx; collect, "
    "models and doctor use it. Each framework has its own, because their requirements conflict. "
    "The default location is ~/.local/share/tbd-trace/envs; set TBD_TRACE_ENVS to use another. "
    "MXNet is retired: 1.9.1 of 2022 is its last release. CNTK cannot be installed on any current "
    "Python. Traces of both can still be read.",
    rich_markup_mode=None,
)
FrameworksArgument = Annotated[
    list[str], typer.Argument(metavar="FRAMEWORK", help="pytorch, tensorflow, mxnet, or all.")
]


@env.command()
def create(
    framework: FrameworksArgument,
    *,
    cpu: Annotated[
        bool | None,
        typer.Option(
            "--cpu/--gpu",
            help="Build of the framework. By default the one for GPUs if this machine has a GPU.",
            show_default=False,
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            "--python",
            metavar="PATH",
            help="Python for the environment. By default this one, or one on PATH for which the "
            "framework has wheels.",
            show_default=False,
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            metavar="DIR",
            help="Create DIR/FRAMEWORK; set TBD_TRACE_ENVS to DIR to use it.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing environment.")] = (
        False
    ),
    form: FormatOption = None,
    output: OutputOption = None,
    wide: WideOption = False,
) -> None:
    """Create the environment of a framework.

    Installs tested versions with venv and pip and imports them; an environment whose imports fail
    is not used. pip reads its usual configuration, such as PIP_INDEX_URL, PIP_FIND_LINKS and
    pip.conf. CPU builds are smaller: about 1 GB for PyTorch where the index has them, 1.6 GB for
    TensorFlow, 0.3 GB for MXNet.
    """
    from tbd_collectors import environments
    from tbd_trace.machine import inspection

    if cpu is None:
        cpu = inspection.gpus()[0].status != "ok"
    device = "cpu" if cpu else "cuda"
    made: list[Environment] = []
    errors: list[TbdTraceError] = []
    names = environments.frameworks(framework)
    for name in names:
        try:
            made.append(_create(name, device, into, python, force))
        except TbdTraceError as error:
            if len(names) == 1:
                raise
            failure(error)
            errors.append(error)
    if made:
        _show(made, form, output, wide=wide)
    if errors:
        raise typer.Exit(errors[0].exit_code)


def _create(
    name: str, device: str, into: Path | None, python: str | None, force: bool
) -> Environment:
    from tbd_collectors import environments
    from tbd_collectors.environment_making import create as create_one

    with busy(f"making the environment of {name}") as show:
        made = create_one(
            name,
            device,
            into=into,
            python=python,
            force=force,
            say=lambda text: typer.echo(f"{name}: {text}", err=True),
            on_line=show,
        )
    if not made.is_new:
        existing = made.environment
        built_for = existing.marker.get("device")
        kind = "" if built_for == device else f" for {built_for}"
        note(f"{existing.directory} exists{kind}; use --force to replace it")
    if into is not None and made.environment != environments.environment(name):
        # Without the variable, collect and models look in the default location only.
        note(f"to use it: export {environments.HOME_VARIABLE}={into.absolute()}")
    return made.environment


@env.command(name="list")
def list_environments(
    *, form: FormatOption = None, output: OutputOption = None, wide: WideOption = False
) -> None:
    """List the environments and their packages.

    The status is ok, half-made (creation was interrupted; create it again), broken (its Python was
    removed), or not made.
    """
    from tbd_collectors import environments

    with busy("looking around"):
        known = [environments.environment(name) for name in environments.recipes()]
        _show(known, form, output, wide=wide)


@env.command()
def remove(framework: FrameworksArgument) -> None:
    """Remove the environment of a framework."""
    from tbd_collectors import environments

    for name in environments.frameworks(framework):
        environment = environments.environment(name)
        if "all" in framework and environment.status == "not made":
            continue
        environments.remove(environment)
        note(f"removed {environment.directory}")


def _show(known: list[Environment], form: Any, output: Path | None, *, wide: bool) -> None:
    import polars as pl

    rows = [_row(environment) for environment in known]
    emit(pl.DataFrame(rows, infer_schema_length=None), form, output, limit=0, wide=wide)


def _row(environment: Environment) -> dict[str, str | None]:
    from tbd_trace.machine import inspection

    row: dict[str, str | None] = {"framework": environment.framework, "status": environment.status}
    row |= dict.fromkeys(("device", "python_version", "packages", "python"))
    if environment.status == "ok":
        versions = inspection.interpreter(environment.python)
        row["device"] = environment.marker.get("device")
        row["python_version"] = versions.pop("python")
        row["packages"] = ", ".join(f"{name} {version}" for name, version in versions.items())
        row["python"] = environment.python
    return row
