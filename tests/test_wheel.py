"""The wheel has everything: built from the sdist, installed on its own, away from the checkout."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from support.boxed import needs_weights

from solar import weights

ROOT = Path(__file__).parents[1]
pytestmark = needs_weights


def run(*command: object, cwd: Path, **variables: str) -> str:
    unwanted = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in unwanted}
    environment |= {"OMP_NUM_THREADS": "2", "NO_COLOR": "1", **variables}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of its own with the wheel, which sees the libraries installed here."""
    pytest.importorskip("build", reason='pip install "solar-retrieval[dev]"')
    hatchling = pytest.importorskip("hatchling", reason='pip install "solar-retrieval[dev]"')
    home = tmp_path_factory.mktemp("wheel")
    backend = str(Path(hatchling.__file__).parents[1])
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", home / "dist", ROOT)
    run(*build, cwd=home, PYTHONPATH=backend)
    [wheel] = (home / "dist").glob("*.whl")
    venv.create(home / "venv", symlinks=os.name != "nt")
    python = next(
        path for path in (home / "venv/bin/python", home / "venv/Scripts/python.exe")
        if path.exists()
    )  # fmt: skip
    flags = ("--disable-pip-version-check", "--no-index", "--no-deps")
    run(sys.executable, "-m", "pip", "--python", python, "install", *flags, wheel, cwd=home)
    # The libraries come from here, and the checkout does not: a path in a .pth file is searched,
    # but .pth files in there, such as that of an editable installation, are not read.
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(python, "-c", asked, cwd=home).strip())
    (site / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def test_the_installed_package_is_the_wheel_and_loads_its_model(
    installed: Path, tmp_path: Path
) -> None:
    code = (
        "import solar; net = solar.load(); print(solar.__file__, net.source, net.dim);"
        "here = [one.name for one in solar.models.zoo.models() if one.bundled];"
        "print(*(solar.load(name).dim for name in here), *here)"
    )
    out = run(installed, "-c", f"import solar.models.zoo; {code}", cwd=tmp_path, SOLAR_OFFLINE="1")
    assert str(installed.parents[1]) in out
    assert "solar-lite0 512" in out
    last = out.splitlines()[-1].split()
    assert last[len(last) // 2 :] == [name for name in weights.NAMES if name != weights.TEACHER]


def test_a_network_that_only_training_needs_is_not_in_the_wheel(
    installed: Path, tmp_path: Path
) -> None:
    code = (
        "import solar\ntry: solar.load('solar-r18')\nexcept solar.SolarError as said: print(said)"
    )
    assert "checkout" in run(installed, "-c", code, cwd=tmp_path, SOLAR_OFFLINE="1")


def test_the_installed_package_shows_its_types_and_finds_its_recipes(
    installed: Path, tmp_path: Path
) -> None:
    code = (
        "import solar, pathlib; from solar.training.recipe import read_settings;"
        "print(pathlib.Path(solar.__file__).with_name('py.typed').is_file());"
        "print(read_settings('few-places')['task'])"
    )
    assert run(installed, "-c", code, cwd=tmp_path).split() == ["True", "retrieval"]


def test_the_demo_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    from solar.demo import toy

    toy.write(tmp_path / "mine", landmarks=2, views=2, size=(160, 120), first=30)
    solar = installed.with_name("solar" if os.name != "nt" else "solar.exe")
    sizes = ("--landmarks", 3, "--views", 2, "-o", tmp_path / "out")
    out = run(solar, "demo", tmp_path / "mine", *sizes, cwd=tmp_path, SOLAR_OFFLINE="1")
    assert "6 generated photos of 3 buildings" in out
    assert "✓ same building" in out
    assert "4 photos in" in out
    assert f"{solar} serve" in out
    assert len(list((tmp_path / "out").glob("*/ranking.html"))) == 2
