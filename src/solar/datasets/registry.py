"""What each public dataset consists of: its files, where they are published, what they become.

On disk every dataset is one folder, ``root/<name>``, laid out the same way for everybody::

    roxford5k/    gnd_roxford5k.pkl, jpg/<photo>.jpg
    rparis6k/     gnd_rparis6k.pkl, jpg/<photo>.jpg
    revisitop1m/  revisitop1m.txt, jpg/<as listed there>
    gl18/         train.csv, boxes_split1.csv, boxes_split2.csv, jpg/<id>.jpg
    sfm120k/      retrieval-SfM-120k.pkl (and two for whitening), ims/cd/ab/89/…89abcd
    hpatches/     <sequence>/{ref,e1…e5,h1…h5,t1…t5}.png
    phototour/    {liberty,notredame,yosemite}/*.bmp, info.txt, m50_100000_100000_0.txt
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from solar.errors import SolarError

BLURRED, ORIGINAL = "blurred", "original"
"""The two releases of the Oxford and Paris photos: faces blurred (June 2022, "-v1"), or not."""

_GB = 10**9


@dataclass(frozen=True)
class File:
    """One published file.

    Attributes:
        name: What it is called here, and on a mirror of the user's.
        urls: Where it is published, the preferred address first.
        sha256: Its digest or the first digits of it, where known.
        md5: Where a publisher gives only that.
    """

    name: str
    urls: tuple[str, ...]
    sha256: str | None = None
    md5: str | None = None


@dataclass(frozen=True)
class Archive:
    """A tar or zip file, perhaps cut into parts, and what becomes of its members.

    Attributes:
        name: What the archive is called in messages, and what its marker is called.
        parts: The files that, one after the other, are the archive. Mostly one.
        into: The folder inside the dataset's that its members go to.
        keep: How many components of a member's path are kept, from the end; 0 keeps all.
        suffixes: Members with other endings are left in the archive; none given takes everything.
        download: About how many bytes are fetched.
        unpacked: About how many bytes it becomes.
        release: Which of the dataset's releases it is part of, where there are several.
    """

    name: str
    parts: tuple[File, ...]
    into: str
    keep: int
    suffixes: tuple[str, ...]
    download: int
    unpacked: int
    release: str = ""


@dataclass(frozen=True)
class Dataset:
    """Everything `solar data` knows of one dataset.

    Attributes:
        name: What it is called on the command line, and its folder.
        about: One line on what it is for.
        terms: What its publishers say on its use, in short.
        page: Where they say it.
        files: Fetched as they are.
        archives: Fetched and unpacked.
        photos: How many photos (or patches, for patch sets) a complete copy holds.
        layout: How its folder is laid out: one of `solar.datasets.check.LAYOUTS`.
        ground_truths: What `solar evaluate NAME` measures on its photos, each with the number of
            photos in its database.
    """

    name: str
    about: str
    terms: str
    page: str
    files: tuple[File, ...]
    archives: tuple[Archive, ...]
    photos: int
    layout: str
    ground_truths: Mapping[str, int] = field(default_factory=dict)

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases to choose from, the one that is still published first."""
        return tuple(dict.fromkeys(a.release for a in self.archives if a.release))

    def archives_of(self, release: str) -> tuple[Archive, ...]:
        """The archives that make up one release."""
        return tuple(a for a in self.archives if a.release in ("", release))

    @property
    def download(self) -> int:
        """About how many bytes are fetched."""
        return sum(a.download for a in self._default())

    @property
    def unpacked(self) -> int:
        """About how many bytes it takes on disk."""
        return sum(a.unpacked for a in self._default())

    def _default(self) -> tuple[Archive, ...]:
        return self.archives_of(self.releases[0] if self.releases else "")


def datasets() -> tuple[Dataset, ...]:
    """Every dataset that can be had by name."""
    return _DATASETS


def find(name: str) -> Dataset:
    """The dataset with this name.

    Raises:
        SolarError: There is none; the sentence names those there are.
    """
    named = {dataset.name: dataset for dataset in _DATASETS}
    if (found := named.get(name.casefold())) is not None:
        return found
    close = difflib.get_close_matches(name.casefold(), named, n=1, cutoff=0.5)
    perhaps = f" (perhaps {close[0]}?)" if close else ""
    raise SolarError(f"There is no dataset {name!r}{perhaps}: it is one of {', '.join(named)}.")


def _one(
    file: File,
    into: str,
    keep: int,
    suffixes: tuple[str, ...],
    size: tuple[float, float],
    release: str = "",
) -> Archive:
    """An archive in one piece; `size` is its download and what it becomes, in GB."""
    download, unpacked = (round(part * _GB) for part in size)
    return Archive(file.name, (file,), into, keep, suffixes, download, unpacked, release)


# Revisited Oxford and Paris. Photos are flattened into jpg/: Paris comes in a folder a landmark.

