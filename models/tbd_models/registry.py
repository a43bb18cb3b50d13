"""Find the models of the suite by name."""

from __future__ import annotations

import difflib
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from tbd_models.definition import Model, UnsupportedError

NAMES = (
    "resnet50",
    "inception3",
    "seq2seq",
    "transformer",
    "bert",
    "maskrcnn",
    "efficientdet",
    "deepspeech2",
    "wgan",
    "minigo",
    "llm",
)
# Layers that sleep, for measurements of communication; not part of the suite.
UNLISTED = ("layer_list",)
FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")


def find(name: str) -> Model:
    """Return a model; raise UnsupportedError with the nearest known name if there is none."""
    if name not in (*NAMES, *UNLISTED):
        near = difflib.get_close_matches(name.lower(), NAMES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(NAMES)}"
        raise UnsupportedError(f"there is no model {name!r}; {hint}")
    model: Model = import_module(f"tbd_models.{name}").MODEL
    return model


def models() -> list[Model]:
    """Return all models."""
    return [find(name) for name in NAMES]


def is_implemented(model: str, framework: str) -> bool:
    """Return True if this version implements a model in a framework."""
    # find_spec imports the model's package, but not the framework.
    return find_spec(f"tbd_models.{model}.{framework}") is not None


def implementation(model: Model, framework: str) -> ModuleType:
    """Import a model's module for a framework; raise UnsupportedError if there is none."""
    if framework not in FRAMEWORKS:
        raise UnsupportedError(
            f"there is no framework {framework!r}; choose from {', '.join(FRAMEWORKS)}"
        )
    if not is_implemented(model.name, framework):
        have = [other for other in FRAMEWORKS if is_implemented(model.name, other)]
        raise UnsupportedError(
            f"{model.name} is not implemented in {framework}; choose from {', '.join(have)}"
        )
    return import_module(f"tbd_models.{model.name}.{framework}")
