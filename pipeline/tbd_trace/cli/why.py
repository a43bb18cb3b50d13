"""``tbd-trace why`` and ``tbd-trace whatif``: causes of slow training, and gains of changes."""

# polars and duckdb are imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

import json
import shutil
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tbd_trace.cli.options import DEFAULT_DATABASE, DatabaseOption, OutputOption, TracesArgument
from tbd_trace.cli.output import busy, emit_text
from tbd_trace.cli.query import assigned, draw
from tbd_trace.errors import TbdTraceError, UsageError

if TYPE_CHECKING:
    from tbd_trace.api import Traces
    from tbd_trace.why.memory_result import MemoryVerdict
    from tbd_trace.why.result import Why


class WhyFormat(StrEnum):
    """Formats of the answers."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


WhyFormatOption = Annotated[
    WhyFormat,
    typer.Option("--format", metavar="FORM", help="table, json or markdown.", case_sensitive=False),
]


def why(
    traces: TracesArgument = None,
    *,
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=1, help="Show the N largest causes.")
    ] = 3,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Show all causes, kernels by kind, and the findings of rules behind them."
        ),
    ] = False,
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on",
            metavar="CAUSE:PERCENT",
            help="Exit with 1 if the share of CAUSE is at least PERCENT, such as "
            "input_pipeline:20.",
            show_default=False,
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set a parameter, such as assume_training=true; may be repeated.",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", metavar="FILE", help="Also draw a typical step: .svg, .png or .pdf."
        ),
    ] = None,
    form: WhyFormatOption = WhyFormat.TABLE,
    output: OutputOption = None,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Show why training is slow, what to change, and the gain.

    Divides the time of the steps among disjoint causes. Steps of the warm-up and steps that are not
    fully recorded are left out and counted. Gains are ranges: the trace is replayed without a
    cause.
    """
    limit = None if fail_on is None else _limit(fail_on)
    parameters = assigned(assignments or [])
    if plot is not None:
        from tbd_trace.present.plot import check_path

        check_path(plot)
    from tbd_trace.api import open_traces

    with busy("replaying"):
        opened = open_traces(*(traces or []), db=db)
        answer = opened.why(**parameters)
        findings = _findings(opened, answer) if everything else None
    match form:
        case WhyFormat.JSON:
            document = answer.to_dict()
            if findings is not None:
                _add(findings, document)
            emit_text(_json(document), output)
        case WhyFormat.MARKDOWN:
            emit_text(answer.markdown(everything=everything), output)
        case WhyFormat.TABLE:
            shown = answer.text(
                top,
                everything=everything,
                width=_width(),
                files=[*map(str, traces or [])],
                commands=_commands(answer),
            )
            emit_text(shown + _listed(findings or {}), output)
    if plot is not None:
        _draw(opened, answer, parameters, plot)
    if limit is not None:
        _check(answer, *limit)


def _commands(answer: Why | MemoryVerdict) -> list[str]:
    # The first change can be measured if it needs no edit of a PyTorch program.
    from tbd_models.trial.changes import of_whatif

    first = answer.slowest.try_first
    if first is None or first.unit != "ns" or "torch.profiler" not in answer.slowest.about:
        return []
    change = of_whatif(first.change)
    return [f"tbd-trace try --change {change} -- COMMAND"] if change else []


def _findings(opened: Traces, answer: Why | MemoryVerdict) -> dict[str, list[dict[str, Any]]]:
    # Checks import polars, which takes 0.3 s.
    from tbd_trace.analysis.checks.behind_causes import findings_behind

    return findings_behind(opened, answer.slowest)


def _width() -> int:
    # That of the terminal within limits; 80 if the output is redirected.
    from tbd_trace.why.layout import MOST_WIDTH, WIDTH

    return min(max(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH), MOST_WIDTH)


def _draw(
    opened: Traces, answer: Why | MemoryVerdict, parameters: dict[str, str], path: Path
) -> None:
    from tbd_trace.why.diagnosis import Diagnosis
    from tbd_trace.why.result import rows_of_process

    slowest = answer.slowest
    traces = replace(opened, trace_ids=[slowest.trace_id])
    if not isinstance(slowest, Diagnosis):
        draw(traces, traces.run("memory_timeline"), path)
        return
    result = traces.run("step_timeline", **parameters)
    draw(traces, replace(result, frame=rows_of_process(result.frame, slowest)), path)


def _add(findings: dict[str, list[dict[str, Any]]], document: dict[str, Any]) -> None:
    # Rules about memory are about all classes together.
    if document.get("verdict") == "memory":
        document["findings"] = _named(findings.get("memory", []))
        return
    for cause in document["causes"]:
        cause["findings"] = _named(findings.get(cause["cause"], []))


def _named(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: row[key] for key in ("rule", "severity", "reason")} for row in rows]


def _listed(findings: dict[str, list[dict[str, Any]]]) -> str:
    from tbd_trace.why.cause_names import causes_by_name
    from tbd_trace.why.layout import labelled

    titles = {cause: row["title"] for cause, row in causes_by_name().items()}
    causes: dict[tuple[str, str], dict[str, None]] = {}  # of each finding, without repetition
    for cause, rows in findings.items():
        name = "GPU kernels" if cause.startswith("gpu_") else titles.get(cause, cause)
        for row in rows:
            causes.setdefault((row["rule"], row["reason"]), {})[name] = None
    lines = [f"{rule} ({', '.join(some)}): {reason}" for (rule, reason), some in causes.items()]
    return "".join(f"{line}\n" for line in labelled("Rules", lines, width=_width()))


def _limit(text: str) -> tuple[str, float]:
    from tbd_trace.why.cause_names import cause_names
    from tbd_trace.why.memory_words import CLASSES

    cause, _, percent = text.partition(":")
    names = [*cause_names(), *CLASSES]
    if cause not in names:
        raise UsageError(f"--fail-on {text}: unknown cause; use one of {', '.join(names)}")
    try:
        return cause, float(percent.removesuffix("%"))
    except ValueError:
        raise UsageError(f"--fail-on {text}: expected CAUSE:PERCENT") from None


def _check(answer: Why | MemoryVerdict, name: str, limit: float) -> None:
    for diagnosis in answer.diagnoses:
        for cause in diagnosis.causes:
            if cause.cause == name and cause.share_pct >= limit:
                raise TbdTraceError(
                    f"why: {cause.title} takes {cause.share_pct:.1f} % of {answer.whole} of "
                    f"{diagnosis.trace}; --fail-on allows {limit:g} %"
                )


def whatif(
    traces: TracesArgument = None,
    *,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--change",
            metavar="NAME[=ARG]",
            help="A change of --list; several are applied together.",
            show_default=False,
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the changes.")] = False,
    form: WhyFormatOption = WhyFormat.TABLE,
    output: OutputOption = None,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Predict the time of a step after changes, by a replay."""
    from tbd_trace.why.changes import CHANGES

    if list_:
        width = max(map(len, CHANGES))
        emit_text("".join(f"{name:{width}}  {text}\n" for name, text in CHANGES.items()), output)
        return
    if not change:
        raise UsageError("name a change: --change NAME; `tbd-trace whatif --list` lists them")
    from tbd_trace.api import open_traces

    with busy("replaying"):
        result = open_traces(*(traces or []), db=db).whatif(*change)
    if form is WhyFormat.JSON:
        emit_text(_json(result.to_dict()), output)
        return
    from tbd_trace.why.screen import prediction

    emit_text(prediction(result), output)


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
