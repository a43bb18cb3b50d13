"""Find model and optimizer of a running PyTorch program, and mark its training.

The first optimizer step shows the parameters that are trained, and the modules that hold them. The
next iteration shows which of these the program calls. Marks begin with the one after it. Hooks on
the found modules are used rather than global ones, with which ``torch.compile`` works differently.

Several optimizers step in turn, or one of them less often, as that of a generator after several
steps of its critic. An iteration ends with the step of the optimizer that steps least often.
"""

from __future__ import annotations

import atexit
import gc
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from tbd_models import auto
from tbd_models.instrument.auto_report import report
from tbd_models.instrument.flight_dump import dump_later
from tbd_models.instrument.memory_request import requested as requested_memory
from tbd_models.instrument.trained_models_pytorch import joined, models, parameters
from tbd_models.instrument.trial_request import requested as requested_trial

_PATIENCE = 20  # steps of one optimizer in which others that exist may begin to step


def install() -> None:
    """Wait for the first optimizer step; apply a change of ``tbd-trace try``.

    If memory is requested, wait for the first training call instead.
    """
    dump_later()
    if (memory := requested_memory()) is not None:
        from tbd_models.unedited.program_pytorch import install as install_memory  # noqa: PLC0415

        install_memory(memory, auto.is_active)
        return
    if (request := requested_trial()) is not None:
        from tbd_models.trial.program_pytorch import install as install_trial  # noqa: PLC0415

        install_trial(request)
    # Never removed: a hook cannot remove itself while PyTorch iterates over the hooks.
    register_optimizer_step_post_hook(_Search().stepped)


class _Search:
    # Iterations end with the steps of the optimizer that steps first, or of one that begins to step
    # when that has stepped several times.

    def __init__(self) -> None:
        self._is_over = False
        self._optimizers: list[torch.optim.Optimizer] = []  # in the order of their first steps
        self._steps: list[int] = []  # of each of them
        self._boundary = 0  # the one whose steps end iterations
        self._existing: WeakSet[torch.optim.Optimizer] | None = None
        self._models: list[nn.Module] = []
        self._calls: _Calls | None = None

    def stepped(self, optimizer: torch.optim.Optimizer, _given: Any, _named: Any) -> None:
        if self._is_over:
            return
        if not auto.is_active():
            self._end()
            return
        try:
            self._advance(optimizer)
        except Exception as error:  # must not end the training, which goes on without marks
            self._end()
            report(framework="pytorch", problem=f"{type(error).__name__}: {error}")

    def _advance(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._optimizers:
            atexit.register(self._report_end)
        numbers = [n for n, known in enumerate(self._optimizers) if known is optimizer]
        if not numbers:
            self._add(optimizer)
            return
        (number,) = numbers
        self._steps[number] += 1
        if number == self._boundary and not self._awaits_another():
            self._mark()
            self._end()

    def _add(self, optimizer: torch.optim.Optimizer) -> None:
        if self._optimizers and self._steps[self._boundary] > 1:
            self._boundary = len(self._optimizers)
        self._optimizers.append(optimizer)
        self._steps.append(1)
        self._watch()

    def _awaits_another(self) -> bool:
        return self._steps[self._boundary] < _PATIENCE and self._others_exist()

    def _others_exist(self) -> bool:
        # Objects that wrap an optimizer, as those of Accelerate, have its parameters.
        if self._existing is None:
            self._existing = WeakSet(
                one for one in gc.get_objects() if issubclass(type(one), torch.optim.Optimizer)
            )
        trained = parameters(self._optimizers)
        return any(not parameters([one]) <= trained for one in self._existing)

    def _watch(self) -> None:
        if self._calls is not None:
            self._calls.remove()
        self._models = models(self._optimizers)
        self._calls = _Calls(self._models)

    def _mark(self) -> None:
        from tbd_models.instrument.profiler_training_pytorch import requested  # noqa: PLC0415
        from tbd_models.instrument.training_pytorch import training_marks  # noqa: PLC0415

        assert self._calls is not None
        called = self._calls.outermost
        if not self._models or not called:
            report(framework="pytorch", problem="no module with the trained parameters was called")
            return
        self._calls.remove()
        if (request := requested_trial()) is not None and request.change is not None:
            from tbd_models.trial.changes_pytorch import apply_to_models  # noqa: PLC0415

            apply_to_models(request.change, self._models, called)
        model = self._models[0] if len(self._models) == 1 else joined(self._models)
        optimizer, steps = self._optimizers[self._boundary], self._steps[self._boundary]
        report(
            framework="pytorch",
            framework_version=torch.__version__,
            boundary=f"steps of {type(optimizer).__name__}{self._among()}",
            model=" and ".join(type(module).__name__ for module in self._models),
        )
        # After the report, which the marks change if they cannot record.
        training_marks(model, optimizer, None, requested(), first=steps, called=called)

    def _among(self) -> str:
        count = len(self._optimizers)
        if count > 1:
            return f", the {'rarest' if self._boundary else 'first'} of {count} optimizers"
        if self._others_exist():
            return f"; another optimizer has not stepped in {_PATIENCE} of them"
        return ""

    def _report_end(self) -> None:
        if self._is_over:
            return
        steps, problem = self._steps[self._boundary], None
        if steps > 1:
            problem = f"another optimizer has not stepped in {steps} steps"
        report(
            framework="pytorch",
            framework_version=torch.__version__,
            steps=steps,
            problem=problem,
        )

    def _end(self) -> None:
        self._is_over = True
        if self._calls is not None:
            self._calls.remove()
        # References would keep models alive that the program has dropped.
        self._optimizers, self._models, self._calls, self._existing = [], [], None, None


class _Calls:
    # Notes which modules with parameters the program calls in training.

    def __init__(self, models: list[nn.Module]) -> None:
        self.outermost: list[nn.Module] = []
        self._running: list[nn.Module] = []
        self._handles = [
            handle
            for model in models
            for module in model.modules()
            for handle in (
                module.register_forward_pre_hook(self._begin),
                module.register_forward_hook(self._end, always_call=True),
            )
        ]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _begin(self, module: nn.Module, _inputs: Any) -> None:
        if not self._running and module.training and torch.is_grad_enabled():
            is_known = any(module is known for known in self.outermost)
            if not is_known and next(module.parameters(), None) is not None:
                self.outermost.append(module)
        self._running.append(module)

    def _end(self, _module: nn.Module, _inputs: Any, _outputs: Any) -> None:
        if self._running:
            self._running.pop()
