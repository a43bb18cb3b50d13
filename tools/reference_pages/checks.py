"""Render the page of the rules of `tbd-trace check`, from queries/checks."""

from __future__ import annotations

from collections.abc import Sequence

from reference_pages.markdown import column_table, plain, table
from tbd_trace.analysis.checks.rules import rule_of
from tbd_trace.present.description import meaning
from tbd_trace.query import Query
from tbd_trace.query.recording import in_words_of

_ABOUT_CHECKS = (
    "`tbd-trace check [TRACE]...` runs the rules of `queries/checks` over traces, batch-size "
    "sweeps, distributed jobs and groups of runs. A rule passes, reports a finding, or is not "
    "evaluable. In the last case it names the missing input; a rule never passes without its "
    "inputs. `--rule` selects rules, `--set NAME=VALUE` sets a threshold, and `--format json` "
    "prints JSON. With `--fail-on SEVERITY`, the exit code is 1 if a finding has at least that "
    "severity. If no rule is evaluable, it is 3.",
    "",
    "Rules for training require at least three iterations of a program that is known to train: "
    "its capture.json names an optimizer, or it has a range of a backward pass or an optimizer, or "
    "a kernel of a backward pass. `--set assume_training=true` applies them to other programs, "
    "too. For a trace with several devices, the worst device is reported; devices with less than "
    "a tenth of the kernel time of the busiest device are ignored.",
    "",
    "Sweeps and groups of runs are formed by capture.json. Their runs agree in model, variant, "
    "data set, batch definition, sequence policy, optimizer, precision, scale, number of "
    "processes, and in the kind of run that measured the throughput. The uncertainty of "
    "throughput is two standard errors of the iteration times of the timeline.",
    "",
    "OBS rules test the observations of Zhu et al. 2018, ROB rules the quality of the recording, "
    "OCC rules occupancy, and MEM rules memory profiles. COM01 tests the communication visible in "
    "one trace, NET04 the communication that its layers would need on several GPUs, and the other "
    "NET rules the ranks of a job ([how to](../how_to/ranks.md)).",
    "",
    "MEM rules and OBS11 evaluate each memory space (device, or host memory) whose peak is at "
    "least a tenth of the highest peak of the trace.",
    "",
    "Default thresholds are marked *proposed* (by this project), *recalled* (from the paper, not "
    "verified) or *definition*.",
)
_LINK = "the bytes that each layer communicates, and the link"
_UNANSWERED = {
    "OBS13": "a run with one worker beside one with several, or the gradients' bytes and the link",
    "NET01": _LINK,
}


def checks_page(checks: Sequence[Query]) -> str:
    """Return the page of the rules."""
    described = [(query, rule_of(query)) for query in checks]
    rows = [
        [f"[{c.rule}](#{c.rule.lower()})", f"`{q.name}`", c.scope, plain(q.question)]
        for q, c in described
    ]
    lines = ["# Checks", "", *_ABOUT_CHECKS, "", *table(["rule", "name", "about", "asks"], rows)]
    lines += ["", "## Answer", "", *column_table(checks[0]), "", "## Rules"]
    for query in checks:
        lines += ["", *check_section(query)]
    unanswered = [[f"`{name}`", why] for name, why in _UNANSWERED.items()]
    lines += ["", "## Rules without an answer", ""]
    lines += ["These rules need data that no table contains yet, so they have no SQL file.", ""]
    return "\n".join([*lines, *table(["rule", "needs"], unanswered)]) + "\n"


def check_section(query: Query) -> list[str]:
    """Return the section of one rule."""
    check = rule_of(query)
    facts = [
        ("Asks", query.question),
        ("About", query.grain),
        ("Source", query.source),
        ("On a finding", in_words_of(check.advice)),
        ("To collect", in_words_of(check.collect)),
        ("SQL", f"[queries/checks/{query.path.name}](../../queries/checks/{query.path.name})"),
    ]
    lines = [f"### {check.rule}", "", f"{query.title} (`{query.name}`)", ""]
    lines += [f"- {label}: {plain(text)}" for label, text in facts]
    if query.params:
        rows = [
            [f"`{name}`", f"`{p.default}`", plain(meaning(p))] for name, p in query.params.items()
        ]
        lines += ["", f"Thresholds ({check.thresholds}):", ""]
        lines += table(["parameter", "default", "meaning"], rows)
    return lines
