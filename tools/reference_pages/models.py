"""Render the page of the workloads, from their definitions."""

from __future__ import annotations

import csv
from pathlib import Path

from reference_pages.markdown import plain, table
from tbd_models.definition import Model
from tbd_models.registry import is_implemented, models

ROOT = Path(__file__).resolve().parents[2]
DIFFERENCES = ROOT / "models" / "suite_differences.csv"


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
        *table(["cell", "field", "ours", "suite", "effect"], [list(map(plain, r)) for r in rows]),
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
