"""A photo at its full size: its file as it is where the server gives files out, else a new JPEG."""

import io
from pathlib import Path

from fastapi.responses import FileResponse, Response
from PIL import Image

from solar.errors import SolarError
from solar.images import image_size, load
from solar.images.opening import opened
from solar.web.problems import WebError

# What browsers show; a file of any other kind is only ever saved.
_SHOWN = {
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",  # a JPEG with more behind it, as some phones write
    "PNG": "image/png",
    "WEBP": "image/webp",
    "GIF": "image/gif",
    "AVIF": "image/avif",
}
_QUALITY = 92
_KEPT = {"Cache-Control": "private, max-age=3600"}


def original(source: Path | bytes, most: int | None) -> Response:
    """The answer with a photo at its full size; a SolarError if it is no photo any more.

    Args:
        source: What `solar.images.load` takes.
        most: The photo is upright and encoded anew, so that nothing but its pixels travels; a
            WebError where there are more than this. None sends the file with all that it says
            about itself.
    """
    if most is not None:
        return Response(_encoded(source, most), media_type="image/jpeg", headers=_KEPT)
    with opened(source) as image:  # a link may lead to anything by now: only photos are sent
        kind = _SHOWN.get(image.format or "")
    media = kind or "application/octet-stream"
    headers = _KEPT if kind else {**_KEPT, "Content-Disposition": "attachment"}
    if isinstance(source, bytes):  # from a tar shard
        return Response(source, media_type=media, headers=headers)
    return FileResponse(source, media_type=media, headers=headers)


def file_size(source: Path | bytes) -> int:
    """Bytes of a photo's file; 0 where it has just gone."""
    try:
        return len(source) if isinstance(source, bytes) else source.stat().st_size
    except OSError:
        return 0


def _encoded(source: Path | bytes, most: int) -> bytes:
    width, height = image_size(source)
    if width * height > most:
        raise WebError(
            413,
            f"The photo has {width:,} × {height:,} pixels, more than the limit of {most:,}: "
            "start the server with --originals to serve the file itself.",
        )
    buffer = io.BytesIO()
    try:
        Image.fromarray(load(source, None).pixels).save(buffer, "JPEG", quality=_QUALITY)
    except OSError as error:  # JPEG ends at 65,500 pixels a side
        raise SolarError(f"The photo cannot be converted to JPEG: {error}.") from error
    return buffer.getvalue()
