"""The paper's parts: tensors in, tensors out, no files."""

from solar.nn.backbones import BACKBONES
from solar.nn.backbones.backbone import Backbone
from solar.nn.backbones.convolutional import VGG16, AlexNet, ResNet
from solar.nn.l2net import L2Net
from solar.nn.local_pooling import LocalPooling
from solar.nn.pooling import DAME, MAC, POOLINGS, RMAC, CroW, GeM, Regional, SPoC, l2_normalize
from solar.nn.soa import AttentionFactors, SecondOrderAttention
from solar.nn.whitening import Whitening, learned_whitening, pca_whitening, within_whitening

__all__ = [
    "BACKBONES",
    "DAME",
    "MAC",
    "POOLINGS",
    "RMAC",
    "VGG16",
    "AlexNet",
    "AttentionFactors",
    "Backbone",
    "CroW",
    "GeM",
    "L2Net",
    "LocalPooling",
    "Regional",
    "ResNet",
    "SPoC",
    "SecondOrderAttention",
    "Whitening",
    "l2_normalize",
    "learned_whitening",
    "pca_whitening",
    "within_whitening",
]
