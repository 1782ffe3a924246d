"""What each public dataset consists of: its files, where they are published, what they become.

On disk every dataset is one folder, `root/<name>`, laid out as docs/data.md shows.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import ceil

from solar.errors import SolarError


@dataclass(frozen=True)
class File:
    """One published file."""

    name: str  # what it is called here, and on a mirror of the user's
    urls: tuple[str, ...]  # where it is published, the preferred address first
    sha256: str | None = None  # its digest or the first digits of it, where known
    md5: str | None = None  # where a publisher gives only that
    md5_file: "File | None" = None  # where a publisher gives that as a file beside it
    mirrored: str = ""  # its path on a mirror of the user's, where that is not its name
    size: int = 0  # about how many bytes, if that is worth telling and not in its archive
    subsets: tuple[str, ...] = ()  # of the dataset that need it; none given: it is always fetched


@dataclass(frozen=True)
class Archive:
    """A tar or zip file, perhaps cut into parts, and what becomes of its members."""

    name: str  # in messages, and of its marker
    parts: tuple[File, ...]  # which, one after the other, are the archive; mostly one
    into: str  # the folder inside the dataset's that its members go to
    keep: int  # how many components of a member's path are kept, from the end; 0 keeps all
    suffixes: tuple[str, ...]  # of the members that are taken; none given takes everything
    download: int  # about how many bytes are fetched
    unpacked: int  # about how many bytes it becomes
    release: str = ""  # which of the dataset's releases it is part of, where there are several
    subset: str = ""  # which of the dataset's subsets it is part of, where there are several
    listed: str = ""  # the file of the dataset that names the photos to keep; none given: all


@dataclass(frozen=True)
class Selection:
    """A subset that is a part of another one."""

    of: str  # the other one
    listed: str  # the file of the dataset that names its photos
    share: float  # of the other one's bytes


@dataclass(frozen=True)
class Dataset:
    """Everything `solar data` has on one dataset."""

    name: str  # on the command line, and of its folder
    about: str  # one line on what it is for
    terms: str  # what its publishers say on its use, in short
    page: str  # where they say it
    files: tuple[File, ...]  # fetched as they are
    archives: tuple[Archive, ...]  # fetched and unpacked
    photos: int  # (or patches, for patch sets) of a complete copy
    layout: str  # of its folder: one of `solar.datasets.public.check.LAYOUTS`
    # What `solar evaluate NAME` measures on its photos, and how many its database has.
    ground_truths: Mapping[str, int] = field(default_factory=dict)
    selections: Mapping[str, Selection] = field(default_factory=dict)  # by the subset's name

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases to choose from, the one that is still published first."""
        return tuple(dict.fromkeys(a.release for a in self.archives if a.release))

    @property
    def subsets(self) -> tuple[str, ...]:
        """The subsets to choose from, the default one first."""
        archives, files = (a.subset for a in self.archives), (f.subsets for f in self.files)
        named = chain(self.selections, archives, chain.from_iterable(files))
        return tuple(dict.fromkeys(subset for subset in named if subset))

    def narrowed(self, only: Sequence[str] = ()) -> "Dataset":
        """What makes up some subsets (default: the first); a SolarError if one is unknown."""
        for subset in only:
            if subset not in self.subsets:
                choice = " or ".join(self.subsets) or "it comes as a whole"
                raise SolarError(f"{self.name} has no subset {subset!r}: {choice}.")
        chosen = {"", *(only or self.subsets[:1])}
        selected = {s.of: s for name, s in self.selections.items() if name in chosen}
        archives = []
        for archive in self.archives:
            if archive.subset in chosen:
                archives.append(archive)
            elif (part := selected.get(archive.subset)) is not None:
                size = round(archive.unpacked * part.share)
                archives.append(replace(archive, listed=part.listed, unpacked=size))
        files = tuple(f for f in self.files if not f.subsets or chosen.intersection(f.subsets))
        return replace(self, files=files, archives=tuple(archives))

    def archives_of(self, release: str) -> tuple[Archive, ...]:
        """The archives that make up one release."""
        return tuple(a for a in self.archives if a.release in ("", release))

    @property
    def download(self) -> int:
        """About how many bytes are fetched."""
        return self._sizes()[0]

    @property
    def unpacked(self) -> int:
        """About how many bytes it takes on disk."""
        return self._sizes()[1]

    def _sizes(self) -> tuple[int, int]:
        default = self.narrowed()
        return sizes(default.files, default.archives_of(next(iter(self.releases), "")))


