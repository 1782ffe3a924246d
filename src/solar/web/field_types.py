"""Fields that many requests and answers have."""

from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field

PhotoId = Annotated[
    str,
    Field(
        pattern=r"^(\d{1,12}|q-[A-Za-z0-9_-]{4,40})$",
        description="The id of an indexed or an uploaded photo.",
        examples=["17", "q-Zk3vYw8tQbLm4nXr"],
    ),
]


def _encloses(box: list[float]) -> list[float]:
    if box[0] >= box[2] or box[1] >= box[3]:
        raise ValueError("the box encloses nothing: x1 must be less than x2, and y1 less than y2")
    return box


# Not a tuple, whose schema not every reader of OpenAPI understands.
Number = TypeVar("Number", int, float)
Pair = Annotated[list[Number], Field(min_length=2, max_length=2)]
Pixel = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
BoxCorners = Annotated[
    list[Pixel],
    Field(min_length=4, max_length=4, description="x1, y1, x2, y2 in pixels of the upright photo."),
    AfterValidator(_encloses),  # of four numbers
]
