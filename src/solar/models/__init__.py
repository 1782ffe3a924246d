"""Whole networks, their names and their files.

Everything named here is imported when it is first used: `zoo` alone needs no torch.
"""

from typing import TYPE_CHECKING

from solar.lazy import on_first_use

if TYPE_CHECKING:
    from solar.models.checkpoint import Model as Model
    from solar.models.checkpoint import fingerprint as fingerprint
    from solar.models.checkpoint import load as load
    from solar.models.checkpoint import load_whitening as load_whitening
    from solar.models.checkpoint import retrieval_model as retrieval_model
    from solar.models.checkpoint import save as save
    from solar.models.export import convert as convert
    from solar.models.patch_net import PATCH_REDUCTIONS as PATCH_REDUCTIONS
    from solar.models.patch_net import PatchConfig as PatchConfig
    from solar.models.patch_net import PatchNet as PatchNet
    from solar.models.retrieval_config import REDUCTIONS as REDUCTIONS
    from solar.models.retrieval_config import SCALES as SCALES
    from solar.models.retrieval_config import RetrievalConfig as RetrievalConfig
    from solar.models.retrieval_config import attention_at as attention_at
    from solar.models.retrieval_net import RetrievalNet as RetrievalNet
else:
    __all__, __getattr__, __dir__ = on_first_use(
        __name__,
        {
            "solar.models.checkpoint": "Model fingerprint load load_whitening retrieval_model save",
            "solar.models.export": "convert",
            "solar.models.patch_net": "PATCH_REDUCTIONS PatchConfig PatchNet",
            "solar.models.retrieval_config": "REDUCTIONS RetrievalConfig SCALES attention_at",
            "solar.models.retrieval_net": "RetrievalNet",
        },
    )
