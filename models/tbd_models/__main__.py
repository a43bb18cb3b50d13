"""Run one workload: ``python -m tbd_models run resnet50 --framework pytorch --report FILE``.

``tbd-trace collect`` starts it in the framework's interpreter. Exit codes: 0 success, 1 failure,
2 unsupported request, 12 out of memory; 2 and 12 also write a report.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tbd_models.definition import (
    OUT_OF_MEMORY,
    PRECISIONS,
    SCALES,
    UNSUPPORTED,
    Model,
    UnsupportedError,
)
from tbd_models.instrument.marks import Marks, NoMarks, NvtxMarks
from tbd_models.json_file import write_json
from tbd_models.layer_list import read_layers
from tbd_models.loop import Window, measure
from tbd_models.registry import FRAMEWORKS, find, implementation
from tbd_models.settings import EXECUTIONS, INPUTS, SCHEMES, Settings

if TYPE_CHECKING:
    from tbd_models.corpus import Plan

DEFAULTS = Window()
# At small scale, users want to see what a capture holds rather than stable times.
_MAX_WARMUP_SECONDS = {"full": DEFAULTS.max_warmup_seconds, "small": 10.0}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tbd_models", description=__doc__)
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="train a model for a few iterations")
    run.add_argument("model")
    run.add_argument("--framework", default="pytorch", choices=FRAMEWORKS)
    run.add_argument("--variant")
    run.add_argument("--scale", default="full", choices=SCALES)
    run.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    run.add_argument("--batch-size", type=positive_number)
    run.add_argument("--precision", default="fp32", choices=PRECISIONS)
    run.add_argument("--execution", default="auto", choices=EXECUTIONS)
    run.add_argument("--gradient-accumulation", type=positive_number, default=1)
    run.add_argument("--activation-checkpointing", action="store_true")
    run.add_argument("--iterations", type=positive_number, default=DEFAULTS.iterations)
    run.add_argument("--warmup", type=whole_number, help="default: until iterations are stable")
    run.add_argument("--max-warmup", type=whole_number, default=DEFAULTS.max_warmup)
    run.add_argument("--max-warmup-seconds", type=float, help="default: 60, at small scale 10")
    run.add_argument("--seed", type=int, default=0)
    _add_input(run)
    run.add_argument("--layer-list", type=Path, help="layers of the model layer_list (CSV)")
    run.add_argument(
        "--scheme",
        default="ddp",
        choices=SCHEMES,
        help="how ranks exchange gradients (WORLD_SIZE of torchrun above 1)",
    )
    run.add_argument("--nvtx", action="store_true", help="mark iterations, phases and layers")
    run.add_argument(
        "--torch-trace",
        type=Path,
        metavar="FILE",
        help="record the measured iterations with torch.profiler in this file (.json.gz), marked",
    )
    run.add_argument(
        "--torch-memory", action="store_true", help="with --torch-trace: also allocations"
    )
    run.add_argument("--report", type=Path, help="write the measured times to this JSON file")
    run.add_argument("--layers", type=Path, help="write the layers to this file (layers.json)")
    run.add_argument(
        "--memory",
        type=Path,
        help="record the memory of the first iterations in this file (memory.jsonl), "
        "instead of measuring times",
    )
    run.add_argument(
        "--estimate",
        action="store_true",
        help="with --memory: compute it from shapes, without GPU, data and training; "
        "--device is the device assumed",
    )
    count = commands.add_parser("count", help="count parameters and FLOP with other counters")
    count.add_argument("models", nargs="+")
    count.add_argument("--framework", default="pytorch", choices=FRAMEWORKS)
    count.set_defaults(counts=True)
    arguments = parser.parse_args()
    if "counts" in arguments:
        return arguments
    if arguments.estimate and not arguments.memory:
        parser.error("--estimate needs --memory FILE")
    return arguments


def _add_input(run: argparse.ArgumentParser) -> None:
    run.add_argument("--data", type=Path)
    run.add_argument("--lengths", default="fixed", help="fixed, corpus, or a histogram (CSV)")
    run.add_argument("--input", default="synthetic", choices=INPUTS)
    run.add_argument("--loader-workers", type=whole_number, default=0)


def whole_number(text: str) -> int:
    """Parse an integer of at least 0."""
    # argparse prints this function's name in its error message.
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is below 0")
    return number


def positive_number(text: str) -> int:
    """Parse an integer above 0."""
    number = whole_number(text)
    if number == 0:
        raise argparse.ArgumentTypeError("0 is not above 0")
    return number


def main() -> int:
    """Run the workload named on the command line and return the exit code."""
    arguments = _arguments()
    if "counts" in arguments:
        return _count(arguments.models, arguments.framework)
    report: dict[str, Any] = {"status": "failed"}
    try:
        model = find(arguments.model)
        report.update(_run(arguments, model))
        code = 0
    except (UnsupportedError, ImportError) as error:
        report.update(status="unsupported", reason=_reason(error))
        print(f"error: {report['reason']}", file=sys.stderr)
        code = UNSUPPORTED
    except Exception as error:  # each framework has its own out-of-memory exception
        trainer = import_module(f"tbd_models.{arguments.framework}.trainer")
        if not trainer.is_out_of_memory(error):
            raise
        report.update(status="out_of_memory", reason=_reason(error))
        print(f"error: out of memory: {report['reason']}", file=sys.stderr)
        code = OUT_OF_MEMORY
    if arguments.report:
        write_json(arguments.report, report)
    return code


def _count(names: list[str], framework: str) -> int:
    import_module(f"tbd_models.{framework}").prepare(Settings(batch_size=1))
    counter = import_module(f"tbd_models.{framework}.count")
    for name in names:
        model = find(name)
        build = implementation(model, framework).workload
        for variant in model.variants_in(framework):
            counted = asdict(counter.count(build, variant.dimensions))
            print(json.dumps({"model": name, "variant": variant.name} | counted), flush=True)
    return 0


def _run(arguments: argparse.Namespace, model: Model) -> dict[str, Any]:
    variant = model.variant(arguments.variant, arguments.framework)
    dimensions: Any = variant.at(arguments.scale)
    batch_size = arguments.batch_size or variant.batch_size(arguments.scale)
    settings = Settings(
        batch_size=batch_size,
        precision=arguments.precision,
        device=arguments.device,
        seed=arguments.seed,
        data=arguments.data,
        execution=arguments.execution,
        marked=arguments.nvtx,
        gradient_accumulation=arguments.gradient_accumulation,
        activation_checkpointing=arguments.activation_checkpointing,
        scheme=arguments.scheme,
        input=arguments.input,
        loader_workers=arguments.loader_workers,
        lengths=_lengths(arguments, dimensions, batch_size),
    )
    if settings.loader_workers and settings.input != "decode":
        raise UnsupportedError("--loader-workers needs --input decode")
    if settings.data and settings.input == "decode":
        raise UnsupportedError("--data and --input decode exclude each other")
    if settings.lengths and settings.input == "decode":
        raise UnsupportedError("--lengths and --input decode exclude each other")
    # Before the framework is imported: it reads environment variables at import time.
    import_module(f"tbd_models.{arguments.framework}").prepare(settings)
    build = implementation(model, arguments.framework).workload
    if settings.lengths and settings.lengths.corpus.dimensions:
        dimensions = settings.lengths.corpus.dimensions
    if arguments.layer_list:
        dimensions = read_layers(arguments.layer_list)
    if arguments.memory:
        return _record_memory(arguments, build, dimensions, settings)
    frame = import_module(f"tbd_models.{arguments.framework}.trainer")
    trainer = frame.TRAINER(build, dimensions, settings)
    if arguments.layers:
        # Before the layers are marked, so that the measured pass emits no ranges.
        write_json(arguments.layers, {"format_version": 1, "layers": trainer.layers()})
    marks = _marks(arguments, trainer)
    if not isinstance(marks, NoMarks):
        trainer.mark_layers(marks)
    window = Window(
        arguments.iterations,
        arguments.warmup,
        arguments.max_warmup,
        arguments.max_warmup_seconds or _MAX_WARMUP_SECONDS[arguments.scale],
    )
    plan = settings.lengths
    measured = measure(trainer, window, marks, plan.work if plan else None)
    recorder = getattr(trainer, "recorder", None)
    if hasattr(trainer, "close"):
        trainer.close()
    return {
        "status": "ok",
        "batch_size": settings.batch_size,
        **(recorder.describe() if recorder else {}),
        **trainer.describe(),
        **measured.as_dict(),
        "lengths": plan.facts(measured.numbers) if plan else None,
        "peak_device_bytes": trainer.peak_bytes(),
    }


def _lengths(arguments: argparse.Namespace, dimensions: Any, batch_size: int) -> Plan | None:
    if arguments.lengths == "fixed":
        return None
    corpus = getattr(import_module(f"tbd_models.{arguments.model}"), "corpus", None)
    if corpus is None:
        raise UnsupportedError(
            f"all samples of {arguments.model} have the same size; leave out --lengths"
        )
    excluded = {
        "--data": arguments.data,
        "--memory": arguments.memory,
        "--gradient-accumulation": arguments.gradient_accumulation > 1,
    }
    for option in (name for name, is_asked in excluded.items() if is_asked):
        raise UnsupportedError(f"--lengths and {option} exclude each other")
    from tbd_models.corpus import planned  # noqa: PLC0415 - NumPy comes with a framework

    histogram = None if arguments.lengths == "corpus" else Path(arguments.lengths)
    return planned(corpus(dimensions), histogram, batch_size, arguments.seed)


def _marks(arguments: argparse.Namespace, trainer: Any) -> Marks:
    if not arguments.torch_trace:
        return NvtxMarks() if arguments.nvtx else NoMarks()
    if arguments.framework != "pytorch":
        raise UnsupportedError("torch.profiler records only PyTorch; use --profiler nsys")
    profiler = import_module("tbd_models.instrument.profiler_pytorch")
    trainer.recorder = profiler.TraceRecorder(
        arguments.torch_trace, arguments.device, memory=arguments.torch_memory
    )
    marks: Marks = profiler.RecordFunctionMarks(trainer.recorder)
    return marks


def _record_memory(
    arguments: argparse.Namespace, build: Any, dimensions: Any, settings: Settings
) -> dict[str, Any]:
    recorder = import_module(f"tbd_models.{arguments.framework}.memory")
    run = recorder.estimated if arguments.estimate else recorder.measured
    recorded = run(build, dimensions, settings, arguments.memory)
    if arguments.layers:
        write_json(arguments.layers, {"format_version": 1, "layers": recorded.layers})
    return {
        "status": "ok",
        "batch_size": settings.batch_size,
        "estimated": arguments.estimate,
        **recorded.description,
    }


def _reason(error: Exception) -> str:
    if isinstance(error, ImportError):
        return f"{sys.executable} lacks a module of the workload: {error}"
    return next(iter(str(error).splitlines()), type(error).__name__)


if __name__ == "__main__":
    sys.exit(main())
