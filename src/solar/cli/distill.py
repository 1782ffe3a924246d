"""`solar distill`: distil a large network into a small one."""

from pathlib import Path
from typing import Annotated

import typer

from solar.cli.completion import photo_models
from solar.cli.options import Device, Json, OptionalOutput, Resume, Run
from solar.cli.printing import check_suffix, print_json, say

EXAMPLE = (
    "Example: solar distill photos/ --teacher solar-r101 --student resnet18 --attention 45 "
    "-o student.safetensors steps=20000"
)


def distill(
    arguments: Annotated[
        list[str], typer.Argument(metavar="[RECIPE.yaml] PHOTOS... [KEY=VALUE]...")
    ],
    teacher: Annotated[list[str] | None, typer.Option(autocompletion=photo_models)] = None,
    student: str | None = None,
    attention: str | None = None,
    output: OptionalOutput = None,
    run: Run = Path("runs/distill"),
    resume: Resume = False,
    device: Device = None,
    json: Json = False,
) -> None:
    """Distil a large network into a small one, without labels.

    -o writes the student as a .safetensors; it is in the folder of the run, too.

    Options:
        arguments: A recipe (a YAML file or the name of a bundled recipe); folders, .txt lists or
            .tar shards of photos; key=value overrides.
        teacher: A name from `solar models`, a .safetensors or .pth; or a TorchScript or
            torch.export (.pt2) file, which is executed as code; repeatable.
        student: The student's backbone, such as resnet18.
        attention: Layers of the student with second-order attention, such as 45.
    """
    from solar.training.distill import task as work
    from solar.training.distill.recipe import command_recipe

    check_suffix(output, [".safetensors"])
    options: dict[str, str | list[str] | None] = {
        "teacher": teacher or None,
        "student.backbone": student,
        "student.attention": attention,
        "compute.device": device,
    }
    recipe = command_recipe(arguments, options)
    assert run is not None
    summary = work.distill(recipe, run=run, resume=resume, output=output, progress=True)
    if json:
        print_json(summary)
        return
    distances = f"{summary['places']:.3f} per location and {summary['pooled']:.3f} pooled"
    score = f", mAP {summary['mAP']:.2f}" if "mAP" in summary else ""
    say(
        f"Step {summary['steps']} of {recipe.steps}: cosine distances {distances}{score} "
        f"→ {summary['model']}"
    )
    if not summary["finished"]:
        say("Stopped at the time limit: continue with the same command and --resume.")
