"""``tbd-trace collect --ranks``: all ranks of a distributed job."""

# The collectors and polars are imported when the command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tbd_trace.cli.output import busy, emit, failure
from tbd_trace.errors import UsageError

if TYPE_CHECKING:
    from tbd_collectors.collection_request import Command, Profiling, Workload


_MXNET_SCHEME = "dist_sync"


@dataclass(frozen=True, slots=True)
class RankOptions:
    """Options of the job."""

    ranks: int | None
    bandwidth: str | None
    latency: str | None
    scheme: str

    def check(self, *, memory: bool, framework: str | None, dry_run: bool) -> None:
        """Check the options; become root of a user namespace where the user is not root.

        Raises:
            UsageError: an option needs --ranks or excludes it, or the machine allows no namespaces.
        """
        from tbd_collectors.network_namespaces import enter_user_namespace, rates, seconds

        shaped = {"--bandwidth": self.bandwidth, "--latency": self.latency}
        if self.ranks is None:
            for option in (name for name, value in shaped.items() if value is not None):
                raise UsageError(f"{option} shapes the link between ranks; add --ranks N")
            if self.scheme != "ddp":
                raise UsageError("--scheme is how ranks exchange gradients; add --ranks N")
            return
        if memory:
            raise UsageError("--ranks records timelines; leave out --memory")
        self._check_scheme(framework or "pytorch")
        if self.bandwidth is None:
            if self.latency is not None:
                raise UsageError("--latency needs --bandwidth")
            return
        rates(self.bandwidth)
        seconds(self.latency or "0s")
        if not dry_run:
            enter_user_namespace()

    def _check_scheme(self, framework: str) -> None:
        is_mxnet = self.scheme == _MXNET_SCHEME
        if framework not in ("pytorch", "mxnet"):
            raise UsageError(
                f"--ranks runs the workloads of PyTorch and MXNet, not those of {framework}"
            )
        if is_mxnet and framework != "mxnet":
            raise UsageError(f"--scheme {_MXNET_SCHEME} is MXNet's; add --framework mxnet")
        if framework == "mxnet" and not is_mxnet:
            raise UsageError(f"--ranks with MXNet needs --scheme {_MXNET_SCHEME}")


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

    from tbd_collectors.collection_request import Command
    from tbd_collectors.job import JobRequest, collect_job, rows
    from tbd_collectors.network_namespaces import Link, rates, seconds

    if len(targets) > 1:
        raise UsageError("--ranks takes one model and batch size, or one command")
    (target,) = targets
    if options.scheme != "ddp" and isinstance(target, Command):
        raise UsageError("--scheme is for workloads; a command exchanges gradients itself")
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
        raise typer.Exit(result.exit_code)


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