_VGG = "https://www.robots.ox.ac.uk/~vgg/data"
_VGG_FILES = "https://thor.robots.ox.ac.uk"  # where the group keeps its large files
_REVISITED = "http://cmp.felk.cvut.cz/revisitop/data/datasets"
_CIRTORCH = "http://cmp.felk.cvut.cz/cnnimageretrieval/data"
_JPG = (".jpg", ".jpeg")


def _revisited(
    name: str,
    about: str,
    page: str,
    mirror: str,
    archives: Mapping[str, float],
    sha256: str,
    ground_truths: Mapping[str, int],
) -> Dataset:
    """A revisited set: `archives` are those of its photos, without ending, and their GB."""
    truth = f"gnd_{name}.pkl"
    urls = (f"{_REVISITED}/{name}/{truth}", f"{_CIRTORCH}/test/{name}/{truth}")
    # The original release was withdrawn; it is for those who have the files or a mirror of them.
    releases = {BLURRED: ("-v1.tgz", (page, mirror)), ORIGINAL: (".tgz", (page,))}
    return Dataset(
        name=name,
        about=about,
        terms="Photos from Flickr: its terms of use and the VGG's terms of access apply.",
        page=page,
        files=(File(truth, urls, sha256),),
        archives=tuple(
            _one(
                File(f"{stem}{end}", tuple(f"{place}{stem}{end}" for place in places)),
                "jpg",
                1,
                _JPG,
                (size, size),
                release,
            )
            for release, (end, places) in releases.items()
            for stem, size in archives.items()
        ),
        photos=ground_truths[name] + 70,
        layout="revisited",
        ground_truths=ground_truths,
    )


_ROXFORD = _revisited(
    "roxford5k",
    "Revisited Oxford: 70 queries, 4,993 database photos",
    f"{_VGG}/oxbuildings/",
    f"{_VGG_FILES}/oxbuildings/",
    {"oxbuild_images": 1.94},
    "ba7967754bd2d7d2210a5799f9c45ad5835e269a80ef9d3eba44caa35816c471",
    {"roxford5k": 4993, "oxford5k": 5063},
)

_RPARIS = _revisited(
    "rparis6k",
    "Revisited Paris: 70 queries, 6,322 database photos",
    f"{_VGG}/parisbuildings/",
    f"{_VGG_FILES}/datasets/paris-buildings/",
    {"paris_1": 1.3, "paris_2": 1.3},
    "d2e729a5293dda7dda8a15c8383424a42e4964a2c4cfea2f32fa85d11d2df499",
    {"rparis6k": 6322, "paris6k": 6392},
)

# The distractors: the list names the photos as they lie in the archives.

_R1M = "http://ptak.felk.cvut.cz/revisitop/revisitop1m"
_REVISITOP1M = Dataset(
    name="revisitop1m",
    about="One million distractors for Revisited Oxford and Paris",
    terms="Photos from Flickr, which belong to their authors; for research.",
    page="http://cmp.felk.cvut.cz/revisitop/",
    files=(File("revisitop1m.txt", (f"{_R1M}/revisitop1m.txt",)),),
    archives=tuple(
        _one(File(name, (f"{_R1M}/jpg/{name}",)), "jpg", 0, (), (4, 4))
        for name in (f"revisitop1m.{number}.tar.gz" for number in range(1, 101))
    ),
    photos=1_001_001,
    layout="listed",
)

# Google Landmarks 2018 as the paper's authors had it when they trained: one tar in 22 parts.

_BOX = "https://imperialcollegelondon.box.com/shared/static"
_GL18_PARTS = """
lbk9qwtn438a0edm5g52fv0az4o8s6ml arnssx7f80vq6lhsufxrwl7xhxixpasj
p2zlm5gobfsk85qu2evyv0q2wnu4vr4v 38uo0hgxl7dmnxizzfm0t828sba1dznv
s1ig9xfs95vvix1zvf2t9f76cydlhntq 0x3idlrbbkl3j15g16tm9tt8qjybl2r2
1barrmdjeh9552zhqh1zm2kvoike9a7f dt9v439bmb2ckl12zulgjznqaeboujdb
358t3dcewmosuw7qz4oal59xjifzzq40 jgqm8mxjjcjx68fpjgdafzdybdt56m52
0uatr2u794xz513o2uofrpl24rh7gml8 0j7bfq8f8ijalptl0dwt0nsozbslfmqf
mt04r82bl42du5sl03qkn0ms27w59qn4 dyg8txwd2recydersmpyu8y7n6fqszi3
mopb621p8lnud9m1foq98xkuqwg3a6z5 tpyuaj26un74nv5xl3qhljrjyph73af5
8qjbotgdzj1jrt7i79yv9ubag91wn6aj et02ppjjm41eebutpnv2gzdaz7iadatq
zu44mz608syhb9uy9thnkibeof72dg3p myq5vlpyqu927ffpikn1vqw059oy38k8
z7cz70tj8akf2pn8otbtcggq6k75oktr qwsairfpb25fg4vtmecykfq5qahb9j3v
"""
_GL18 = Dataset(
    name="gl18",
    about="Google Landmarks 2018: what the paper's model was trained on",
    terms="Photos belong to their authors; labels and boxes under Google's terms on Kaggle.",
    page="https://www.kaggle.com/google/google-landmarks-dataset",
    files=(
        File("train.csv", (f"{_BOX}/izj2yt4nizytt542is42wae87fg4k6sv.csv",)),
        File("boxes_split1.csv", (f"{_BOX}/2b3vhx3unjldu27p1m31z4vwfnkvcops.csv",)),
        File("boxes_split2.csv", (f"{_BOX}/d2ui9mjwcvwa6f17gaoca6w6sr7tjmzg.csv",)),
    ),
    archives=(
        Archive(
            name="GL18_TRAIN.tar.gz",
            parts=tuple(
                File(f"GL18_TRAIN.parta{letter}", (f"{_BOX}/{code}.parta{letter}",))
                for letter, code in zip("abcdefghijklmnopqrstuv", _GL18_PARTS.split(), strict=True)
            ),
            into="jpg",
            keep=1,
            suffixes=_JPG,
            # Its publishers ask for 700 GB, archive and photos together.
            download=350 * _GB,
            unpacked=350 * _GB,
        ),
    ),
    photos=1_000_000,  # "around 1-million": many of the 1.2 million addresses had gone
    layout="landmarks",
)

