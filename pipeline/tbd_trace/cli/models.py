"""``tbd-trace models``: list the workloads of the suite and whether they run on this machine."""

# polars and the workloads are imported when the command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tbd_trace.cli.options import FormatOption, OutputOption, WideOption
from tbd_trace.cli.output import busy, emit

if TYPE_CHECKING:
    from tbd_models.definition import Model, Variant


def models(
    *,
    variants: Annotated[
        bool, typer.Option("--variants", help="One row per published variant, not per model.")
    ] = False,
    python: Annotated[
        str | None,
        typer.Option(
            "--python",
            metavar="PATH",
            help="Interpreter with the framework. By default that of tbd-trace env create, "
            "else this one.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Recount parameters and FLOP of the suite with the counters of the installed "
            "frameworks. Exit with 1 if a number differs.",
        ),
    ] = False,
    form: FormatOption = None,
    output: OutputOption = None,
    wide: WideOption = False,
) -> None:
    """List the workloads of the suite.

    Per model and framework: task, layers and dominant layer as reported by the suite, parameters
    and floating-point operations (convolutions and matrix products of one sample; a multiply-add
    counts as two), default batch size, and the device it runs on here (gpu, cpu), or the reason why
    it does not run.
    """
    import polars as pl

    from tbd_models import registry

    if check:
        rows = _recounted(python)
        emit(pl.DataFrame(rows, infer_schema_length=None), form, output, limit=0, wide=wide)
        if any(row["result"] in ("differs", "failed") for row in rows):
            raise typer.Exit(1)
        return
    with busy("looking around"):
        machine = _Machine(python)
        rows = [
            _row(model, framework, variant) | machine.support(model, framework)
            for model in registry.models()
            for framework in model.frameworks
            if registry.is_implemented(model.name, framework)
            for variant in model.variants_in(framework)[: None if variants else 1]
        ]
    emit(pl.DataFrame(rows, infer_schema_length=None), form, output, limit=0, wide=wide)


def _recounted(python: str | None) -> list[dict[str, Any]]:
    from tbd_models import registry
    from tbd_trace.cli.model_check import recounted

    suite = [model for model in registry.models() if model.in_suite]
    rows: list[dict[str, Any]] = []
    with busy("counting"):
        machine = _Machine(python)
        for framework in registry.FRAMEWORKS:
            cells = [model for model in suite if framework in model.frameworks]
            missing = {m.name: machine.support(m, framework)["why_not"] for m in cells}
            rows += [
                {"model": name, "framework": framework, "result": "not counted", "note": why}
                for name, why in missing.items()
                if why
            ]
            here = [model for model in cells if not missing[model.name]]
            if here:
                rows += recounted(here, framework, machine.pythons[framework])
    return rows


def _row(model: Model, framework: str, variant: Variant) -> dict[str, Any]:
    return {
        "model": model.name,
        "framework": framework,
        "application": model.application,
        "variant": variant.name,
        "layers": model.layers,
        "dominant_layer": model.dominant_layer,
        "batch_size": variant.default_batch_size,
        "batch_definition": model.batch_definition,
        "parameters": variant.parameters_in(framework),
        "forward_flop": variant.forward_flop,
        "training_flop": variant.training_flop,
        "dataset": variant.dataset,
        "optimizer": variant.optimizer,
        "source": variant.source,
    }


class _Machine:
    """Frameworks and device of this machine."""

    def __init__(self, python: str | None) -> None:
        from tbd_collectors import environments
        from tbd_trace.machine import inspection

        self.pythons = {
            name: python or environments.usual_interpreter(name) for name in inspection.FRAMEWORKS
        }
        # One process per interpreter: asking for the versions takes a fraction of a second.
        installed = {path: inspection.interpreter(path) for path in set(self.pythons.values())}
        self._installed = {name: installed[path] for name, path in self.pythons.items()}
        self._device = "gpu" if inspection.gpus()[0].status == "ok" else "cpu"

    def support(self, model: Model, framework: str) -> dict[str, str | None]:
        from tbd_trace.machine import inspection

        installed = self._installed[framework]
        wanted = ("numpy", *model.packages.get(framework, ()))
        missing = [name for name in wanted if name not in installed]
        if inspection.framework_version(framework, installed) is None:
            missing.insert(0, inspection.FRAMEWORKS[framework][0])
        if missing:
            return {"runs_on": None, "why_not": f"not installed: {', '.join(missing)}"}
        return {"runs_on": self._device, "why_not": None}
