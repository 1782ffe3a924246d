"""Map tiles: pictures of the world by zoom, column and row, from a server of somebody else.

Tiles show visitors' addresses and the region they look at to that server, so there are none unless
the administrator names one.
"""

import re

from solar.errors import SolarError

_ORIGIN = r"https://[A-Za-z0-9.-]+(?::\d+)?|http://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?"
# Also keeps what would end the policy, which names the origin, out of it.
_TEMPLATE = re.compile(rf"({_ORIGIN})/(?:[^\s{{}}]|\{{[zxy]\}})*")


def tile_origin(template: str) -> str:
    """The scheme, host and port of tiles; a SolarError if `template` is not one of tiles."""
    found = _TEMPLATE.fullmatch(template)
    if found is None or not all(f"{{{name}}}" in template for name in "zxy"):
        raise SolarError(
            f"`tiles={template}` is not an address of map tiles: write one with https (http only "
            "for this machine) and {z}, {x} and {y}, such as "
            "https://tiles.example.org/{z}/{x}/{y}.png."
        )
    return found[1]
