"""Generate the pages of docs/reference from the queries, tables, models and commands.

queries/   one page per metric query and an index, from the headers of queries/metrics
checks.md  the rules of `tbd-trace check`, from the headers of queries/checks
tables.md  canonical, derived and data tables, from queries/canonical, queries/derive and data
models.md  the workloads, from their definitions and models/suite_differences.csv
cli.md     commands and options, from the command line
api.md     the Python API, from its docstrings

Usage: python tools/make_docs.py [--check]

With --check no page is written; the exit code is 1 if a page is out of date.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer.main

from api_page import api_page
from tbd_models.definition import Model
from tbd_models.registry import is_implemented, models
from tbd_trace import resources
from tbd_trace.analysis.checks.rules import rule_of
from tbd_trace.cli.main import app
from tbd_trace.model.canonical_tables import CanonicalTable, canonical_tables
from tbd_trace.present.description import division, meaning, parameters, refusal
from tbd_trace.query import Catalogue, Param, Plot, Query
from tbd_trace.query.catalogue import derive_relations
from tbd_trace.query.header import Need, alternatives
from tbd_trace.query.recording import in_words_of
from tbd_trace.query.renamed import WORKING_VERSIONS, renamed

ROOT = Path(__file__).resolve().parents[1]
DIFFERENCES = ROOT / "models" / "suite_differences.csv"
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
    "MEM rules and OBS11 judge each memory space (device, or host memory) whose peak is at least a "
    "tenth of the highest peak of the trace.",
    "",
    "Default thresholds are marked *proposed* (by this project), *recalled* (from the paper, not "
    "verified) or *definition*.",
)
_LINK = "the bytes that each layer communicates, and the link"
_UNANSWERED = {
    "OBS13": "a run with one worker beside one with several, or the gradients' bytes and the link",
    "NET01": _LINK,
}
_GENERATED = "<!-- Written by tools/make_docs.py; `make docs` renews it. -->"


def pages() -> dict[Path, str]:
    """Return the text of each generated page by its path below docs/reference."""
    metrics = Catalogue().metrics()
    generated = {Path("queries") / f"{query.name}.md": query_page(query) for query in metrics}
    generated[Path("queries/README.md")] = query_index(metrics)
    generated[Path("checks.md")] = checks_page(Catalogue().checks())
    generated[Path("tables.md")] = tables_page()
    generated[Path("models.md")] = models_page()
    generated[Path("cli.md")] = cli_page()
    generated[Path("api.md")] = api_page()
    return {path: f"{_GENERATED}\n{text}" for path, text in generated.items()}


def query_index(metrics: Sequence[Query]) -> str:
    """Return the page that lists the metric queries."""
    rows = [[f"[{q.name}]({q.name}.md)", cell(q.title), cell(q.question)] for q in metrics]
    return "\n".join(
        [
            "# Queries",
            "",
            "`tbd-trace query NAME [TRACE]...` runs one of these queries. Each is a SQL file in "
            "`queries/metrics`; its page describes its inputs, parameters and columns.",
            "",
            *table(["query", "title", "question"], rows),
        ]
    )


def query_page(query: Query) -> str:
    """Return the page of one metric query."""
    shown = query.path.relative_to(ROOT)
    lines = [f"# {query.title}", "", query.question, ""]
    lines += ["```", f"tbd-trace query {query.name} [TRACE]... [--set NAME=VALUE]...", "```", ""]
    facts = [
        ("Grain", query.grain),
        ("Source", query.source),
        ("Needs", relation_links(query.needs, "../tables.md")),
        ("Uses if there", relation_links(query.optional, "../tables.md")),
        ("Leaves out", relation_links(list(filter(None, [query.leaves_out])), "../tables.md")),
        ("Refuses", refusal(query)),
        ("Many traces", division(query)),
        ("Plot", plot_sentence(query)),
        ("SQL", f"[{shown}](../../../{shown})"),
    ]
    lines += [f"- {label}: {text}" for label, text in facts if text]
    taken = parameters(query)
    if taken:
        lines += ["", "## Parameters", "", *parameter_table(taken)]
    lines += ["", "## Columns", "", *column_table(query)]
    return "\n".join(lines) + "\n"


def plot_sentence(query: Query) -> str:
    """Return the sentence about `--plot`, empty for a query without a plot."""
    ways = []
    plot = query.plot
    while plot is not None:
        ways.append(drawn_by(plot))
        plot = plot.otherwise
    return "`--plot FILE.svg` draws " + "; else ".join(ways) if ways else ""


def drawn_by(plot: Plot) -> str:
    """Describe one of a query's plots."""

    def names(columns: Iterable[str]) -> str:
        return ", ".join(f"`{column}`" for column in columns)

    drawn = " and ".join(names(group) for group in plot.groups)
    apart = f", apart by {names(plot.keys)}" if plot.keys else ""
    apart += f", `{plot.secondary}` as a line" if plot.secondary else ""
    where = f", a panel per {names(plot.panels)}" if plot.panels else ""
    return f"{drawn} by {names(plot.places)}{apart}{where} ({plot.kind.replace('_', ' ')})"


