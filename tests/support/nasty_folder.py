"""A folder as real life fills it: photos among everything that looks like one and is none."""

import io
import os
import socket
from pathlib import Path

import numpy as np
from PIL import Image

GOOD = {
    "a.jpg",
    "b.png",
    "deep/er/c.webp",
    "line\nbreak.jpg",
    "escape\x1b[31m.jpg",
    "[/b] & <i>.jpg",
    "iphone.heic",
    "linked/by-link.jpg",
}
"""The photos that can be described, by name."""


def photo(seed: int, kind: str = "JPEG", size: tuple[int, int] = (96, 72)) -> bytes:
    """The bytes of a small photo that is like no other."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    image = Image.fromarray(blocks).resize(size, Image.Resampling.BICUBIC)
    buffer = io.BytesIO()
    if kind == "HEIF":
        import pillow_heif

        pillow_heif.from_pillow(image).save(buffer)
    else:
        image.save(buffer, kind)
    return buffer.getvalue()


def fill(folder: Path) -> dict[str, str]:
    """Fill a new folder; what must be skipped, with a word of the reason."""
    folder.mkdir(parents=True)
    outside = folder.with_name(f"{folder.name}-elsewhere")
    outside.mkdir()
    (outside / "by-link.jpg").write_bytes(photo(7))
    (folder / "linked").symlink_to(outside)
    (folder / "loop").symlink_to(folder)  # and everything once more, without an end
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "up").symlink_to(folder / "deep")
    kinds = {".png": "PNG", ".webp": "WEBP", ".heic": "HEIF"}
    for seed, name in enumerate(sorted(GOOD - {"linked/by-link.jpg"})):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(photo(seed, kinds.get(Path(name).suffix, "JPEG")))
    for width, height in ((1, 1), (33, 1), (5000, 2), (3000, 5)):
        thin = photo(100 + width, "PNG", (width, height))
        (folder / f"{width}x{height}.png").write_bytes(thin)
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "cut.jpg").write_bytes(photo(50)[:400])
    (folder / "text.jpg").write_text("no photo at all")
    (folder / "camera.NEF").write_bytes(b"II*\0" + bytes(100))
    (folder / "nowhere.jpg").symlink_to(folder / "gone.jpg")
    os.mkfifo(folder / "pipe.jpg")
    listening = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(folder)  # the path of a socket may only be short
    listening.bind("socket.jpg")
    os.chdir(here)
    listening.close()
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.jpg")).write_bytes(photo(51))
    skipped = {
        "1x1.png": "at least 8",
        "33x1.png": "at least 8",
        "5000x2.png": "at least 8",
        "3000x5.png": "at least 8",
        "empty.jpg": "empty",
        "cut.jpg": "damaged",
        "text.jpg": "not a photo",
        "camera.NEF": "not a photo",
        "nowhere.jpg": "link to nothing",
        "pipe.jpg": "a pipe",
        "socket.jpg": "a socket",
        "caf\udce9.jpg": "not UTF-8",
    }
    try:
        os.mknod(folder / "device.jpg", 0o600 | 0o020000, os.makedev(1, 3))
    except PermissionError:  # only root may make one
        return skipped
    return {**skipped, "device.jpg": "a device"}
