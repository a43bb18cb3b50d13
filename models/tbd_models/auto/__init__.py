"""Mark the training of a program that does not call ``tbd_trace.instrument``.

``site/sitecustomize.py`` calls :func:`install` when the interpreter starts. Nothing else is
imported until the program imports a framework, and nothing is marked until it trains.
"""

from __future__ import annotations

import os
import sys

# Importing typing and importlib would take longer than all of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Before the import of the framework: settings under which marks enclose the marked work.
_SETTINGS = {
    "tensorflow": {"TF_NUM_INTEROP_THREADS": "1"},
    "mxnet": {"MXNET_ENGINE_TYPE": "NaiveEngine"},
}
# After it: the module whose `install` waits for training.
_INSTALLERS = {
    "torch": "tbd_models.auto.pytorch",
    "keras": "tbd_models.auto.keras",
    "mxnet": "tbd_models.auto.gluon",
}


class _State:
    active = False


def install() -> None:
    """Wait for the imports of the frameworks; in a process of a fork server, they are there."""
    if directory := os.environ.get("TBD_TRACE_FORK_SERVER"):
        from pathlib import Path  # noqa: PLC0415 - as above

        from tbd_models.trial.fork_server import serve  # noqa: PLC0415 - rarely needed

        serve(Path(directory))
    _State.active = True
    sys.meta_path.insert(0, _Finder({*_SETTINGS, *_INSTALLERS}))
    for name, place in _INSTALLERS.items():
        if name in sys.modules:
            _install(place)


def is_active() -> bool:
    """Return True unless the program has called ``tbd_trace.instrument``."""
    return _State.active


def stand_down() -> None:
    """Leave the marks to the program."""
    _State.active = False


class _Finder:
    # Finds the frameworks by the other finders, to act around their execution.

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._names:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, name, self._names.discard)  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    # Replaced by the framework's own loader before the framework is executed.

    def __init__(self, loader: Any, name: str, executed: Callable[[str], None]) -> None:
        self._loader = loader
        self._name = name
        self._executed = executed

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._loader, attribute)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._executed(self._name)
        if is_active():
            for variable, value in _SETTINGS.get(self._name, {}).items():
                os.environ.setdefault(variable, value)
        self._loader.exec_module(module)
        # The memory of the other frameworks is recorded by tbd_trace.instrument alone.
        is_for_memory = bool(os.environ.get("TBD_TRACE_MEMORY_REQUEST"))
        if (
            self._name in _INSTALLERS
            and is_active()
            and (self._name == "torch" or not is_for_memory)
        ):
            _install(_INSTALLERS[self._name])


def _install(place: str) -> None:
    # An error here must not end the program, which goes on without marks.
    from importlib import import_module  # noqa: PLC0415 - as above

    try:
        import_module(place).install()
    except Exception as error:
        from tbd_models.instrument.auto_report import report  # noqa: PLC0415 - rarely needed

        report(problem=f"{type(error).__name__}: {error}")
