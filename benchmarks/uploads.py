"""Large uploads at once: `python benchmarks/uploads.py [--clients 120] [--mib 31] [--json FILE]`.

A server of its own (`solar serve --writable`, no rate limit) on an index of four photos, described
by solar-r18 at 160 pixels, so that the network has little to do with it. All clients send a photo
of 31 MiB (12 megapixels of noise, and zeros that belong to no pixel) at the same moment, first to
search with, then to add; one told to come back (503 with `Retry-After`) does, until its photo is
taken. One more photo is too large. A client reads the answer once all is sent or cannot be sent any
more: "cut off" are those that could not read it, who also try again.

Memory is the most that the server held at any time, mapped files included (`VmHWM`).
"""

import argparse
import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine
from lib.memory import most_memory
from serve import BOUNDARY, served

MIB = 2**20
WAIT = 2.0  # seconds before a client that was cut off tries again
LONGEST = 600.0  # seconds after which nobody tries again


def make_index(root: Path) -> Path:
    """An index of four photos."""
    from solar.demo import toy

    toy.write(root / "photos", landmarks=2, views=2, size=(160, 120))
    command = [sys.executable, "-c", "from solar.cli import main; main()", "index", "build"]
    options = [str(root / "photos"), "-o", str(root / "photos.solar"), "--size", "160"]
    subprocess.run([*command, *options], check=True, capture_output=True)
    return root / "photos.solar"


def photo_of(size: int) -> bytes:
    """A photo of so many bytes."""
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (3000, 4000, 3), dtype=np.uint8)
    encoded = BytesIO()
    Image.fromarray(noise).save(encoded, "JPEG", quality=95)
    return encoded.getvalue() + bytes(max(size - encoded.tell(), 0))


def send(host: str, port: int, path: str, photo: bytes, number: int) -> tuple[str, float]:
    """Send a photo once: the status, and the seconds to wait before trying again."""
    field = path.rsplit("/", 1)[-1].replace("queries", "photo")
    head = f'Content-Disposition: form-data; name="{field}"; filename="{number}.jpg"'
    # The number at the end makes every photo another one, without a copy of it in memory.
    pieces = (
        f"--{BOUNDARY}\r\n{head}\r\n\r\n".encode(),
        photo,
        f"{number:06}\r\n--{BOUNDARY}--\r\n".encode(),
    )
    connection = http.client.HTTPConnection(host, port, timeout=120)
    try:
        connection.putrequest("POST", path)
        connection.putheader("Content-Type", f"multipart/form-data; boundary={BOUNDARY}")
        connection.putheader("Content-Length", str(sum(map(len, pieces))))
        connection.endheaders()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it is refused already
            for piece in pieces:
                connection.send(piece)
        answer = connection.getresponse()
        answer.read()
        return str(answer.status), float(answer.headers.get("Retry-After", 0))
    except (OSError, http.client.HTTPException):
        return "cut off", WAIT
    finally:
        connection.close()


def flood(host: str, port: int, path: str, photo: bytes, clients: int) -> dict[str, Any]:
    """Send photos from so many clients at once until all are taken."""
    statuses: Counter[str] = Counter()
    lock, started = threading.Lock(), time.perf_counter()

    def client(number: int) -> None:
        while time.perf_counter() - started < LONGEST:
            status, wait = send(host, port, path, photo, number)
            with lock:
                statuses[status] += 1
            if not wait:
                return
            time.sleep(wait)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = round(time.perf_counter() - started, 1)
    return {"seconds": seconds, "statuses": dict(sorted(statuses.items()))}


def main() -> None:
    """Make an index, flood its server, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=120)
    parser.add_argument("--mib", type=int, default=31)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    result: dict[str, Any] = {"machine": machine(), "clients": given.clients, "MiB": given.mib}
    photo, large = photo_of(given.mib * MIB), bytes(33 * MIB)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(make_index(Path(folder)), "--writable") as (process, host, port),
    ):
        result["memory_before_MiB"] = round(most_memory(process) / MIB)
        for what in ("queries", "photos"):
            result[what] = flood(host, port, f"/api/v1/{what}", photo, given.clients)
            result[what]["memory_most_MiB"] = round(most_memory(process) / MIB)
        result["too_large"] = send(host, port, "/api/v1/queries", large, 0)[0]
    text = json.dumps(result, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
