"""The paper's parts: tensors in, tensors out, no files."""

from solar.nn.backbones import BACKBONES
from solar.nn.backbones.backbone import Backbone
from solar.nn.l2net import L2Net
from solar.nn.local_pooling import LocalPooling
from solar.nn.pooling import DAME, POOLINGS, GeM, Regional, l2_normalize
from solar.nn.soa import SecondOrderAttention
from solar.nn.whitening import Whitening, pca_whitening, within_whitening

__all__ = [
    "BACKBONES",
    "DAME",
    "POOLINGS",
    "Backbone",
    "GeM",
    "L2Net",
    "LocalPooling",
    "Regional",
    "SecondOrderAttention",
    "Whitening",
    "l2_normalize",
    "pca_whitening",
    "within_whitening",
]
