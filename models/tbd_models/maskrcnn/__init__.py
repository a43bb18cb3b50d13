"""Mask R-CNN: what its frameworks share."""

from __future__ import annotations

from dataclasses import dataclass, field

from tbd_models import resnet50
from tbd_models.definition import Model, Variant


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Dimensions of Mask R-CNN on a feature pyramid.

    Attributes:
        height: rows of an image, a multiple of 32, padding included.
        width: columns of an image, a multiple of 32, padding included.
        objects: most objects in an image.
        backbone: dimensions of the residual network below the pyramid.
        frozen_stages: stages of the backbone that are not trained, after the stem, which never is.
        width_fpn: channels of the pyramid, its RPN and the mask head.
        width_box: units of the two fully connected layers of the box head.
        classes: classes with the background, which is 0.
        anchor_sizes: square root of the area of the anchors of P2 to P6 in pixels.
        anchor_ratios: heights of the anchors divided by their widths.
        rpn_samples: anchors that the RPN is trained on per image, at most half of them positive.
        proposals_before: proposals per image and pyramid level that enter suppression.
        proposals_after: proposals per image that are left after it.
        rois: proposals per image that the heads are trained on.
        positive_rois: most of them that hold an object; the mask head sees no others.
        canonical_size: size in pixels of a box whose features come from P4.
        box_bins: bins of the features of a box, in each direction.
        mask_bins: the same for masks, which come out twice as large.
        samples: points per bin in each direction.
        learning_rate: of stochastic gradient descent.
    """

    height: int = 800
    width: int = 1344
    objects: int = 16
    backbone: resnet50.Dimensions = field(default_factory=resnet50.Dimensions)
    frozen_stages: int = 1
    width_fpn: int = 256
    width_box: int = 1024
    classes: int = 81
    anchor_sizes: tuple[int, ...] = (32, 64, 128, 256, 512)
    anchor_ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    rpn_samples: int = 256
    proposals_before: int = 2000
    proposals_after: int = 1000
    rois: int = 512
    positive_rois: int = 128
    canonical_size: int = 224
    box_bins: int = 7
    mask_bins: int = 14
    samples: int = 2
    learning_rate: float = 0.0025

    @property
    def strides(self) -> tuple[int, ...]:
        """Pixels per cell of P2 to P6."""
        return (4, 8, 16, 32, 64)

    @property
    def maps(self) -> tuple[tuple[int, int], ...]:
        """Height and width of P2 to P6."""
        return tuple((-(-self.height // s), -(-self.width // s)) for s in self.strides)


MODEL = Model(
    name="maskrcnn",
    title="Mask R-CNN",
    application="object detection",
    frameworks=("pytorch", "tensorflow"),
    layers="101",
    dominant_layer="CONV",
    dominant_types=("Conv2d", "Conv2D"),
    batch_definition="images",
    throughput_unit="images/s",
    variants=(
        Variant(
            name="r50-fpn",
            dimensions=Dimensions(),
            small=Dimensions(
                height=128,
                width=160,
                objects=4,
                backbone=resnet50.Dimensions(widths=(8, 8, 16, 16), stem_width=8, blocks=(1,) * 4),
                width_fpn=16,
                width_box=32,
                classes=5,
                anchor_sizes=(8, 16, 32, 64, 128),
                rpn_samples=64,
                proposals_before=50,
                proposals_after=30,
                rois=16,
                positive_rois=4,
                canonical_size=56,
                learning_rate=0.01,
            ),
            dataset="COCO 2014",
            default_batch_size=2,
            sweep=(1, 2),
            optimizer="sgd",
            parameters=44_125_173,
            forward_flop=543_692_683_776,
            training_flop=1_549_397_257_728,
            source="He et al. 2017, arXiv:1703.06870; Detectron, e2e_mask_rcnn_R-50-FPN_1x",
        ),
    ),
    notes=(
        "44,347,573 parameters, of which stem and first stage (222,400) are not trained; batch "
        "normalization is frozen. All images are padded to one size (short side 800, width 1344). "
        "Before suppression the 2000 best proposals of every pyramid level are taken, after it the "
        "1000 best of the image. FLOP are those of training, with 512 boxes and 128 masks per "
        "image. The site's 101 layers do not fit a backbone of 50."
    ),
)