# Photos without an ending to their names; which ones are used is in the database files.

_SFM120K = Dataset(
    name="sfm120k",
    about="Retrieval-SfM-120k: training and whitening of the GeM networks",
    terms="Photos from Flickr, which belong to their authors; for research.",
    page="http://cmp.felk.cvut.cz/cnnimageretrieval/",
    files=tuple(
        File(name, (f"{_CIRTORCH}/train/dbs/{name}",))
        for name in (
            "retrieval-SfM-120k.pkl",
            "retrieval-SfM-120k-whiten.pkl",
            "retrieval-SfM-30k-whiten.pkl",
        )
    ),
    archives=(
        _one(File("ims.tar.gz", (f"{_CIRTORCH}/train/ims/ims.tar.gz",)), "ims", 0, (), (55, 55)),
    ),
    photos=91_642 + 6_403,
    layout="sfm120k",
)

# Patches.

HPATCHES_FILES = ("ref.png", *(f"{noise}{i}.png" for noise in "eht" for i in range(1, 6)))
"""What each of the sequences holds."""

_HPATCHES = Dataset(
    name="hpatches",
    about="HPatches: verification, matching and retrieval of patches",
    terms="See the benchmark's page; cite its paper.",
    page="https://github.com/hpatches/hpatches-benchmark",
    files=(),
    archives=(
        _one(
            File(
                "hpatches-release.zip",
                (
                    "https://huggingface.co/datasets/vbalnt/hpatches/resolve/main/hpatches-release.zip",
                ),
            ),
            "",
            2,
            (".png",),
            (4.2, 4.3),
        ),
    ),
    photos=116 * len(HPATCHES_FILES),
    layout="hpatches",
)

PHOTOTOUR_PATCHES = {"liberty": 450_092, "notredame": 468_159, "yosemite": 633_587}
"""The scenes, and how many patches each has."""

_PHOTOTOUR_MD5 = {
    "liberty": "fdd9152f138ea5ef2091746689176414",
    "notredame": "509eda8535847b8c0a90bbb210c83484",
    "yosemite": "533b2e8eb7ede31be40abc317b2fd4f0",
}


def mosaics(scene: str) -> int:
    """How many pictures of 16 × 16 patches a PhotoTour scene comes in."""
    return ceil(PHOTOTOUR_PATCHES[scene] / 256)


_PHOTOTOUR = Dataset(
    name="phototour",
    about="PhotoTour (UBC, Brown): patches to train and test local descriptors",
    terms="See its authors' page; cite their paper.",
    page="http://matthewalunbrown.com/patchdata/patchdata.html",
    files=(),
    archives=tuple(
        _one(
            File(
                f"{scene}.zip",
                (
                    f"http://icvl.ee.ic.ac.uk/vbalnt/{scene}.zip",
                    f"http://matthewalunbrown.com/patchdata/{scene}.zip",
                ),
                md5=_PHOTOTOUR_MD5[scene],
            ),
            scene,
            1,
            (".bmp", ".txt"),
            (1.5, mosaics(scene) * 1024**2 / _GB + 0.1),
        )
        for scene in PHOTOTOUR_PATCHES
    ),
    photos=sum(PHOTOTOUR_PATCHES.values()),
    layout="phototour",
)

_DATASETS = (_ROXFORD, _RPARIS, _REVISITOP1M, _GL18, _SFM120K, _HPATCHES, _PHOTOTOUR)

GROUND_TRUTHS = {name: size for d in _DATASETS for name, size in d.ground_truths.items()}
"""The sets that `solar evaluate` knows by name, and how many photos their databases hold."""
