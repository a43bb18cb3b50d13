"""Generate the sample capture in ``data/samples``: synthetic, not measured on a GPU.

    python tools/make_sample.py --output data/samples/synthetic_cnn

Equal arguments give equal files. ``data/samples/README.md`` derives the expected results from the
formulas; ``docs/reference/capture_directory.md`` describes the files of a capture directory.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nsys_schema import PRODUCT_VERSION, SystemEnvironment
from nsys_writer import MACHINE_ID, NsysWriter, a100
from sample_capture.cnn import small_cnn
from sample_capture.counters import write_counters
from sample_capture.model import BATCH_SIZE, FP16, Layer, Network
from sample_capture.recorder import Recorder
from sample_capture.training import WARM_UP, Training

UTC_START_NS = 1_704_067_200 * 10**9  # 2024-01-01T00:00:00Z
MINIMUM_ITERATIONS = WARM_UP + 3
NOTICE = "synthetic: made by tools/make_sample.py, not measured on any GPU"
TIMELINE, METRICS = "timeline.sqlite", "metrics.csv"


def make_sample(output: Path, *, iterations: int = 12, blocks: int = 1) -> None:
    """Write the capture directory; existing files in it are replaced.

    ``iterations`` is at least 5 (the first two are warm-up); ``blocks`` is the number of blocks of
    convolution, batch norm and ReLU, at least 1.
    """
    output.mkdir(parents=True, exist_ok=True)
    network = small_cnn(blocks)
    with NsysWriter(
        output / TIMELINE, utc_start_ns=UTC_START_NS, origin="synthetic.nsys-rep"
    ) as writer:
        writer.add(a100())
        writer.add(SystemEnvironment(MACHINE_ID, "Local (CLI)", "Notice", 0, NOTICE))
        writer.span(0, Training(Recorder(writer), network).run(iterations))
    write_counters(output / METRICS, network)
    _write_json(output / "capture.json", _capture(iterations))
    _write_json(output / "layers.json", _layers(network))


def _capture(iterations: int) -> dict[str, Any]:
    return {
        "format_version": 1,
        "capture_id": "synthetic-cnn",
        "synthetic": True,
        "notice": NOTICE,
        "application": "image classification",
        "model": "small-cnn",
        "framework": "pytorch",
        "framework_version": "2.1.0",
        "dataset": "random-images-3x32x32",
        "batch_size": BATCH_SIZE,
        "batch_definition": "images",
        "precision": "fp32",
        "optimizer": "sgd",
        "seed": 0,
        "gpu": "NVIDIA A100-SXM4-40GB",
        "world_size": 1,
        "host": "generic-host",
        "command": ["python", "train.py", "--model", "small-cnn", "--batch-size", str(BATCH_SIZE)],
        "iterations": iterations,
        "iteration_window": {"first": WARM_UP, "last": iterations - 1},
        "profiler": "nsys",
        "profiler_version": PRODUCT_VERSION,
        "throughput": {"samples_per_second": 12800.0, "iterations": 500, "seconds": 1.25},
        "files": [
            {
                "file": TIMELINE,
                "role": "timeline",
                "tool": "nsys",
                "tool_version": PRODUCT_VERSION,
                "iterations": {"first": 0, "last": iterations - 1},
            },
            {
                "file": METRICS,
                "role": "metrics",
                "tool": "ncu",
                "tool_version": "2021.3.0",
                "iterations": {"first": WARM_UP, "last": WARM_UP},
            },
        ],
    }


def _layers(network: Network) -> dict[str, Any]:
    return {"format_version": 1, "layers": [_definition(layer) for layer in network.layers]}


def _definition(layer: Layer) -> dict[str, Any]:
    weight_bytes = layer.parameters * layer.element_bytes
    forward, backward = layer.flop
    return {
        "name": layer.name,
        "type": layer.type,
        "parameters": layer.parameters,
        "weight_bytes": weight_bytes,
        "gradient_bytes": weight_bytes,
        "feature_map_bytes": layer.outputs * layer.element_bytes,
        "forward_flop": forward,
        "backward_flop": backward,
        "precision": "fp16" if layer.element_bytes == FP16 else "fp32",
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _at_least(minimum: int) -> Any:
    def parse(text: str) -> int:
        value = int(text)
        if value < minimum:
            raise argparse.ArgumentTypeError(f"must be at least {minimum}, not {value}")
        return value

    parse.__name__ = "whole number"  # argparse names the function in its error message
    return parse


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=NOTICE)
    parser.add_argument("--output", type=Path, required=True, help="directory to write")
    parser.add_argument(
        "--iterations",
        type=_at_least(MINIMUM_ITERATIONS),
        default=12,
        help="training iterations on the timeline (default: %(default)s)",
    )
    parser.add_argument(
        "--blocks",
        type=_at_least(1),
        default=1,
        help="blocks of convolution, batch norm and ReLU (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    make_sample(options.output, iterations=options.iterations, blocks=options.blocks)


if __name__ == "__main__":
    main()
