"""Describe an Nsight Systems recording: versions, start time, warnings, missing data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tbd_trace import resources
from tbd_trace.sources.base import Ask, TraceDescription
from tbd_trace.sources.nsys.columns import GPU_OPERATIONS
from tbd_trace.sources.nsys.tables import NsysTables

_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
_GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_ALLOCATIONS = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_ONLY_MEMORY = "no GPU activity was recorded, only allocations of memory"
_WARNING = 2  # DIAGNOSTIC_EVENT.severity; 3 is an error
_ABOUT_RECORDING = re.compile(r"\bcuda|cupti|nvtx|not all os runtime|dropp|\blost\b|overflow", re.I)
_ROUTINE = re.compile(r"^No \w+.* events collected|might have not been started correctly", re.I)
_INSTALLATION = re.compile(r"(?i)nsight[-_ ]?systems(?:-cli)?[-_ /\\]+(\d{4}\.\d+(?:\.\d+)*)")
_MOST_PIDS = 8  # in a note
_LONGEST = 200  # characters of a warning
_UNLAUNCHED = 3  # column index in the result of `launch_lag`
_EXPORT_FACTS = (
    "EXPORT_PRODUCT_VERSION",
    "EXPORT_SCHEMA_VERSION",
    "EXPORT_PARAM_TIME_NORMALIZE",
    "EXPORT_PARAM_TIME_SHIFT",
    "EXPORT_PARAM_TIMES_TO_EXPORT",
    "EXPORT_PARAM_TABLES_TO_EXPORT",
    "DERIVED_WINDOW_NS",
)


def describe(tables: NsysTables, ask: Ask | None = None) -> TraceDescription:
    """Return the versions, start time and notes of a recording.

    Args:
        ask: runs a SELECT on the canonical tables; None omits the notes about events.

    Raises:
        InputError: the file is damaged.
    """
    export = _export_facts(tables)
    return TraceDescription(
        tool="nsys",
        kind="timeline",
        tool_version=_capture_version(tables),
        export_version=export.get("EXPORT_PRODUCT_VERSION"),
        schema_version=export.get("EXPORT_SCHEMA_VERSION"),
        utc_start_ns=_utc_start(tables, export),
        notes=[
            *(_content_notes(tables, ask) if ask is not None else ()),
            *_export_notes(export),
            *_warnings(tables),
        ],
    )


def _export_facts(tables: NsysTables) -> dict[str, str]:
    # Versions and options only: other rows contain paths.
    rows = tables.rows(
        f"""
        SELECT name, value FROM (
            SELECT name, value FROM {{EXPORT_META_DATA}}
            UNION ALL SELECT name, value FROM {{META_DATA_EXPORT}}
        )
        WHERE name IN {_EXPORT_FACTS}
        """
    )
    return {str(name): str(value) for name, value in rows if value}


def _capture_version(tables: NsysTables) -> str | None:
    # No field contains the version at capture time, but the recorder logs the path of CUPTI, which
    # includes the version of the installation.
    loaded = tables.rows(
        "SELECT DISTINCT text FROM {DIAGNOSTIC_EVENT} WHERE text LIKE 'Loaded CUPTI library%'"
    )
    versions = {match[1] for (text,) in loaded if (match := _INSTALLATION.search(str(text)))}
    return versions.pop() if len(versions) == 1 else None


def _utc_start(tables: NsysTables, export: dict[str, str]) -> int | None:
    # `nsys export` has options that shift the times (--ts-shift) or make them UTC
    # (--ts-normalize).
    shift = _integer(export.get("EXPORT_PARAM_TIME_SHIFT")) or 0
    if export.get("EXPORT_PARAM_TIME_NORMALIZE") == "true":
        return -shift
    rows = tables.rows("SELECT utcEpochNs FROM {TARGET_INFO_SESSION_START_TIME}")
    started = _integer(rows[0][0]) if rows else None
    return None if started is None else started - shift


def _integer(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None


def _content_notes(tables: NsysTables, ask: Ask) -> Iterator[str]:
    if not tables.holds(*GPU_OPERATIONS):
        yield _no_gpu_work(tables)
    elif not tables.holds(_KERNEL, _GRAPH):
        yield "no kernel was recorded, only copies or fills of memory"
    elif not tables.holds(_RUNTIME):
        yield "no CUDA API calls were recorded: GPU work cannot be tied to host threads"
    elif orphans := sum(row[_UNLAUNCHED] for row in ask(launch_lag())):
        yield (
            f"{orphans} kernels have no launching call in the trace (a slice of a longer "
            "recording, or dropped events): they cannot be tied to host threads"
        )
    if graphs := _count(tables, _GRAPH):
        yield (
            f"{graphs} CUDA graph launches were traced as a whole: the kernels inside are not "
            "recorded; profile with --cuda-graph-trace=node to see them"
        )
    processes = _gpu_processes(tables)
    if len(processes) > 1:
        more = f" and {len(processes) - _MOST_PIDS} more" if len(processes) > _MOST_PIDS else ""
        numbers = ", ".join(map(str, processes[:_MOST_PIDS])) + more
        yield f"{len(processes)} processes used GPUs (pid {numbers})"


def launch_lag() -> str:
    """Return the SELECT on canonical tables that counts kernels without a launching call."""
    sql = resources.queries() / "ingest" / "audit" / "launch_lag.sql"
    return sql.read_text(encoding="utf-8")


def _gpu_processes(tables: NsysTables) -> list[int]:
    # Bits 24 to 47 of a global id are the process id.
    global_ids = {
        process for table in GPU_OPERATIONS for process, *_ in tables.survey.stats(table).keys
    }
    return sorted(
        {(global_id >> 24) & 16777215 for global_id in global_ids if global_id is not None}
    )


def _no_gpu_work(tables: NsysTables) -> str:
    if unknown := tables.unknown_gpu_work():
        return (
            f"GPU work may be in tables unknown to tbd-trace ({', '.join(unknown)}): "
            "update tbd-trace, or export the report with another nsys"
        )
    if tables.holds(_ALLOCATIONS):
        return _ONLY_MEMORY
    if tables.holds(_RUNTIME):
        return (
            "CUDA calls were recorded but no GPU activity: the program launched nothing while "
            "profiled, or the profiler could not record it (driver or permissions)"
        )
    traced = tables.rows("SELECT value FROM {META_DATA_CAPTURE} WHERE name = 'CAPTURE_EVENT_TYPE'")
    if traced and ("Cuda",) not in traced:
        return "CUDA was not traced: profile with --trace=cuda,nvtx"
    return (
        "no CUDA activity was recorded: the program used no GPU while profiled, or CUDA was not "
        "traced (profile with --trace=cuda,nvtx)"
    )


def _count(tables: NsysTables, table: str) -> int:
    return int(tables.rows(f"SELECT count(*) FROM {{{table}}}")[0][0])


def _export_notes(export: dict[str, str]) -> Iterator[str]:
    # An export can contain only a part of the recording.
    if window := export.get("DERIVED_WINDOW_NS"):
        yield f"the file is a slice that another tool cut from a recording ({window} ns)"
    if times := export.get("EXPORT_PARAM_TIMES_TO_EXPORT"):
        yield f"only a part of the recording was exported (times {times})"
    if names := export.get("EXPORT_PARAM_TABLES_TO_EXPORT"):
        yield f"only some tables were exported ({names})"


def _warnings(tables: NsysTables) -> Iterator[str]:
    diagnostics = tables.rows(
        "SELECT DISTINCT text, (globalPid >> 24) & 16777215 FROM {DIAGNOSTIC_EVENT} "
        f"WHERE severity >= {_WARNING} AND severity <= 3 ORDER BY text"
    )
    # Only if needed, because finding the processes can require reading whole tables.
    profiled = set(_gpu_processes(tables)) if diagnostics else set()
    # Each warning belongs to a process; processes without GPU work produce routine warnings.
    for text in dict.fromkeys(
        str(text)
        for text, process in diagnostics
        if not profiled or process in profiled | {0, None}
    ):
        line = " ".join(text.split())
        if _ABOUT_RECORDING.search(line) and not (profiled and _ROUTINE.search(line)):
            yield f"nsys: {line[:_LONGEST]}"


def incomplete_tables(tables: NsysTables, names: Iterable[str]) -> Iterator[str]:
    """Yield a note for each table without a column for the times of its events."""
    for name in names:
        if (columns := tables.missing_times(name)) and tables.holds(name):
            yield f"{name} has no column {' and no column '.join(columns)}: its rows are incomplete"
