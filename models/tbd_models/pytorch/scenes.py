"""Synthetic images with objects in them, for object detection."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tbd_models.pytorch.workload import Batch


def scene_batch(
    size: int,
    image: tuple[int, int],
    classes: int,
    objects: int,
    generator: torch.Generator,
    *,
    masks: bool = False,
) -> Batch:
    """Return images of rectangles (odd classes) and ellipses (even classes), coloured by class.

    Args:
        size: number of images N.
        image: height H and width W.
        classes: classes of objects, numbered from 1.
        objects: most objects G in an image; every image has at least one.
        generator: what the images depend on.
        masks: whether to return masks too.

    Returns:
        ``image`` (N, 3, H, W) and ``box`` (N, G, 4; left, top, right, bottom in pixels) in float32,
        ``label`` (N, G) in int64, 0 where there is no object, and ``mask`` (N, G, H, W) in uint8.
    """
    height, width = image
    number = torch.randint(1, objects + 1, (size, 1), generator=generator)
    present = torch.arange(objects) < number
    label = torch.randint(1, classes + 1, (size, objects), generator=generator) * present
    extent = torch.tensor([width, height], dtype=torch.float32)
    box_size = (0.1 + 0.4 * torch.rand(size, objects, 2, generator=generator)) * extent
    start = torch.rand(size, objects, 2, generator=generator) * (extent - box_size)
    box = torch.cat([start, start + box_size], -1) * present[..., None]
    picture = 0.1 * torch.randn(size, 3, height, width, generator=generator)
    colour = torch.sin(label[..., None] * torch.tensor([0.7, 1.9, 3.1]))
    batch = {"image": picture, "box": box, "label": label}
    if masks:
        batch["mask"] = torch.zeros(size, objects, height, width, dtype=torch.uint8)
    for sample, number_of_object in present.nonzero().tolist():
        corners = box[sample, number_of_object].tolist()
        rectangle = int(label[sample, number_of_object]) % 2 == 1
        inside, rows, columns = _shape(corners, rectangle)
        # Later objects lie on top of earlier ones; masks do not tell.
        picture[sample, :, rows, columns][:, inside] = colour[sample, number_of_object, :, None]
        if masks:
            batch["mask"][sample, number_of_object, rows, columns] = inside
    return batch


def _shape(corners: list[float], rectangle: bool) -> tuple[Tensor, slice, slice]:
    """Return which pixels have their centre in a shape, and the rows and columns they are of."""
    left, top, right, bottom = corners
    rows = slice(math.floor(top), math.ceil(bottom))
    columns = slice(math.floor(left), math.ceil(right))
    y = torch.arange(rows.start, rows.stop)[:, None] + 0.5
    x = torch.arange(columns.start, columns.stop)[None, :] + 0.5
    across = (2 * x - left - right) / (right - left)  # -1 to 1 inside
    down = (2 * y - top - bottom) / (bottom - top)
    if rectangle:
        return (across.abs() <= 1) & (down.abs() <= 1), rows, columns
    return across**2 + down**2 <= 1, rows, columns