def sizes(files: Sequence[File], archives: Sequence[Archive]) -> tuple[int, int]:
    """About how many bytes are downloaded, and how many they take on disk."""
    plain = sum(file.size for file in files)
    return plain + sum(a.download for a in archives), plain + sum(a.unpacked for a in archives)


BLURRED, ORIGINAL = "blurred", "original"
"""The two releases of the Oxford and Paris photos: faces blurred (June 2022, "-v1"), or not."""

_GB = 10**9


def datasets() -> tuple[Dataset, ...]:
    """Every dataset that can be had by name."""
    return _DATASETS


def find(name: str) -> Dataset:
    """The dataset with this name; a SolarError that lists them if there is none."""
    named = {dataset.name: dataset for dataset in _DATASETS}
    if (found := named.get(name.casefold())) is not None:
        return found
    close = difflib.get_close_matches(name.casefold(), named, n=1, cutoff=0.5)
    perhaps = f" (perhaps {close[0]}?)" if close else ""
    raise SolarError(f"There is no dataset {name!r}{perhaps}: choose from {', '.join(named)}.")


def _at(name: str, *folders: str, sha256: str | None = None, md5: str | None = None) -> File:
    return File(name, tuple(f"{folder}/{name}" for folder in folders), sha256, md5)


def _one(
    file: File,
    into: str,
    keep: int,
    suffixes: tuple[str, ...],
    download: float,
    unpacked: float | None = None,
    release: str = "",
) -> Archive:
    """An archive in one piece; sizes are in GB, photos being as large outside as inside."""
    packed, outside = (round(size * _GB) for size in (download, unpacked or download))
    return Archive(file.name, (file,), into, keep, suffixes, packed, outside, release)


_CIRTORCH = "http://cmp.felk.cvut.cz/cnnimageretrieval/data"
_JPG = (".jpg", ".jpeg")
_FLICKR = "Photos from Flickr, which belong to their authors; for research."


def _buildings(
    name: str,
    about: str,
    vgg: str,
    mirror: str,
    archives: tuple[str, ...],
    size: float,
    ground_truths: Mapping[str, int],
    sha256: str,
) -> Dataset:
    """Revisited Oxford or Paris. Photos are flattened into jpg/: Paris has one folder per landmark.

    `vgg` and `mirror` are folders on the two servers of the Visual Geometry Group. `archives` lack
    the ending that tells the release; each has `size` GB.
    """
    page = f"https://www.robots.ox.ac.uk/~vgg/data/{vgg}"
    blurred = (_at(f"{a}-v1.tgz", page, f"https://thor.robots.ox.ac.uk/{mirror}") for a in archives)
    # Withdrawn by their publisher; for those who still have the files or a mirror of them.
    original = (_at(f"{archive}.tgz", page) for archive in archives)
    truth = f"http://cmp.felk.cvut.cz/revisitop/data/datasets/{name}", f"{_CIRTORCH}/test/{name}"
    return Dataset(
        name,
        about,
        terms="Photos from Flickr: its terms of use and the VGG's terms of access apply.",
        page=f"{page}/",
        files=(_at(f"gnd_{name}.pkl", *truth, sha256=sha256),),
        archives=tuple(
            _one(file, "jpg", 1, _JPG, size, release=release)
            for release, files in ((BLURRED, blurred), (ORIGINAL, original))
            for file in files
        ),
        photos=ground_truths[name] + 70,
        layout="revisited",
        ground_truths=ground_truths,
    )


_ROXFORD = _buildings(
    "roxford5k",
    "Revisited Oxford: 70 queries, 4,993 database photos",
    vgg="oxbuildings",
    mirror="oxbuildings",
    archives=("oxbuild_images",),
    size=1.94,
    ground_truths={"roxford5k": 4993, "oxford5k": 5063},
    sha256="ba7967754bd2d7d2210a5799f9c45ad5835e269a80ef9d3eba44caa35816c471",
)

_RPARIS = _buildings(
    "rparis6k",
    "Revisited Paris: 70 queries, 6,322 database photos",
    vgg="parisbuildings",
    mirror="datasets/paris-buildings",
    archives=("paris_1", "paris_2"),
    size=1.3,
    ground_truths={"rparis6k": 6322, "paris6k": 6392},
    sha256="d2e729a5293dda7dda8a15c8383424a42e4964a2c4cfea2f32fa85d11d2df499",
)

# The distractors: the list names the photos as they lie in the archives.

