"""Attention maps of a whole backbone, held in memory as the published code does."""

from torch import Tensor

from solar.nn import Backbone, SecondOrderAttention


def whole_maps(
    backbone: Backbone, x: Tensor, *, picture_scale: bool = True
) -> tuple[Tensor, dict[int, Tensor]]:
    """What the backbone gives, and by layer number the (b, n, n) maps over n locations."""
    maps: dict[int, Tensor] = {}

    def keep(layer: int, block: SecondOrderAttention, x: Tensor) -> Tensor:
        x, maps[layer] = block.forward_with_map(x, picture_scale=picture_scale)
        return x

    return backbone.run(x, keep), maps
