"""Measure every figure of README and docs again, as far as this machine can.

    python benchmarks/all.py --list
    python benchmarks/all.py --data DIR --work FOLDER
    python benchmarks/all.py --data DIR --work FOLDER --only ranking-buildings --again

`FIGURES` names each figure, what it takes, and below that the command that measures it. A result
carries its date; it is measured again if it is older than the bundled model that it is about, or
than `--since`. So the same command goes on after an interruption. What cannot be measured here is
said, with the reason: no GPU, other programs that would disturb a timing, or files that the command
names in braces and `--where NAME=PATH` does not. At the end the pages take the new figures.

DIR (or SOLAR_DATA) holds landmarks/, buildings/, affine/, scenes/ and revisited/; FOLDER is kept
for descriptors.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from solar import weights

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
PAGES = (ROOT / "README.md", *sorted([*ROOT.glob("docs/*.md"), *weights.FOLDER.glob("*.md")]))
WRITERS = ("readme_figures.py", "sizing.py")
BUSY = 0.5  # programs that run already, on average of a minute


@dataclass(frozen=True)
class Figure:
    """What is measured.

    Attributes:
        name: Its result is `benchmarks/results/NAME.json`, or `weights/MODEL.json` of `card MODEL`.
        command: A script of `benchmarks/` and its options; {…} are paths.
        needs: `gpu`, or `quiet`: other programs would disturb it.
        model: The bundled model that it is about.
    """

    name: str
    command: str
    needs: str = ""
    model: str = ""

    @property
    def result(self) -> Path:
        """Where its figures are."""
        if self.name.startswith("card "):
            return weights.FOLDER / f"{self.name.removeprefix('card ')}.json"
        return FOLDER / "results" / f"{self.name}.json"

    @property
    def date(self) -> str:
        """When it was measured, or nothing."""
        if not self.result.is_file():
            return ""
        return str(json.loads(self.result.read_text(encoding="utf-8"))["machine"]["date"])

    @property
    def cited(self) -> list[str]:
        """Pages that name the result or the script."""
        named = self.name.removeprefix("card ")
        script = self.command.split()[0]
        wanted = f"`{named}`" if named != self.name else rf"results/{named}\.json|\b{script}"
        pages = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
        return [page for page, text in pages.items() if re.search(wanted, text)]


FIGURES = """
# the models
card solar-lite0, of solar-lite0
    cards.py --data {data} --only solar-lite0
card solar-r18, of solar-r18
    cards.py --data {data} --only solar-r18
card solar-local-345, of solar-local-345
    cards.py --data {data} --only solar-local-345
card solar-local-none, of solar-local-none
    cards.py --data {data} --only solar-local-none
card solar-local-small, of solar-local-small
    cards.py --data {data} --only solar-local-small
asmk, of how-r18-small
    asmk.py --data {data} --local how-r18-small --local rootsift --model solar-r18 --train 500
        --words 4096 --json {result}
asmk-time, of how-r18-small, quiet
    asmk.py --data {data} --local how-r18-small --local rootsift --model solar-r18 --photos 100
        --train 100 --words 1024 --json {result}
places, of solar-lite0
    place_recognition.py --data {places} --cache {work}/places --json {result}
scales, of solar-lite0
    scales.py --model solar-lite0 --data {data} --cache {work}/scales --json {result}
scales_time, of solar-lite0, quiet
    scales.py --model solar-lite0 --data {data} --cache {work}/scales --places buildings
        --every 110 --backends torch openvino openvino-bf16 --json {result}
precision, of solar-r18
    precision.py --data {data} --size 320 --json {result}
precision-solar-lite0, of solar-lite0
    precision.py --data {data} --model solar-lite0 --size 512 --json {result}
box_layer-lite0
    box_layer.py solar-lite0={lite_student} --data {data} --photos {photos}
        --out {work}/layers-lite0 --json {result}
box_layer
    box_layer.py student={student} --data {data} --photos {photos} --out {work}/layers --json
        {result}
# ranking
ranking-landmarks, of solar-lite0
    ranking.py --data {data} --photos landmarks --queries 240 --cache {work} --json {result}
ranking-buildings, of solar-lite0
    ranking.py --data {data} --photos buildings --queries 240 --cache {work} --json {result}
ranking-mixed, of solar-lite0
    ranking.py --data {data} --photos mixed --queries 240 --cache {work} --json {result}
