"""What a toy photo shows: a building, the light on it, and the scene around it."""

from dataclasses import dataclass

Colour = tuple[int, int, int]
DARK: Colour = (46, 42, 44)  # of beams, hands of clocks, and what lies behind openings


@dataclass(frozen=True)
class Light:
    """Colours at an hour of the day."""

    zenith: Colour  # the sky overhead
    horizon: Colour  # the sky low down, which is also the colour of haze
    cloud: Colour
    tint: tuple[float, float, float]  # what every unlit colour is multiplied by
    shadow: float  # how dark cast shadows are: 0 none, 1 black
    lit: float  # how many windows have their lamps on
    glass: Colour  # what an unlit window reflects

    def on(self, colour: Colour, strength: float = 1.0) -> Colour:
        """The colour as it looks in this light, `strength` times as bright."""
        red, green, blue = (
            min(255, int(c * t * strength)) for c, t in zip(colour, self.tint, strict=True)
        )
        return red, green, blue


@dataclass(frozen=True)
class Tower:
    """A tower that stands in front of the wall; its `height` includes the wall's."""

    x: float
    width: float
    height: float
    cap: str
    cap_height: float
    clock: bool


@dataclass(frozen=True)
class Building:
    """A landmark, independent of viewpoint and time."""

    floors: int
    bays: int
    floor_height: float
    bay_width: float
    depth: float
    texture: str
    window: str
    window_width: float  # of a bay
    window_height: float  # of a floor
    panes: int
    shutters: bool
    cornice_every: int  # floors between two ledges; 0 for none
    columns: str
    ground_floor: str
    door: str
    door_width: float
    roof: str
    roof_height: float
    emblem: str
    banners: int
    towers: tuple[Tower, ...]
    wall: Colour
    trim: Colour
    tiles: Colour
    accent: Colour
    blind: frozenset[tuple[int, int]]  # (floor, bay) of the windows that were walled up
    grain: int  # seeds the irregularities of the masonry

    @property
    def width(self) -> float:
        """Of the main wall."""
        return self.bays * self.bay_width

    @property
    def wall_height(self) -> float:
        """From the ground to the eaves."""
        return self.floors * self.floor_height

    @property
    def half(self) -> float:
        """Half the width of everything, towers and eaves included."""
        return max([self.width / 2 + 0.6] + [abs(t.x) + t.width / 2 + 0.5 for t in self.towers])

    @property
    def height(self) -> float:
        """Of everything, the tip of the highest spire included."""
        tops = [t.height + t.cap_height for t in self.towers]
        return max([self.wall_height + self.roof_height, *tops]) * 1.02 + 0.8


@dataclass(frozen=True)
class Occluder:
    """Something between the camera and the building."""

    kind: str
    along: float  # -1 … 1 over the width of the picture
    near: float  # of the way from the façade to the camera
    size: float  # of its usual height
    colour: Colour


@dataclass(frozen=True)
class Scene:
    """What changes from one photo of a landmark to the next."""

    light: str
    angle: float  # degrees; positive when the camera stands to the right of the building
    eye: float  # metres above the ground
    roll: float  # degrees
    zoom: float  # how much of the picture the building fills
    aim: tuple[float, float]  # what the camera points at, from the middle, in building sizes
    lens: float  # focal length, in longer sides of the picture
    sun: float  # -1 from the left … 1 from the right
    cast: float  # where a neighbour's shadow ends on the façade; below 0 for none
    clouds: float
    haze: float
    ground: Colour
    road: float  # metres from the front; 0 for none
    occluders: tuple[Occluder, ...]
    exposure: float
    warmth: float
    contrast: float
    vignette: float
    blur: float
    noise: float
    quality: int  # of the JPEG
    clutter: int  # seeds skyline, neighbours, trees, clouds, lamps and noise


LIGHTS: dict[str, Light] = {
    "day": Light(
        zenith=(62, 128, 206), horizon=(200, 224, 240), cloud=(252, 252, 252),
        tint=(1.12, 1.1, 1.06), shadow=0.42, lit=0.0, glass=(84, 112, 142),
    ),
    "morning": Light(
        zenith=(116, 168, 218), horizon=(252, 228, 196), cloud=(255, 242, 228),
        tint=(1.16, 1.06, 0.92), shadow=0.45, lit=0.03, glass=(108, 122, 138),
    ),
    "overcast": Light(
        zenith=(150, 160, 172), horizon=(212, 216, 220), cloud=(230, 232, 234),
        tint=(0.9, 0.93, 0.96), shadow=0.12, lit=0.12, glass=(80, 90, 100),
    ),
    "dusk": Light(
        zenith=(76, 78, 140), horizon=(252, 166, 108), cloud=(244, 156, 144),
        tint=(0.98, 0.74, 0.68), shadow=0.3, lit=0.4, glass=(92, 74, 98),
    ),
    "night": Light(
        zenith=(16, 24, 58), horizon=(62, 72, 118), cloud=(58, 66, 98),
        tint=(0.58, 0.56, 0.68), shadow=0.2, lit=0.55, glass=(28, 34, 60),
    ),
}  # fmt: skip


def mix(a: Colour, b: Colour, t: float) -> Colour:
    """A colour between two: `a` where t is 0, `b` where it is 1."""
    red, green, blue = (int(x + (y - x) * t) for x, y in zip(a, b, strict=True))
    return red, green, blue
