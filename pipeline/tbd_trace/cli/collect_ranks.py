"""``tbd-trace collect --ranks``: all ranks of a distributed job."""

# The collectors and polars are imported when the command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tbd_trace.cli.output import busy, emit, failure, note
from tbd_trace.errors import UsageError

if TYPE_CHECKING:
    from tbd_collectors.collection_request import Command, Profiling, Workload


_SCHEMES = {  # by framework, the usual one first
    "pytorch": ("ddp", "fsdp", "ps", "p3"),
    "tensorflow": ("serial",),
    "mxnet": ("dist_sync",),
}


@dataclass(frozen=True, slots=True)
class RankOptions:
    """Options of the job."""

    ranks: int | None
    bandwidth: str | None
    latency: str | None
    scheme: str | None  # None for the usual one of the framework

    def check(self, *, memory: bool, dry_run: bool) -> None:
        """Check the options; become root of a user namespace where the user is not root.

        Raises:
            UsageError: an option needs --ranks or excludes it, or the machine allows no namespaces.
        """
        from tbd_collectors.network_namespaces import enter_user_namespace, rates, seconds

        shaped = {"--bandwidth": self.bandwidth, "--latency": self.latency}
        if self.ranks is None:
            for option in (name for name, value in shaped.items() if value is not None):
                raise UsageError(f"{option} shapes the link between ranks; add --ranks N")
            if self.scheme is not None:
                raise UsageError("--scheme is how ranks exchange gradients; add --ranks N")
            return
        if memory:
            raise UsageError("--ranks records timelines; leave out --memory")
        if self.bandwidth is None:
            if self.latency is not None:
                raise UsageError("--latency needs --bandwidth")
            return
        rates(self.bandwidth)
        seconds(self.latency or "0s")
        if not dry_run:
            enter_user_namespace()

    def with_schemes(self, targets: list[Workload | Command]) -> list[Workload | Command]:
        """Return the targets with the scheme by which their ranks exchange gradients.

        Raises:
            UsageError: the framework lacks the scheme, or a command was given one.
        """
        return targets if self.ranks is None else [self._with_scheme(t) for t in targets]

    def _with_scheme(self, target: Workload | Command) -> Workload | Command:
        from tbd_collectors.collection_request import Command

        if isinstance(target, Command):
            if self.scheme is not None:
                raise UsageError("--scheme is for workloads; a command exchanges gradients itself")
            return target
        known = _SCHEMES[target.framework]
        scheme = self.scheme or known[0]
        if scheme not in known:
            raise UsageError(
                f"--scheme {scheme} is not one of {target.framework}; use {', '.join(known)}"
            )
        return replace(target, scheme=scheme)


def layer_list(path: Path, words: Sequence[str]) -> list[str]:
    """Return the words for the model of --layers; raise UsageError for another file."""
    from tbd_models.definition import UnsupportedError
    from tbd_models.layer_list import MODEL, read_layers

    if words:
        raise UsageError("--layers stands in for a model; name only one of them")
    try:
        read_layers(path)
    except UnsupportedError as error:
        raise UsageError(str(error)) from None
    return [MODEL.name]


def collect_ranks(
    targets: Sequence[Workload | Command],
    profiling: Profiling,
    options: RankOptions,
    capture: Path,
    form: Any,
    *,
    force: bool,
    wide: bool,
) -> None:
    """Collect a job and print a row for each link rate."""
    import polars as pl

    from tbd_collectors.job import JobRequest, collect_job, rows
    from tbd_collectors.network_namespaces import Link, rates, seconds

    if len(targets) > 1:
        raise UsageError("--ranks takes one model and batch size, or one command")
    (target,) = targets
    if profiling.timeline == "nvprof":
        raise UsageError("nvprof records no ranks; use --profiler nsys or torch")
    assert options.ranks is not None
    delay = seconds(options.latency or "0s")
    links = [Link(rate, delay) for rate in rates(options.bandwidth)] if options.bandwidth else []
    request = JobRequest(target, profiling, options.ranks, links, _python(target))

    def say(text: str) -> None:
        typer.echo(f"{capture}: {text}", err=True)

    with busy(f"collecting {capture}") as show:
        result = collect_job(request, capture, force=force, say=say, on_line=show)
    emit(pl.DataFrame(rows(result), infer_schema_length=None), form, limit=0, wide=wide)
    if result.status != "ok":
        failure(f"{capture}: {result.reason}")
        _explain_hang(capture, options.ranks)
        raise typer.Exit(result.exit_code)


def _explain_hang(capture: Path, ranks: int) -> None:
    # Ranks that reach the time limit have dumped their collectives.
    from tbd_trace.analysis.hang.answer import explain_hang
    from tbd_trace.analysis.hang.screen import hang_text

    if any(capture.rglob("dump_*")):
        answer, _, _ = explain_hang(capture, ranks)
        typer.echo(hang_text(answer), err=True)
        note(f"next: tbd-trace hang {capture}")


def _python(target: Workload | Command) -> str | None:
    # That of a command is unknown, other frameworks lack PyTorch, and the link is the same.
    from tbd_collectors import environments
    from tbd_collectors.collection_request import Workload

    if isinstance(target, Workload) and target.framework == "pytorch":
        return target.python
    try:
        return environments.interpreter("pytorch")
    except UsageError:
        return None
