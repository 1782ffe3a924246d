"""What is known of a model with a name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

# Describes photos; describes 32×32 patches; finds and describes local features of photos; nothing
# but a backbone; one linear layer.
Task = Literal["retrieval", "patches", "local", "backbone", "whitening"]

LICENCE = "MIT (the publisher's repository; the file carries none of its own)"
SFM = "retrieval-SfM-120k"


@dataclass(frozen=True)
class NamedModel:
    """One file with a name: bundled, or published by somebody.

    Attributes:
        urls: The preferred address first; none for a bundled model, or where only `by_hand`
            is known.
        sha256: Hex digest or its first digits; None when the publisher gives none.
        architecture: The backbone, by its usual name.
        dim: Numbers in a descriptor; for a backbone, channels of the last map.
        parameters: Learnt numbers in the network; running statistics are not counted.
        attention: Layers with second-order attention, "45" for example.
        pooling: "gem", "gemmp" (one p per channel), "gem-fixed" (p is not learned) or "mac"; with
            "-r" summed over regions.
        whitening: "end-to-end" (a layer of the network), "learnt" (apply the matrix stored beside
            the weights afterwards) or "".
        reported: Published results in percent, by data set and protocol.
        source: Where those results were published, and how they were measured.
        licence: What the publisher says.
        aliases: Further names, beside the file name.
        bundled: Whether it comes with solar.
        by_hand: Where to download it with a browser, if there is no other way.
        recipe: What trains it, where nobody publishes a file of it.
        caveat: What must be said beside the results, as a whole sentence.
    """

    name: str
    task: Task
    file: str
    urls: tuple[str, ...]
    sha256: str | None
    architecture: str
    dim: int
    parameters: int
    trained_on: str
    attention: str = ""
    pooling: str = ""
    whitening: Literal["end-to-end", "learnt", ""] = ""
    reported: Mapping[str, Mapping[str, float]] = field(default_factory=dict, hash=False)
    source: str = ""
    licence: str = "see publisher"
    aliases: tuple[str, ...] = ()
    bundled: bool = False
    by_hand: str = ""
    recipe: str = ""
    caveat: str = ""
