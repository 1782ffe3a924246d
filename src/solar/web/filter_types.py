"""What filters and orders look like in requests."""

from typing import Annotated, Literal

from pydantic import Field

KnownOrder = Literal["name", "newest", "oldest"]
"""Orders that need no query; photos without a capture time come last."""

HitOrder = Literal["similarity", "probability", "name", "newest", "oldest"]
"""Orders of hits, besides that of their ranks."""

Conditions = Annotated[
    list[Annotated[str, Field(max_length=500)]],
    Field(
        max_length=20,
        description="Conditions that must all hold, as for `solar search --where`: `tag=night`, "
        "`path=rome/`, `width>=1024`, `taken>=2019-07-14`, `taken<2020`, "
        "`near=48.858,2.294,500m`.",
    ),
]
RootName = Annotated[
    str | None,
    Field(
        max_length=500,
        description="Only photos of this root, by its name in `facets`; may be empty.",
    ),
]