calibration-solar-lite0, of solar-lite0
    calibrate.py --photos {collections} --cache {work}/calibration --model solar-lite0 --queries
        40 --write --json {result} --picture docs/reliability.svg
feedback-landmarks, of solar-lite0
    feedback.py --data {data} --photos landmarks --cache {work}/solar-lite0-landmarks.npy --json
        {result}
feedback-buildings, of solar-lite0
    feedback.py --data {data} --photos buildings --cache {work}/solar-lite0-buildings.npy --json
        {result}
locate-buildings, of solar-lite0
    locate.py --data {data} --queries 400 --cache {work}/locate --json {result}
adapt, of solar-lite0
    adapt.py --data {data} --cache {work}/adapt --json {result}
explain, of solar-r18, gpu
    explain.py --data {data} --json {result}
# keypoints
same_scene
    same_scene.py --data {data} --features rootsift --features orb --step 8 --way verify --way
        match --json {result}
matching-small, of solar-local-small, quiet
    matching.py --sequences {data}/affine --out {result} --descriptor rootsift --descriptor
        solar-local-345 --descriptor solar-local-small --descriptor
        solar-local-small,openvino-int8=solar-local-small
matching-pairs, quiet
    matching.py --sequences {data}/affine --out {result} --descriptor rootsift --descriptor orb
        --descriptor akaze
patch_options, of solar-local-345
    patch_options.py --data {data} --json {result} solar-local-345
patch_backends, of solar-local-345, quiet
    patch_backends.py --photos {data}/scenes/sacre_coeur --out {result}
patch_training, gpu
    patch_training.py --sequences {data}/affine --out {result} --photos {landmarks} {coco}
        --steps 2500
patch_places, gpu
    patch_training.py --sequences {data}/affine --out {result} --photos {landmarks} --steps 2500
# groups, duplicates, pairs
groups-landmarks, of solar-lite0
    groups.py --photos {data}/landmarks/val-0.tar --folder {work}/groups
        --json {result}
groups-buildings, of solar-lite0
    groups.py --photos {data}/buildings/val-0.tar --folder {work}/groups
        --json {result}
duplicates_edits, of solar-lite0
    duplicates.py edits --photos {coco} --folder {work}/edits --backend auto --hash --json {result}
duplicates_keep
    duplicates.py keep --photos {collections}/val --folder {work}/keep --count 1000
        --json {result}
pairs, of solar-lite0, quiet
    pairs.py --vectors {vectors} --scene sceaux_castle={data}/scenes/sceaux_castle --scene
        sacre_coeur={data}/scenes/sacre_coeur --scene lund={lund} --k 2 3 5 8 --json {result}
# training
ablation
    ablation.py --data {data} --work {work}/ablation --out benchmarks/results
ablation-triplet-frozen, gpu
    ablation_student.py --data {data} --unlabelled {coco160} --start {start} --loss triplet
        --last-stage 0 --out benchmarks/results --name ablation-triplet-frozen
twins
    twins.py {twins} --data {data} --out {work}/twins --json {result}
train_gpu, gpu
    train_gpu.py --out {result}
# speed and size
describe_gpu, gpu
    describe_gpu.py --json {result}
describe_gpu-solar-lite0, gpu
    describe_gpu.py --model solar-lite0 --json {result}
decode, quiet
    decode.py --json {result}
decode_cosine, of solar-r18
    decode_cosine.py {data}/scenes --network solar-r18 --size 336 300 256 --json {result}
decode_gpu, gpu
    decode_gpu.py --rounds 2 --json {result}
describe_cpu, quiet
    describe_cpu.py --photos {data}/scenes --rounds 3 --json {result}
describe_cpu-solar-lite0, quiet
    describe_cpu.py --model solar-lite0 --photos {photos} --size 512x384 --scales 1 1.68 --rounds 15
        --check 24 --json {result}
first_answer, quiet
    first_answer.py --photos {photos} --before {before} --json {result}
first_answer-large, quiet
    first_answer.py --photos {large} --before {before} --json {result}
page, quiet
    page.py --photos {photos} --before {before} --json {result}
index_bytes
    index_bytes.py --json {result}
index_bytes_written
    index_bytes.py --written --json {result}
build_memory
    build_memory.py --json {result}
search_million, quiet
    search_million.py --folder {work} --json {result}
search_million_checking, quiet
    search_million.py --only checking --dim 128 --folder {work} --json {result}
search_gpu, gpu
    search_gpu.py --json {result}
