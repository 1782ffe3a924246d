"""The paper's parts: tensors in, tensors out, no files."""

from solar.nn.backbones import BACKBONES as BACKBONES
from solar.nn.backbones.backbone import Backbone as Backbone
from solar.nn.l2net import L2Net as L2Net
from solar.nn.local_pooling import LocalPooling as LocalPooling
from solar.nn.pooling import DAME as DAME
from solar.nn.pooling import POOLINGS as POOLINGS
from solar.nn.pooling import GeM as GeM
from solar.nn.pooling import Regional as Regional
from solar.nn.pooling import l2_normalize as l2_normalize
from solar.nn.soa import SecondOrderAttention as SecondOrderAttention
from solar.nn.whitening import Whitening as Whitening
from solar.nn.whitening import pca_whitening as pca_whitening
from solar.nn.whitening import within_whitening as within_whitening
