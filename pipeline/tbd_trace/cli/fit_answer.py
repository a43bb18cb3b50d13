"""The answer of ``tbd-trace fit`` as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tbd_trace.present.values import scaled

if TYPE_CHECKING:
    from tbd_collectors.fit.fitting import Fit

_LAYERS = 8
_GROUPS = {
    "weight": "weights",
    "weight_gradient": "weight gradients",
    "feature_map": "feature maps",
    "activation_gradient": "activation gradients",
    "optimizer_state": "optimizer state",
    "optimizer_temporary": "temporary copies of the optimizer",
    "input": "input",
    "buffer": "buffers",
    "workspace": "workspace",
    "temporary": "temporary tensors",
}


def lines(fit: Fit, limit: str | None, sharding: tuple[str, int] | None) -> Iterator[str]:
    """Yield the lines of the answer."""
    yield _verdict(fit, limit, sharding)
    yield ""
    yield from _table(
        [(_GROUPS.get(kind, kind), size) for kind, size in fit.need.classes.items()], "at the peak"
    )
    yield ""
    yield from _terms(fit)
    yield ""
    layers = [(name, sum(kinds.values())) for name, kinds in fit.need.layers.items()]
    yield from _table(layers[:_LAYERS], "layers with most")
    if fit.largest is not None:
        yield ""
        yield _largest(fit)
    yield from _plan(fit)
    yield ""
    yield from _evidence(fit)


def document(fit: Fit, sharding: tuple[str, int] | None) -> dict[str, Any]:
    """Return the answer for JSON; unknown values are None."""
    largest, plan = fit.largest, fit.plan
    report = fit.memory.report
    return {
        "batch_size": fit.batch,
        "batch_source": report["batch_source"],
        "model": report["model"],
        "optimizer": report["optimizer"],
        "sharding": None if sharding is None else {"scheme": sharding[0], "gpus": sharding[1]},
        "peak_bytes": fit.need.peak,
        "class_bytes": fit.need.classes,
        "layer_bytes": fit.need.layers,
        "term_bytes": fit.need.terms,
        "need_bytes": fit.need.total,
        "limit_bytes": fit.limit,
        "spare_bytes": None if fit.limit is None else fit.limit - fit.need.total,
        "fits": fit.fits,
        "largest_batch": None if largest is None else largest.batch,
        "largest_batch_needs": None if largest is None else largest.needs,
        "plan": None
        if plan is None
        else {
            "checkpoint": list(plan.blocks),
            "recompute_flop": plan.flop,
            "modelled_peak_bytes": plan.modelled_peak,
            "peak_bytes": plan.need.peak,
            "need_bytes": plan.need.total,
            "fits": plan.fits,
            "is_cheapest": plan.is_cheapest,
        },
        "evidence": evidence(fit),
        "assumed": assumed(fit),
        "notes": fit.notes,
    }


def evidence(fit: Fit) -> str:
    """Return ``estimated`` for shapes without data, ``measured`` for real tensors on the CPU."""
    return "estimated" if fit.is_fake else "measured"


def assumed(fit: Fit) -> list[str]:
    """Return what the answer assumes, in words."""
    report = fit.memory.report
    # The terms have rounding and the scratch memory of cuBLAS.
    found = [text for text in fit.memory.log.assumptions if not text.startswith("sizes as")]
    found.append("no scratch memory of other libraries, such as that of convolutions")
    if report["assumed_scalars"]:
        found.append(
            f"{report['assumed_scalars']} values that the program reads: numbers are 1, conditions "
            "false"
        )
    if report["is_compiled"]:
        found.append("torch.compile is left out, and with it the memory that fused kernels save")
    found += [
        f"shapes of {name} depend on values: all elements are selected"
        for name in report["assumed_shapes"]
    ]
    return found


def _verdict(fit: Fit, limit: str | None, sharding: tuple[str, int] | None) -> str:
    batch = f"batch {fit.batch}" if fit.batch else "its batch"
    on_each = "" if sharding is None else f" on each of {sharding[1]} GPUs ({sharding[0]})"
    needs = f"{batch} needs {_bytes(fit.need.total)}{on_each}"
    if fit.limit is None:
        return needs
    if fit.fits:
        return f"fits {limit}: {needs}, {_bytes(fit.limit - fit.need.total)} are spare"
    return f"does not fit {limit}: {needs}, {_bytes(fit.need.total - fit.limit)} too much"


def _terms(fit: Fit) -> Iterator[str]:
    rows = [(name, f"{size:+,}") for name, size in fit.need.terms.items()]
    rows.append(("sum", f"{fit.need.total:,}"))
    if fit.limit is not None:
        rows += [
            ("memory of the GPU", f"{fit.limit:,}"),
            ("spare", f"{fit.limit - fit.need.total:+,}"),
        ]
    yield from _aligned([("terms", "bytes"), *rows])


def _largest(fit: Fit) -> str:
    assert fit.largest is not None
    if not fit.largest.batch:
        return "no batch fits, not even one sample"
    first, second = (
        f"{batch} needs {_bytes(total)}" for batch, total in sorted(fit.largest.needs.items())
    )
    return f"largest batch that fits: {fit.largest.batch} ({first}, {second})"


def _plan(fit: Fit) -> Iterator[str]:
    if fit.fits is not False or not fit.is_fake:
        return
    yield ""
    plan = fit.plan
    if plan is None:
        yield "no layers to checkpoint were found"
        return
    count = f"{len(plan.blocks)} layer{'s' * (len(plan.blocks) > 1)}"
    if plan.fits:
        how = "the cheapest way to fit" if plan.is_cheapest else "all there are"
        yield f"checkpoint {count}, {how}: {', '.join(plan.blocks)}"
    else:
        yield f"checkpointing does not suffice: {count}, {', '.join(plan.blocks)}"
    work = scaled(plan.flop, "FLOP")
    yield f"then the batch needs {_bytes(plan.need.total)}, and {work} more per iteration"


def _evidence(fit: Fit) -> Iterator[str]:
    report = fit.memory.report
    yield (
        f"{evidence(fit)}: model {report['model']}, iterations are steps of "
        f"{report['optimizer'] or 'its optimizer'}, batch of {report['batch_source']}"
    )
    yield from (f"assumed: {text}" for text in assumed(fit))


def _table(rows: Iterable[tuple[str, int]], title: str) -> Iterator[str]:
    yield from _aligned([(title, "bytes"), *((name, f"{size:,}") for name, size in rows)])


def _aligned(rows: list[tuple[str, str]]) -> Iterator[str]:
    width = max(len(name) for name, _ in rows)
    digits = max(len(value) for _, value in rows)
    yield from (f"  {name:{width}}  {value:>{digits}}" for name, value in rows)


def _bytes(size: int) -> str:
    return scaled(size, "byte")
