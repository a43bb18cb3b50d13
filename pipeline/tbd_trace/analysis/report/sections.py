"""Build the sections of a report from queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import polars as pl

from tbd_trace.analysis.report.check_section import findings
from tbd_trace.analysis.report.hang_section import hang_section, has_only_dumps
from tbd_trace.analysis.report.headline import headline
from tbd_trace.analysis.report.memory_section import ID as MEMORY
from tbd_trace.analysis.report.outline import CHAPTERS, Chapter, Part
from tbd_trace.analysis.report.page import Block, Note, Page, Section, Table, render_page
from tbd_trace.analysis.report.plotter import Draw, draw_later
from tbd_trace.analysis.report.ranks_section import job_figures
from tbd_trace.analysis.report.report_query import Answer, QueryRunner
from tbd_trace.analysis.report.run_summary import notices, one_line_summary, run_section
from tbd_trace.analysis.report.why_section import why_section
from tbd_trace.errors import CannotAnswerError
from tbd_trace.present.run_names import run_names
from tbd_trace.query.shared_session import SharedSession
from tbd_trace.runtime.executors import Executor
from tbd_trace.store.selection import Selection

_SHOWN_NAMES = 3


def report(
    traces: Selection,
    title: str = "",
    draw: Draw = draw_later,
    *,
    executor: Executor | None = None,
    missing: list[str] | None = None,
) -> bytes:
    """Render a report about traces as an HTML file.

    Sections without results state the missing data and how to collect them.

    Args:
        title: heading of the page, by default the names of the traces.
        draw: draws the plots, by default in this process after all queries; see
            :class:`tbd_trace.analysis.report.plotter.Plotter`.
        executor: where to ask each trace; None means this process.
        missing: gets the names of traces whose process ended; results lack them.

    Raises:
        CannotAnswerError: there are no traces.
        StoreError: a trace is damaged, or was removed while the report was made.
    """
    return render_page(build_page(traces, title, draw, executor=executor, missing=missing))


def build_page(
    traces: Selection,
    title: str = "",
    draw: Draw = draw_later,
    *,
    executor: Executor | None = None,
    missing: list[str] | None = None,
) -> Page:
    """Return the page of a report; arguments and errors as in :func:`report`."""
    if not traces.trace_ids:
        raise CannotAnswerError("report: there are no traces; ingest one first")
    frame = traces.database.trace_frame(traces.trace_ids).sort("name", "trace_id")
    names = run_names(dict(frame.select("trace_id", "name").rows()))
    title = title or _title(list(names.values()))
    chapters = _chapters(frame)
    with SharedSession(traces.database, traces.trace_ids, executor=executor) as session:
        runner = QueryRunner(session, only=frame["name"][0] if frame.height == 1 else "")
        hang = hang_section(traces, runner, frame)
        if has_only_dumps(frame):
            sections = [*hang, *_folded([run_section(runner, frame)], keep=0)]
            return Page(title, one_line_summary(frame), sections, names, traces.database.redacted)
        summary = _summary(runner, names, frame)
        verdict = why_section(traces, runner, names, draw, is_expected=_hold(frame, "kernel"))
        # Chapters with plots come first, so that the plots are drawn while the others are queried.
        finish = [
            _section(runner, names, chapter, draw)
            for chapter in chapters
            if chapter.applies(runner)
        ]
        general = [findings(session, names), run_section(runner, frame)]
    if missing is not None:
        missing += session.missing
    own = [section() for section in finish]
    # Most rules need GPU operations: without any, they come last.
    later = own + general if _has_only_memory(frame) else general + own
    lead = [section() for section in verdict]
    folded = [
        *hang,
        *lead,
        *_folded([summary, *later], keep=0 if lead and _are_several(frame) else 1),
    ]
    redacted = traces.database.redacted
    return Page(title, one_line_summary(frame), folded, names, redacted)


def _folded(sections: Sequence[Section], keep: int) -> list[Section]:
    # What a reader needs first is open, the rest is folded.
    return [*sections[:keep], *(replace(section, folded=True) for section in sections[keep:])]


def _chapters(traces: pl.DataFrame) -> list[Chapter]:
    several = _are_several(traces)
    only_memory = _has_only_memory(traces)
    return [
        chapter
        for chapter in CHAPTERS
        if (several or not chapter.compares)
        # Files with nothing but memory have no chapters about time.
        and (
            chapter.id == MEMORY
            if only_memory
            else not chapter.holds or _hold(traces, chapter.holds)
        )
    ]


def _are_several(traces: pl.DataFrame) -> bool:
    return traces.select(pl.coalesce("capture_id", "trace_id")).n_unique() > 1


def _hold(traces: pl.DataFrame, table: str) -> bool:
    return any(table in (tables or ()) for tables in traces["holds"].to_list())


def _has_only_memory(traces: pl.DataFrame) -> bool:
    return bool((traces["kind"] == "memory").all())


def _title(names: Sequence[str]) -> str:
    # Traces of a capture are named DIRECTORY/FILE; the title names the directory once.
    runs = list(dict.fromkeys(name.partition("/")[0] for name in names))
    if len(names) == 1:
        return names[0]
    more = len(runs) - _SHOWN_NAMES
    return ", ".join(runs[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def _summary(runner: QueryRunner, names: Mapping[str, str], traces: pl.DataFrame) -> Section:
    kinds = dict(traces.select("trace_id", "kind").iter_rows())
    figures = headline(runner, names, kinds)
    if not _has_only_memory(traces):
        figures = [*job_figures(runner), *figures]
    blocks: list[Block] = [Note(text) for text in notices(traces)]
    blocks += figures or [Note("The traces answer none of the headline's questions.", "missing")]
    return Section("headline", "Headline", "", blocks)


def _section(
    runner: QueryRunner, names: Mapping[str, str], chapter: Chapter, draw: Draw
) -> Callable[[], Section]:
    # Queries run now; the returned function waits for the plots.
    answers = [(part, runner.run(part.query, **part.parameters)) for part in chapter.parts]
    blocks = [block for part, answer in answers for block in _blocks(part, answer, names, draw)]
    remarks = _remarks(answer for _, answer in answers)
    return lambda: Section(
        chapter.id, chapter.title, chapter.intro, [*(block() for block in blocks), *remarks]
    )


def _blocks(
    part: Part, answer: Answer, names: Mapping[str, str], draw: Draw
) -> list[Callable[[], Block]]:
    if answer.reason or not _has_values(answer, part.about):
        return []
    blocks: list[Callable[[], Block]] = []
    if part.plot and not answer.frame.is_empty():
        blocks.append(draw(answer, names, part.caption))
    if part.table:
        table = Table(
            answer.frame,
            answer.units,
            answer.label,
            filterable=part.filterable,
            limit=part.limit,
            caption=part.caption or answer.query.title,
            docs=answer.docs,
            columns=part.columns,
        )
        blocks.append(lambda: table)
    if remark := part.remark(answer.frame) if part.remark else "":
        blocks.append(lambda: Note(remark))
    return blocks


def _has_values(answer: Answer, column: str) -> bool:
    return not column or answer.frame[column].drop_nulls().len() > 0


def _remarks(answers: Iterable[Answer]) -> list[Note]:
    # Reasons and notes that differ only in the name of the query are combined into one.
    names_by_text: dict[tuple[str, str], list[str]] = {}
    for answer in answers:
        texts = [(answer.reason, "missing")] if answer.reason else []
        texts += [(text, "note") for text in answer.notes]
        for text, kind in texts:
            key = (text.replace(answer.query.name, "{}"), kind)
            labels = names_by_text.setdefault(key, [])
            if answer.query.name not in labels:
                labels.append(answer.query.name)
    return [
        Note(text.replace("{}", _each(names)), kind)
        for (text, kind), names in names_by_text.items()
    ]


def _each(names: Sequence[str]) -> str:
    # The subject of a singular verb: "each of `a` and `b` needs ...".
    quoted = [f"`{name}`" for name in names]
    if len(quoted) == 1:
        return quoted[0]
    return f"each of {', '.join(quoted[:-1])} and {quoted[-1]}"