bare_library-512, quiet
    bare_library.py --data {data} --cache {work}/bare --json {result}
bare_library-2048, quiet
    bare_library.py --data {data} --cache {work}/bare --dim 2048 --json {result}
evaluate_million, quiet
    evaluate_million.py --folder {work} --ground-truth {data}/revisited/gnd_roxford5k.pkl --json
        {result}
sync_many, quiet
    sync_many.py --json {result}
serve_ten_minutes, quiet
    serve.py --seconds 600 --json {result}
soak
    soak.py --seconds 600 --out {result}
walk
    walk.py --json {result}
"""


def figures() -> list[Figure]:
    """What `FIGURES` says."""
    found: list[Figure] = []
    for line in FIGURES.splitlines():
        if line.startswith(" "):
            found[-1] = replace(found[-1], command=f"{found[-1].command} {line}".strip())
        elif line and not line.startswith("#"):
            name, *words = line.split(", ")
            facts = {"model" if word.startswith("of ") else "needs": word for word in words}
            found.append(
                Figure(name, "", **{key: x.removeprefix("of ") for key, x in facts.items()})
            )
    return found


def main() -> None:
    """Measure what is due, or list everything."""
    table = figures()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--list", action="store_true", help="every figure, its date and its pages")
    parser.add_argument("--only", nargs="+", choices=[one.name for one in table], metavar="NAME")
    parser.add_argument("--again", action="store_true", help="measure even what is up to date")
    parser.add_argument("--since", default="", help="measure what is older than this YYYY-MM-DD")
    parser.add_argument("--data", default=os.environ.get("SOLAR_DATA"), metavar="DIR")
    parser.add_argument("--work", metavar="FOLDER", help="keep descriptors here")
    parser.add_argument("--where", nargs="+", default=[], metavar="NAME=PATH")
    options = parser.parse_args()
    chosen = [one for one in table if not options.only or one.name in options.only]
    if options.list:
        print("\n".join(listed(chosen)))
        return
    places = dict(each.split("=", 1) for each in options.where if "=" in each)
    places |= {name: path for name in ("data", "work") if (path := getattr(options, name))}
    failed = [one.name for one in chosen if not measured(one, places, options)]
    for script in WRITERS:
        subprocess.run([sys.executable, FOLDER / script], check=True)
    if failed:
        raise SystemExit(f"all.py: {', '.join(failed)} failed")


def listed(chosen: list[Figure]) -> Iterator[str]:
    """A line or two for every figure."""
    for one in chosen:
        state = one.date or "never measured"
        state += ", older than its model" if one.date and one.date < changed(one.model) else ""
        needs = f"; needs {one.needs}" if one.needs else ""
        yield f"{one.name}: {state}{needs}; {', '.join(one.cited) or 'on no page'}"
        yield f"    python benchmarks/{one.command}"


def measured(one: Figure, places: Mapping[str, str], options: argparse.Namespace) -> bool:
    """Measure one figure if it is due and can be; whether nothing failed."""
    if one.date and not options.again and one.date >= max(changed(one.model), options.since):
        print(f"{one.name}: {one.date}")
        return True
    places = {**places, "result": str(one.result)}
    missing = [name for name in re.findall(r"{(\w+)}", one.command) if name not in places]
    if why := f"it needs --where {missing[0]}=PATH" if missing else prevented(one.needs):
        print(f"{one.name}: {one.date or 'never measured'}; not here: {why}")
        return True
    if "work" in places:
        Path(places["work"]).mkdir(parents=True, exist_ok=True)
    script, *arguments = [word.format(**places) for word in shlex.split(one.command)]
    print(f"{one.name}: python benchmarks/{script} {shlex.join(arguments)}", flush=True)
    command: list[str] = [sys.executable, str(FOLDER / script), *arguments]
    return not subprocess.run(command, cwd=ROOT).returncode


def prevented(needs: str) -> str:
    """Why this machine cannot measure what needs a GPU or a quiet machine, or nothing."""
    if needs == "gpu":
        import torch

        return "" if torch.cuda.is_available() else "there is no GPU"
    busy = os.getloadavg()[0] if needs == "quiet" else 0.0
    return f"other programs run (load {busy:.1f})" if busy > BUSY else ""


def changed(model: str) -> str:
    """The day on which a bundled model was last changed, or nothing."""
    if not model:
        return ""
    file = weights.FOLDER / f"{model}.safetensors"
    command = ["git", "log", "-1", "--format=%cs", "--", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
