"""LAMB against a plain computation in float64, one tensor at a time."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

from tbd_models.pytorch.lamb import Lamb  # noqa: E402

SHAPES = [(3, 4), (5,), (2, 3, 2), (1, 1)]


def _expected(
    weight: NDArray[Any],
    gradients: list[NDArray[Any]],
    *,
    lr: float,
    decay: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-6,
) -> NDArray[Any]:
    """Algorithm 2 of arXiv:1904.00962, its scaling function the identity."""
    mean, square = np.zeros_like(weight), np.zeros_like(weight)
    for step, gradient in enumerate(gradients, 1):
        mean = betas[0] * mean + (1 - betas[0]) * gradient
        square = betas[1] * square + (1 - betas[1]) * gradient**2
        unbiased = mean / (1 - betas[0] ** step), square / (1 - betas[1] ** step)
        direction = unbiased[0] / (np.sqrt(unbiased[1]) + eps) + decay * weight
        scale = 1.0
        lengths = np.linalg.norm(weight.ravel()), np.linalg.norm(direction.ravel())
        if decay > 0 and min(lengths) > 0:
            scale = lengths[0] / lengths[1]
        weight = weight - lr * scale * direction
    return weight


@pytest.mark.parametrize("decay", [0.0, 0.01, 0.5])
def test_steps_are_those_of_the_algorithm(decay: float) -> None:
    random = np.random.default_rng(0)
    starts = [random.standard_normal(shape) for shape in SHAPES]
    gradients = [[random.standard_normal(shape) for shape in SHAPES] for _ in range(5)]
    weights = [torch.nn.Parameter(torch.tensor(start)) for start in starts]
    settings = {"lr": 0.03, "betas": (0.8, 0.95), "eps": 1e-6}
    optimizer = Lamb(weights, weight_decay=decay, **settings)
    for step in gradients:
        for weight, gradient in zip(weights, step, strict=True):
            weight.grad = torch.tensor(gradient)
        optimizer.step()
    for number, (weight, start) in enumerate(zip(weights, starts, strict=True)):
        expected = _expected(start, [step[number] for step in gradients], decay=decay, **settings)
        np.testing.assert_allclose(weight.detach().numpy(), expected, rtol=1e-12)


def test_groups_have_settings_of_their_own() -> None:
    random = np.random.default_rng(1)
    starts = [random.standard_normal((3, 2)) for _ in range(2)]
    gradient = random.standard_normal((3, 2))
    weights = [torch.nn.Parameter(torch.tensor(start)) for start in starts]
    for weight in weights:
        weight.grad = torch.tensor(gradient)
    Lamb(
        [
            {"params": weights[:1], "weight_decay": 0.1, "lr": 0.5},
            {"params": weights[1:], "weight_decay": 0.0},
        ],
        lr=0.2,
    ).step()
    for weight, start, lr, decay in zip(weights, starts, (0.5, 0.2), (0.1, 0.0), strict=True):
        expected = _expected(start, [gradient], lr=lr, decay=decay)
        np.testing.assert_allclose(weight.detach().numpy(), expected, rtol=1e-12)


def test_weights_of_norm_0_take_the_unscaled_step() -> None:
    weight = torch.nn.Parameter(torch.zeros(2, 2))
    weight.grad = torch.tensor([[1.0, -1.0], [2.0, -3.0]])
    Lamb([weight], lr=0.1).step()
    expected = torch.tensor([[-0.1, 0.1], [-0.1, 0.1]])
    torch.testing.assert_close(weight.detach(), expected, atol=1e-6, rtol=0)


def test_weights_without_gradient_stay_and_the_closure_is_called() -> None:
    still, moved = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = Lamb([still, moved], lr=0.1)

    def closure() -> Any:
        loss = (moved**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2.0
    assert still.tolist() == [1.0, 1.0]
    assert max(moved.tolist()) < 1.0


def test_resumes_from_a_state_dict() -> None:
    def made(start: Any) -> tuple[Any, Any]:
        weight = torch.nn.Parameter(start.clone())
        return weight, Lamb([weight], lr=0.1)

    def step(weight: Any, optimizer: Any, number: int) -> None:
        weight.grad = torch.sin(torch.arange(6.0).reshape(2, 3) + number)
        optimizer.step()

    through, optimizer = made(torch.ones(2, 3))
    step(through, optimizer, 0)
    resumed, restored = made(through.detach())
    # A copy: torch shares the tensors of a state dict that is loaded.
    restored.load_state_dict(deepcopy(optimizer.state_dict()))
    for weight, stepper in ((through, optimizer), (resumed, restored)):
        step(weight, stepper, 1)
    assert torch.equal(through, resumed)
