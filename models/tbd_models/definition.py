"""Define a model of the suite: dimensions, data, batch sizes and published figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCALES = ("full", "small")
PRECISIONS = ("fp32", "tf32", "mixed")

# Exit codes of `python -m tbd_models` besides 0 and 1.
UNSUPPORTED = 2
OUT_OF_MEMORY = 12


class UnsupportedError(Exception):
    """The model cannot be trained as requested; the message gives reason and remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Sizes of a variant at full size by a counter of others; FLOP are those of one sample."""

    counter: str
    parameters: int  # trainable
    forward_flop: int | None  # None: not counted
    training_flop: int | None
    uncounted: str = ""  # why a value is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One published configuration of a model."""

    name: str  # such as v1.5 or squad
    dimensions: Any  # as published; a frozen dataclass defined by the model
    small: Any  # the same architecture at a size for tests on a CPU
    dataset: str  # data set whose shapes the synthetic samples have
    default_batch_size: int  # samples per iteration
    sweep: tuple[int, ...]  # batch sizes of the published sweeps
    optimizer: str
    parameters: int  # trainable parameters at full size
    # FLOP of one sample at full size in convolutions and matrix products; a multiply-add is 2.
    forward_flop: int
    training_flop: int  # forward and backward
    source: str  # publication of dimensions and optimizer
    small_batch_size: int = 4
    differing_parameters: Mapping[str, int] = field(default_factory=dict)  # by framework
    frameworks: tuple[str, ...] = ()  # that have it; none named: all of the model

    def parameters_in(self, framework: str) -> int:
        """Return the trainable parameters at full size in a framework."""
        return self.differing_parameters.get(framework, self.parameters)

    def at(self, scale: str) -> Any:
        """Return the dimensions at ``full`` or ``small`` scale."""
        return self.dimensions if scale == "full" else self.small

    def batch_size(self, scale: str) -> int:
        """Return the default batch size at ``full`` or ``small`` scale."""
        return self.default_batch_size if scale == "full" else self.small_batch_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model of the suite."""

    name: str  # on the command line
    title: str  # in reports
    application: str  # such as image classification
    frameworks: tuple[str, ...]  # in which the suite has the model
    layers: str  # number of layers as the suite reports it
    dominant_layer: str  # kind of layer that takes most time, as the suite reports it
    dominant_types: tuple[str, ...]  # class names of such layers
    in_suite: bool = True  # one of TBD's ten models
    batch_definition: str  # what a sample is, such as images
    sequence_policy: str = "fixed"  # how samples of unequal length are batched
    throughput_unit: str  # such as images/s
    variants: tuple[Variant, ...]  # the first is the default
    defaults: Mapping[str, str] = field(default_factory=dict)  # other defaults, by framework
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # beside the framework
    notes: str = ""  # differences from the publication and between frameworks

    def variants_in(self, framework: str) -> tuple[Variant, ...]:
        """Return the variants that a framework has, its default first."""
        available = [v for v in self.variants if not v.frameworks or framework in v.frameworks]
        default = self.defaults.get(framework)
        return tuple(sorted(available, key=lambda variant: variant.name != default))

    def variant(self, name: str | None, framework: str | None = None) -> Variant:
        """Return a variant, by default that of the framework, or the first without a framework.

        Raises UnsupportedError for a name that the model, or the framework, does not have.
        """
        available = self.variants if framework is None else self.variants_in(framework)
        known: Mapping[str, Variant] = {variant.name: variant for variant in available}
        if name is None:
            return available[0]
        if name not in known:
            where = f" in {framework}" if framework else ""
            raise UnsupportedError(
                f"{self.name} has no variant {name!r}{where}; choose from {', '.join(known)}"
            )
        return known[name]
