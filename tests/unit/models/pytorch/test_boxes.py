"""Arithmetic of boxes and RoIAlign against slow, plain versions of the same."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from tbd_models.pytorch import boxes  # noqa: E402
from tbd_models.pytorch.roi import Maps, roi_align  # noqa: E402

corner = st.integers(0, 12)
extent = st.integers(1, 8)
box = st.tuples(corner, corner, extent, extent).map(
    lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])
)
some_boxes = st.lists(box, min_size=1, max_size=14)


def slow_iou(a, b) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def slow_suppression(found, valid, threshold: float) -> list[bool]:
    kept: list[int] = []
    for number, candidate in enumerate(found):
        overlaps = (slow_iou(found[other], candidate) > threshold for other in kept)
        if valid[number] and not any(overlaps):
            kept.append(number)
    return [number in kept for number in range(len(found))]


@settings(max_examples=40)
@given(some_boxes, some_boxes)
def test_overlap_of_all_pairs(first, second) -> None:
    got = boxes.iou(torch.tensor(first).float(), torch.tensor(second).float())
    expected = [[slow_iou(a, b) for b in second] for a in first]
    torch.testing.assert_close(got, torch.tensor(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.data(), some_boxes, st.sampled_from([0.11, 0.31, 0.53, 0.71]))
def test_suppression_is_the_greedy_loop(data, found, threshold) -> None:
    valid = data.draw(st.lists(st.booleans(), min_size=len(found), max_size=len(found)))
    got = boxes.keep_mask(torch.tensor(found).float(), torch.tensor(valid), threshold)
    assert got.tolist() == slow_suppression(found, valid, threshold)


def test_suppression_along_a_chain_and_of_several_images_at_once() -> None:
    # Each box overlaps its neighbours alone, so every second one stays: the worst case.
    chain = torch.tensor([[4.0 * n, 0.0, 4.0 * n + 10, 10.0] for n in range(21)])
    apart = torch.tensor([[40.0 * n, 0.0, 40.0 * n + 10, 10.0] for n in range(21)])
    valid = torch.ones(2, 21, dtype=torch.bool)
    kept = boxes.keep_mask(torch.stack([chain, apart]), valid, 0.4)
    assert kept[0].tolist() == [n % 2 == 0 for n in range(21)]
    assert kept[1].all()


@settings(max_examples=40)
@given(some_boxes, some_boxes)
def test_decoding_undoes_encoding(targets, anchors) -> None:
    count = min(len(targets), len(anchors))
    aim = torch.tensor(targets[:count]).float()
    anchor = torch.tensor(anchors[:count]).float()
    deltas = boxes.encode(aim, anchor, (10, 5))
    torch.testing.assert_close(boxes.decode(deltas, anchor, (10, 5)), aim, rtol=1e-4, atol=1e-3)


def test_an_anchor_shifted_by_its_width_and_doubled() -> None:
    anchor, aim = torch.tensor([[0.0, 0, 10, 20]]), torch.tensor([[5.0, -10, 25, 30]])
    expected = torch.tensor([[1.0, 0.0, math.log(2), math.log(2)]])
    torch.testing.assert_close(boxes.encode(aim, anchor), expected)


def test_anchors_are_centred_on_cells_with_the_areas_asked_for() -> None:
    anchors = boxes.grid_anchors(2, 3, 16, [32.0, 64.0], [0.5, 1.0, 2.0])
    assert anchors.shape == (2 * 3 * 6, 4)
    centre, size = boxes.centre_and_size(anchors.view(2, 3, 2, 3, 4))
    row, column, number, ratio = 1, 2, 1, 2
    assert centre[row, column, number, ratio].tolist() == pytest.approx([40.0, 24.0])
    width, height = size[row, column, number, ratio].tolist()
    assert width * height == pytest.approx(64**2)
    assert height / width == pytest.approx(2)


def test_clipping() -> None:
    got = boxes.clip(torch.tensor([[-5.0, 2.0, 30.0, 90.0]]), 40, 20)
    assert got.tolist() == [[0.0, 2.0, 20.0, 40.0]]


@pytest.mark.slow
@settings(max_examples=40)
@given(st.data(), some_boxes, some_boxes, st.booleans())
def test_assignment(data, anchors, objects, force) -> None:
    present = data.draw(st.lists(st.booleans(), min_size=len(objects), max_size=len(objects)))
    overlap = torch.tensor([[slow_iou(a, b) for b in objects] for a in anchors])
    matched, kind = boxes.assign(overlap[None], torch.tensor([present]), 0.6, 0.3, force)
    for number in range(len(anchors)):
        values = [float(v) for v, there in zip(overlap[number], present, strict=True) if there]
        best = max(values, default=-1.0)
        expected = (
            1 if best >= overlap.new_tensor(0.6) else 0 if best < overlap.new_tensor(0.3) else -1
        )
        for column in range(len(objects)):
            top = overlap[:, column].max()
            if force and present[column] and top > 0 and overlap[number, column] == top:
                expected = 1
        assert int(kind[0, number]) == expected
        if best >= 0:
            assert float(overlap[number, matched[0, number]]) == best
            assert present[int(matched[0, number])]


@settings(max_examples=40)
@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=8, max_size=30), st.integers(1, 4))
def test_sampling(kinds, positives) -> None:
    index, positive, used = boxes.sample(torch.tensor([kinds]), 8, positives)
    drawn = [kinds[number] for number in index[0].tolist()]
    assert len(set(index[0].tolist())) == 8
    count = min(positives, kinds.count(1))
    assert positive[0].tolist() == [number < count for number in range(8)]
    assert drawn[:count] == [1] * count
    background = min(8 - count, kinds.count(0))
    assert drawn[count : count + background] == [0] * background
    assert used[0].tolist() == [number < count + background for number in range(8)]


def slow_value(image, y: float, x: float):
    """Interpolate between the four nearest pixels of an image (C, H, W)."""
    height, width = image.shape[1:]
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    total = torch.zeros(image.shape[0])
    for row, column in itertools.product(range(height), range(width)):
        weight = max(0.0, 1 - abs(y - row)) * max(0.0, 1 - abs(x - column))
        total += weight * image[:, row, column]
    return total


def slow_roi_align(image, region, bins: int, samples: int):
    left, top, right, bottom = region
    high, wide = max(bottom - top, 1.0) / bins, max(right - left, 1.0) / bins
    out = torch.zeros(image.shape[0], bins, bins)
    for row, column in itertools.product(range(bins), repeat=2):
        for down, across in itertools.product(range(samples), repeat=2):
            y = top + (row + (down + 0.5) / samples) * high
            x = left + (column + (across + 0.5) / samples) * wide
            out[:, row, column] += slow_value(image, y, x) / samples**2
    return out


def test_roi_align_is_interpolation_point_by_point() -> None:
    generator = torch.Generator().manual_seed(1)
    fine = torch.randn(2, 3, 9, 7, generator=generator)
    coarse = torch.randn(2, 3, 4, 5, generator=generator)
    rows = torch.cat([m.permute(0, 2, 3, 1).reshape(-1, 3) for m in (fine, coarse)])
    regions = [
        (0.0, 0.0, 7.0, 9.0),
        (1.3, 2.7, 4.1, 3.3),
        (2.0, 1.0, 2.2, 1.1),
        (3.5, 0.2, 5.0, 4.0),
    ]
    maps = [fine[0], fine[1], coarse[0], coarse[1]]
    start = torch.tensor([0, 63, 126, 146])
    height, width = torch.tensor([9, 9, 4, 4]), torch.tensor([7, 7, 5, 5])
    got = roi_align(Maps(rows, start, height, width), torch.tensor(regions), 3, 2)
    expected = torch.stack([slow_roi_align(m, r, 3, 2) for m, r in zip(maps, regions, strict=True)])
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_roi_align_hands_all_gradient_back() -> None:
    rows = torch.zeros(20, 2, requires_grad=True)
    region = torch.tensor([[0.7, 0.9, 3.1, 2.2]])
    size = torch.tensor([4]), torch.tensor([5])
    roi_align(Maps(rows, torch.tensor([0]), *size), region, 7, 2).sum().backward()
    # Each of 49 bins is a mean with weights that add up to one.
    assert rows.grad is not None
    torch.testing.assert_close(rows.grad.sum(0), torch.full((2,), 49.0))