_R1M = "http://ptak.felk.cvut.cz/revisitop/revisitop1m"
_REVISITOP1M = Dataset(
    name="revisitop1m",
    about="One million distractors for Revisited Oxford and Paris",
    terms=_FLICKR,
    page="http://cmp.felk.cvut.cz/revisitop/",
    files=(_at("revisitop1m.txt", _R1M),),
    archives=tuple(
        _one(_at(f"revisitop1m.{number}.tar.gz", f"{_R1M}/jpg"), "jpg", 0, (), 4)
        for number in range(1, 101)
    ),
    photos=1_001_001,
    layout="listed",
)

_BOX = "https://imperialcollegelondon.box.com/shared/static"

# 1,001,001 descriptors of 2,048 float32.
_SOLAR_VECTORS = File(
    "resnet101-solar-best.pth_vecs_revisitop1m.pt",
    (f"{_BOX}/e9z542xirf1awck2iwr8yutubn85srnk.pt",),
    size=round(8.2 * _GB),
)
_REVISITOP1M_SOLAR = Dataset(
    name="revisitop1m-solar",
    about="The paper's SOLAR embeddings of the million distractors, in place of the photos",
    terms="See the publisher's page; cite their paper.",
    page="https://github.com/tonyngjichun/SOLAR",
    files=(_SOLAR_VECTORS,),
    archives=(),
    photos=1_001_001,
    layout="files",
)

# Google Landmarks 2018 as the paper's authors had it when they trained: one tar in 22 parts,
# partaa to partav, each at an address of its own.

_GL18_PARTS = (
    "lbk9qwtn438a0edm5g52fv0az4o8s6ml", "arnssx7f80vq6lhsufxrwl7xhxixpasj",
    "p2zlm5gobfsk85qu2evyv0q2wnu4vr4v", "38uo0hgxl7dmnxizzfm0t828sba1dznv",
    "s1ig9xfs95vvix1zvf2t9f76cydlhntq", "0x3idlrbbkl3j15g16tm9tt8qjybl2r2",
    "1barrmdjeh9552zhqh1zm2kvoike9a7f", "dt9v439bmb2ckl12zulgjznqaeboujdb",
    "358t3dcewmosuw7qz4oal59xjifzzq40", "jgqm8mxjjcjx68fpjgdafzdybdt56m52",
    "0uatr2u794xz513o2uofrpl24rh7gml8", "0j7bfq8f8ijalptl0dwt0nsozbslfmqf",
    "mt04r82bl42du5sl03qkn0ms27w59qn4", "dyg8txwd2recydersmpyu8y7n6fqszi3",
    "mopb621p8lnud9m1foq98xkuqwg3a6z5", "tpyuaj26un74nv5xl3qhljrjyph73af5",
    "8qjbotgdzj1jrt7i79yv9ubag91wn6aj", "et02ppjjm41eebutpnv2gzdaz7iadatq",
    "zu44mz608syhb9uy9thnkibeof72dg3p", "myq5vlpyqu927ffpikn1vqw059oy38k8",
    "z7cz70tj8akf2pn8otbtcggq6k75oktr", "qwsairfpb25fg4vtmecykfq5qahb9j3v",
)  # fmt: skip
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
                for letter, code in zip("abcdefghijklmnopqrstuv", _GL18_PARTS, strict=True)
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

# Google Landmarks v2, in the folders of its publishers' bucket: so is a mirror of it. Sizes of the
# archives are the publishers' words; photos of the clean list are taken to be of average size.

GLDV2_PHOTOS = {
    "train_clean.csv": 1_580_470,
    "train.csv": 4_132_914,
    "index.csv": 761_757,
    "test.csv": 117_577,
}
"""How many photos each list of Google Landmarks v2 names."""

_GLDV2_HOME = "https://s3.amazonaws.com/google-landmark"


def _gldv2_file(path: str, name: str = "", size: float = 0, subsets: tuple[str, ...] = ()) -> File:
    name = name or path.rpartition("/")[2]
    urls = (f"{_GLDV2_HOME}/{path}",)
    return File(name, urls, mirrored=path, size=round(size * _GB), subsets=subsets)


def _gldv2_archives(folder: str, count: int, size: float) -> Iterator[Archive]:
    bytes_ = round(size * _GB)
    for number in range(count):
        path, name = f"{folder}/images_{number:03}.tar", f"{folder}_images_{number:03}.tar"
        md5 = _gldv2_file(f"md5sum/{folder}/md5.images_{number:03}.txt", f"{name}.md5")
        file = File(name, (f"{_GLDV2_HOME}/{path}",), md5_file=md5, mirrored=path)
        yield Archive(name, (file,), folder, 4, _JPG, bytes_, bytes_, subset=folder)