def checks_page(checks: Sequence[Query]) -> str:
    """Return the page of the rules."""
    described = [(query, rule_of(query)) for query in checks]
    rows = [
        [f"[{c.rule}](#{c.rule.lower()})", f"`{q.name}`", c.scope, cell(q.question)]
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
    lines += [f"- {label}: {cell(text)}" for label, text in facts]
    if query.params:
        rows = [
            [f"`{name}`", f"`{p.default}`", cell(meaning(p))] for name, p in query.params.items()
        ]
        lines += ["", f"Thresholds ({check.thresholds}):", ""]
        lines += table(["parameter", "default", "meaning"], rows)
    return lines


def tables_page() -> str:
    """Return the page of all tables that a query may read."""
    canonical, derived = canonical_tables().values(), derive_relations()
    lines = [
        "# Tables",
        "",
        "All queries read these tables; they are the same for all profilers. Times are in "
        "nanoseconds on the clock of the trace, sizes in bytes. A value missing in a file is NULL, "
        "never 0. All tables except data tables have a column `trace_id`, which belongs in every "
        "join.",
        "",
        "- Canonical tables, read from profiler files: "
        + ", ".join(f"[{t.name}](#{t.name})" for t in canonical),
        "- Derived tables, computed by queries: "
        + ", ".join(f"[{q.name}](#{q.name})" for q in derived),
        "- Data tables, part of tbd-trace: "
        + ", ".join(f"[{path.stem}](#{path.stem})" for path in data_files()),
        "- [Old names](#old-names) of tables and columns.",
        "",
        "## Canonical tables",
    ]
    for description in canonical:
        lines += ["", *canonical_section(description)]
    lines += ["", "## Derived tables"]
    for query in derived:
        lines += ["", *derived_section(query)]
    lines += ["", "## Data tables"]
    for path in data_files():
        lines += ["", *data_section(path)]
    return "\n".join([*lines, "", *old_names_section()]) + "\n"


def models_page() -> str:
    """Return the page of the workloads."""
    lines = [
        "# Models",
        "",
        "`tbd-trace collect` trains these workloads: architectures with their published "
        "dimensions and optimizers, random weights, and synthetic data with the shapes of the data "
        "set. FLOP are those of the convolutions and matrix products of one sample; a multiply-add "
        "counts as two. Training FLOP are those of forward and backward pass, without the gradient "
        "of the input.",
        "",
        "`--scale small` keeps the architecture and reduces all its dimensions.",
    ]
    for model in models():
        available = ", ".join(f for f in model.frameworks if is_implemented(model.name, f))
        lines += [
            "",
            f"## {model.name}",
            "",
            f"{model.title}, {model.application}, in {available}. {_in_suite(model)} "
            "Batch sizes count "
            f"{model.batch_definition}; throughput is in {model.throughput_unit}.{_default(model)}",
            "",
            *table(
                ["variant", "data set", "batch", "optimizer", "parameters", "forward FLOP",
                 "training FLOP", "source"],
                [
                    [f"`{v.name}`", v.dataset, str(v.default_batch_size), v.optimizer,
                     f"{v.parameters:,}", f"{v.forward_flop:,}", f"{v.training_flop:,}", v.source]
                    for v in model.variants
                ],
            ),
        ]  # fmt: skip
        if model.notes:
            lines += ["", model.notes]
    return "\n".join([*lines, *differences()]) + "\n"


def differences() -> list[str]:
    """Return the section of the differences from the suite, from a CSV file."""
    with DIFFERENCES.open(encoding="utf-8", newline="") as file:
        rows = [
            [
                f"{row['model']}, {row['frameworks']}",
                row["field"],
                row["ours"],
                row["suite"],
                f"{row['effect_pct']} % {row['effect_on']}"
                if row["effect_pct"]
                else "not constant",
            ]
            for row in csv.DictReader(file)
        ]
    return [
        "",
        "## Differences from the suite",
        "",
        "The effect is that of our network relative to the suite's; 0.00 is below 0.005 %. It is "
        "not constant if it depends on the data, or if the suite published no code. The table is "
        f"[{DIFFERENCES.name}](../../models/{DIFFERENCES.name}).",
        "",
        *table(["cell", "field", "ours", "suite", "effect"], [list(map(cell, r)) for r in rows]),
    ]


def _default(model: Model) -> str:
    others = [f"`{name}` in {framework}" for framework, name in model.defaults.items()]
    if not others:
        return ""
    return f" The default is {', '.join(others)}, else `{model.variants[0].name}`."


def _in_suite(model: Model) -> str:
    if not model.in_suite:
        return "An addition to the ten models of TBD's suite, which published nothing about it."
    return f"Layers reported by the suite: {model.layers}; dominant: {model.dominant_layer}."


def data_files() -> list[Path]:
    """Return the CSV files that queries can read as tables."""
    return sorted(resources.data().glob("*.csv"))


def canonical_section(description: CanonicalTable) -> list[str]:
    """Return the section of a canonical table."""
    rows = [[f"`{c.name}`", c.type, cell(c.doc)] for c in description.columns]
    return [
        f"### {description.name}",
        "",
        description.doc,
        "",
        *table(["column", "type", "meaning"], rows),
    ]


def derived_section(query: Query) -> list[str]:
    """Return the section of a derived relation."""
    facts = [
        ("Grain", query.grain),
        ("Source", query.source),
        ("Built on", relation_links(query.relations)),
    ]
    lines = [f"### {query.name}", "", query.question, ""]
    lines += [f"- {label}: {text}" for label, text in facts if text]
    if query.params:
        lines += ["", *parameter_table(query.params)]
    return [*lines, "", *column_table(query)]


def data_section(path: Path) -> list[str]:
    """Return the section of a data table."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    columns = ", ".join(f"`{name}`" for name in rows[0])
    return [
        f"### {path.stem}",
        "",
        f"[data/{path.name}](../../data/{path.name}), {len(rows) - 1} rows: {columns}",
    ]


def old_names_section() -> list[str]:
    """Return the section of tables and columns whose names changed."""
    lines = [
        "## Old names",
        "",
        f"SQL can use the old name of a table for {WORKING_VERSIONS} minor versions: the one that "
        "changed it, and the next. A note then gives the new name. A table has old columns only "
        "under its old name.",
    ]
    for kind, shown in (("relations", "table"), ("columns", "column")):
        rows = [[f"`{old}`", f"`{n.name}`", n.since, n.until] for old, n in renamed(kind).items()]
        lines += ["", *table([f"old {shown}", "new name", "since", "works until"], rows)]
    return lines


def parameter_table(taken: Mapping[str, Param]) -> list[str]:
    """Return the table of parameters."""
    rows = [[f"`{name}`", f"`{p.default}`", cell(meaning(p))] for name, p in taken.items()]
    return table(["parameter", "default", "meaning"], rows)


def column_table(query: Query) -> list[str]:
    """Return the table of a query's columns."""
    rows = [[f"`{name}`", c.unit or "", cell(c.doc)] for name, c in query.columns.items()]
    return table(["column", "unit", "meaning"], rows)


def relation_links(needs: Iterable[Need], page: str = "") -> str:
    """Return links to tables, with "or" between alternatives."""
    return ", ".join(
        " or ".join(f"[{name}]({page}#{name})" for name in alternatives(need)) for need in needs
    )


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
        rows = [[cell(f"`{argument.metavar}`"), cell(argument.help)] for argument in arguments]
        lines += ["", *table(["argument", "meaning"], rows)]
    rows = [[option_names(option), option_default(option), cell(option.help)] for option in options]
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


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    rule = ["---"] * len(head)
    return [f"| {' | '.join(row)} |" for row in [list(head), rule, *rows]]


def cell(text: str) -> str:
    """Return a text escaped for a table cell."""
    return re.sub(r"\||<(?=[A-Za-z/!])", r"\\\g<0>", " ".join(text.split()))


def out_of_date(reference: Path, wanted: dict[Path, str]) -> list[Path]:
    """Return the pages below docs/reference that differ from the generated ones or are obsolete."""
    present = {path.relative_to(reference) for path in (reference / "queries").glob("*.md")}
    stale = sorted(present - wanted.keys())
    for path, text in wanted.items():
        file = reference / path
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            stale.append(path)
    return stale


def main(arguments: Sequence[str] | None = None, reference: Path = ROOT / "docs/reference") -> int:
    """Write or check the pages and return the exit code."""
    parser = argparse.ArgumentParser(description="Write the generated pages of docs/reference.")
    parser.add_argument("--check", action="store_true", help="only list pages that are out of date")
    check = parser.parse_args(arguments).check
    wanted = pages()
    stale = out_of_date(reference, wanted)
    for path in stale:
        print(f"docs/reference/{path} {'is out of date; run `make docs`' if check else 'updated'}")
        if check:
            continue
        if path in wanted:
            (reference / path).parent.mkdir(parents=True, exist_ok=True)
            (reference / path).write_text(wanted[path], encoding="utf-8")
        else:
            (reference / path).unlink()
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
