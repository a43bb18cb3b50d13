"""What a report says: the sections of its page, each from queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import polars as pl

from tbd_trace.analysis.report.check_section import findings
from tbd_trace.analysis.report.headline import headline
from tbd_trace.analysis.report.outline import CHAPTERS, Chapter, Part
from tbd_trace.analysis.report.page import Block, Note, Page, Section, Table, render_page
from tbd_trace.analysis.report.plotter import Draw, draw_later
from tbd_trace.analysis.report.report_query import Answer, Interview
from tbd_trace.analysis.report.run_summary import in_short, notices, what_ran
from tbd_trace.api import Traces
from tbd_trace.errors import CannotAnswerError
from tbd_trace.present.panels import distinct_names
from tbd_trace.query.shared_session import SharedSession

_SHOWN_NAMES = 3


def report(traces: Traces, title: str = "", draw: Draw = draw_later) -> bytes:
    """Return a report about traces, an HTML file.

    A section whose queries cannot answer says why and what to collect.

    Args:
        traces: the traces.
        title: heading of the page; by default the names of the traces.
        draw: draws its plots, in the end by default; see ``plotter.Plotter``.

    Raises:
        CannotAnswerError: there is no trace.
        StoreError: a trace is damaged, or was removed meanwhile.
    """
    return render_page(contents(traces, title, draw))


def contents(traces: Traces, title: str = "", draw: Draw = draw_later) -> Page:
    """Return what a report says; arguments and errors as in :func:`report`."""
    if not traces.trace_ids:
        raise CannotAnswerError("report: no trace to tell of; ingest one first")
    frame = traces.database.trace_frame(traces.trace_ids).sort("name", "trace_id")
    names = _names(frame)
    several = frame.select(pl.coalesce("capture_id", "trace_id")).n_unique() > 1
    chapters = [chapter for chapter in CHAPTERS if several or not chapter.compares]
    with SharedSession(traces.database, traces.trace_ids) as conversation:
        interview = Interview(conversation, only=frame["name"][0] if frame.height == 1 else "")
        summary = _summary(interview, names, notices(frame))
        # What has plots is asked first: they may be drawn meanwhile.
        finish = [_section(interview, names, chapter, draw) for chapter in chapters]
        sections = [summary, findings(conversation, names), what_ran(interview, frame)]
    sections += [section() for section in finish]
    title = title or _title(frame["name"].to_list())
    return Page(title, in_short(frame), sections, distinct_names(names))


def _names(traces: pl.DataFrame) -> dict[str, str]:
    """Return what the traces are called: with their id where two have the same name."""
    names = traces["name"].to_list()
    return {
        trace: name if names.count(name) == 1 else f"{name} {trace}"
        for trace, name in traces.select("trace_id", "name").iter_rows()
    }


def _title(names: Sequence[str]) -> str:
    """Return what the traces are called together: those of a capture by its directory."""
    runs = list(dict.fromkeys(name.partition("/")[0] for name in names))
    if len(names) == 1:
        return names[0]
    more = len(runs) - _SHOWN_NAMES
    return ", ".join(runs[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def _summary(interview: Interview, names: Mapping[str, str], said: Sequence[str]) -> Section:
    figures = headline(interview, names)
    blocks: list[Block] = [Note(text) for text in said]
    blocks += figures or [Note("The traces answer none of the headline's questions.", "missing")]
    return Section("headline", "Headline", "", blocks)


def _section(
    interview: Interview, names: Mapping[str, str], chapter: Chapter, draw: Draw
) -> Callable[[], Section]:
    """Ask the questions of a chapter; what is returned waits for its plots."""
    answers = [(part, interview.ask(part.query, **part.parameters)) for part in chapter.parts]
    blocks = [block for part, answer in answers for block in _blocks(part, answer, names, draw)]
    remarks = _remarks(answer for _, answer in answers)
    return lambda: Section(
        chapter.id, chapter.title, chapter.intro, [*(block() for block in blocks), *remarks]
    )


def _blocks(
    part: Part, answer: Answer, names: Mapping[str, str], draw: Draw
) -> list[Callable[[], Block]]:
    if answer.reason or not _tells(answer, part.about):
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
    return blocks


def _tells(answer: Answer, column: str) -> bool:
    """Tell whether an answer is about what it was asked for, such as layers."""
    return not column or answer.frame[column].drop_nulls().len() > 0


def _remarks(answers: Iterable[Answer]) -> list[Note]:
    """Return what answers say besides their rows: why there are none, or what to know.

    Queries that say the same say it once.
    """
    said: dict[tuple[str, str], list[str]] = {}
    for answer in answers:
        texts = [(answer.reason, "missing")] if answer.reason else []
        texts += [(text, "note") for text in answer.notes]
        for text, kind in texts:
            key = (text.replace(answer.query.name, "{}"), kind)
            labels = said.setdefault(key, [])
            if answer.query.name not in labels:
                labels.append(answer.query.name)
    return [Note(text.replace("{}", _each(names)), kind) for (text, kind), names in said.items()]


def _each(names: Sequence[str]) -> str:
    """Return names of queries as the subject of one sentence about each."""
    quoted = [f"`{name}`" for name in names]
    if len(quoted) == 1:
        return quoted[0]
    return f"each of {', '.join(quoted[:-1])} and {quoted[-1]}"