_GLDV2 = Dataset(
    name="gldv2",
    about="Google Landmarks v2: its clean list is what today's models are trained on",
    terms="Photos belong to their authors (train: CC BY and alike); labels: CC BY 4.0 by Google.",
    page="https://github.com/cvdfoundation/google-landmark",
    files=tuple(
        _gldv2_file(path, size=size, subsets=subsets)
        for subsets, path, size in (
            (("clean", "train", "labels"), "metadata/train_clean.csv", 0.03),
            (("clean", "train", "labels"), "metadata/train_label_to_category.csv", 0.02),
            (("clean", "train", "labels"), "metadata/train_attribution.csv", 1.0),
            (("train", "labels"), "metadata/train.csv", 0.5),
            (("index", "labels"), "metadata/index.csv", 0.01),
            (("index", "labels"), "metadata/index_image_to_landmark.csv", 0.02),
            (("index", "labels"), "metadata/index_label_to_category.csv", 0.01),
            (("test", "labels"), "metadata/test.csv", 0),
            (("test", "labels"), "ground_truth/recognition_solution_v2.1.csv", 0),
            (("test", "labels"), "ground_truth/retrieval_solution_v2.1.csv", 0),
        )
    ),
    archives=(
        *_gldv2_archives("train", 500, 1.0),
        *_gldv2_archives("index", 100, 0.85),
        *_gldv2_archives("test", 20, 0.5),
    ),
    photos=GLDV2_PHOTOS["train_clean.csv"],
    layout="gldv2",
    selections={
        "clean": Selection(
            of="train",
            listed="train_clean.csv",
            share=GLDV2_PHOTOS["train_clean.csv"] / GLDV2_PHOTOS["train.csv"],
        )
    },
)

# Photos without an ending to their names; which ones are used is in the database files.

_SFM120K = Dataset(
    name="sfm120k",
    about="Retrieval-SfM-120k: training and whitening of the GeM networks",
    terms=_FLICKR,
    page="http://cmp.felk.cvut.cz/cnnimageretrieval/",
    files=tuple(
        _at(f"retrieval-SfM-{kind}.pkl", f"{_CIRTORCH}/train/dbs")
        for kind in ("120k", "120k-whiten", "30k-whiten")
    ),
    archives=(_one(_at("ims.tar.gz", f"{_CIRTORCH}/train/ims"), "ims", 0, (), 55),),
    photos=91_642 + 6_403,
    layout="sfm120k",
)

# Patches.

HPATCHES_FILES = ("ref.png", *(f"{noise}{i}.png" for noise in "eht" for i in range(1, 6)))
"""What each of the sequences holds."""

_HPATCHES_HOME = "https://huggingface.co/datasets/vbalnt/hpatches/resolve/main"
_HPATCHES = Dataset(
    name="hpatches",
    about="HPatches: verification, matching and retrieval of patches",
    terms="See the benchmark's page; cite its paper.",
    page="https://github.com/hpatches/hpatches-benchmark",
    files=(),
    archives=(_one(_at("hpatches-release.zip", _HPATCHES_HOME), "", 2, (".png",), 4.2, 4.3),),
    photos=116 * len(HPATCHES_FILES),
    layout="hpatches",
)

PHOTOTOUR_PATCHES = {"liberty": 450_092, "notredame": 468_159, "yosemite": 633_587}
"""The scenes, and how many patches each has."""

_PHOTOTOUR_HOMES = "http://icvl.ee.ic.ac.uk/vbalnt", "http://matthewalunbrown.com/patchdata"
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
            _at(f"{scene}.zip", *_PHOTOTOUR_HOMES, md5=md5),
            scene,
            1,
            (".bmp", ".txt"),
            1.5,
            mosaics(scene) * 1024**2 / _GB + 0.1,
        )
        for scene, md5 in _PHOTOTOUR_MD5.items()
    ),
    photos=sum(PHOTOTOUR_PATCHES.values()),
    layout="phototour",
)

_DATASETS = (
    *(_ROXFORD, _RPARIS, _REVISITOP1M, _REVISITOP1M_SOLAR),
    *(_GL18, _GLDV2, _SFM120K, _HPATCHES, _PHOTOTOUR),
)

GROUND_TRUTHS = {name: size for d in _DATASETS for name, size in d.ground_truths.items()}
"""The sets that `solar evaluate` knows by name, and how many photos their databases hold."""
