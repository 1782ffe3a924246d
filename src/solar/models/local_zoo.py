"""Networks for local features that have a name, for `solar index build --local-features NAME`."""

from solar.models.named_model import LICENCE, SFM, NamedModel

_HOW = "ptak.felk.cvut.cz/personal/toliageo/share/how/models"


def _how(name: str, file: str, architecture: str, parameters: int, *medium: float) -> NamedModel:
    """A network of HOW, with its results on Revisited Oxford and Paris."""
    return NamedModel(
        name=name,
        task="local",
        file=file,
        urls=(f"https://{_HOW}/{file}", f"http://{_HOW}/{file}"),
        sha256=None,
        architecture=architecture,
        dim=128,
        parameters=parameters,
        trained_on=SFM,
        pooling="how",
        whitening="learnt",
        reported={
            "roxford5k": {"medium": medium[0]},
            "rparis6k": {"medium": medium[1]},
        },
        source="HOW README: ASMK* of 1,000 features, longer side 1024, seven scales",
        licence=LICENCE,
    )


LOCAL_MODELS = (
    _how("how-r18", "how_r18.pth", "resnet18", 11_242_176, 75.1, 79.4),
    _how("how-r50", "how_r50-.pth", "resnet50-conv4", 8_674_496, 78.3, 80.1),
    NamedModel(
        name="delf-r50",
        task="local",
        file="delf-r50.safetensors",
        urls=(),
        sha256=None,
        architecture="resnet50-conv4",
        dim=128,
        parameters=9_332_929,
        trained_on="labelled places of one's own",
        pooling="delf",
        recipe="recipes/delf-r50.yaml",
    ),
)
