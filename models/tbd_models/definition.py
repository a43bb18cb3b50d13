"""What all frameworks share about a model: dimensions, data, batch sizes, published facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCALES = ("full", "small")
PRECISIONS = ("fp32", "tf32", "mixed")

# Exit codes of `python -m tbd_models`, beside 0 and 1.
UNSUPPORTED = 2
OUT_OF_MEMORY = 12


class UnsupportedError(Exception):
    """The model cannot be trained as asked; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One published configuration of a model.

    Attributes:
        name: short name, such as ``v1.5`` or ``squad``.
        dimensions: the published dimensions, a frozen dataclass of the model's own.
        small: the same architecture with less of everything, for tests on a CPU.
        dataset: data set whose shapes the samples have.
        default_batch_size: samples per iteration where nobody asks for another number.
        small_batch_size: the same at small scale.
        sweep: batch sizes of the published sweeps.
        optimizer: name of the published optimizer.
        parameters: trainable parameters at full size.
        differing_parameters: the same in frameworks where the number differs, by framework.
        forward_flop: floating-point operations of the forward pass of one sample at full size, of
            convolutions and matrix products alone; a multiply-add is two.
        training_flop: the same of forward and backward pass.
        source: where dimensions and optimizer were published.
    """

    name: str
    dimensions: Any
    small: Any
    dataset: str
    default_batch_size: int
    sweep: tuple[int, ...]
    optimizer: str
    parameters: int
    forward_flop: int
    training_flop: int
    source: str
    small_batch_size: int = 4
    differing_parameters: Mapping[str, int] = field(default_factory=dict)

    def parameters_in(self, framework: str) -> int:
        """Return the trainable parameters at full size in a framework."""
        return self.differing_parameters.get(framework, self.parameters)

    def at(self, scale: str) -> Any:
        """Return the dimensions at ``full`` or ``small`` scale."""
        return self.dimensions if scale == "full" else self.small

    def batch_size(self, scale: str) -> int:
        """Return the samples per iteration where nobody asks for another number."""
        return self.default_batch_size if scale == "full" else self.small_batch_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model of the suite.

    Attributes:
        name: as the command line calls it.
        title: as people call it.
        application: task, such as ``image classification``.
        frameworks: those in which the suite has the model.
        layers: number of layers that the suite reports, in its words.
        dominant_layer: kind of layer that takes most time, as the suite reports it.
        dominant_types: layer types (class names) that are of that kind.
        batch_definition: what a sample is, such as ``images``.
        sequence_policy: how samples of unequal length are batched.
        throughput_unit: unit of throughput, such as ``images/s``.
        variants: published configurations; the first is the default.
        packages: what a framework's implementation needs beside the framework.
        notes: differences from the publication, and between frameworks.
    """

    name: str
    title: str
    application: str
    frameworks: tuple[str, ...]
    layers: str
    dominant_layer: str
    dominant_types: tuple[str, ...]
    batch_definition: str
    sequence_policy: str = "fixed"
    throughput_unit: str
    variants: tuple[Variant, ...]
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: str = ""

    def variant(self, name: str | None) -> Variant:
        """Return a variant by name, the default one for None.

        Raises:
            UnsupportedError: there is no such variant.
        """
        if name is None:
            return self.variants[0]
        known: Mapping[str, Variant] = {variant.name: variant for variant in self.variants}
        if name not in known:
            raise UnsupportedError(
                f"{self.name} has no variant {name!r}; choose from {', '.join(known)}"
            )
        return known[name]
