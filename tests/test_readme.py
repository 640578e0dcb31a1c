"""What README says is so: its commands, its Python, its table of assumptions, its links."""

import csv
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from simulator import constants
from simulator.cli import main
from simulator.validation import runs
from simulator.validation.collectives import validate

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PACKAGES = ("simulator", "topologies", "workloads")


def fenced(language):
    """The contents of all fenced blocks of a language."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [content for of, content in blocks if of == language]


def linked(text):
    """Relative targets of links and pictures."""
    return {target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target}


def assuming():
    """Files with a sentence that begins with "Assumes"."""
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return {file.relative_to(ROOT).as_posix() for file in files if re.search(r"\bAssumes\b", file.read_text("utf-8"))}


def percent(error, sign=""):
    """An error as tables of README have it."""
    return f"{round(100 * error, 1) + 0.0:{sign}.1f} %".replace("-", "−")


def test_it_opens_with_two_commands_of_one_line():
    run, tests = fenced("sh")
    assert ".venv/bin/stepsim run llama3_405b llama3_cluster,gpus=16384" in run
    assert ".venv/bin/python -m pytest" in tests
    for command in (run, tests):
        assert command.startswith("python3 -m venv .venv && ")
        assert command.count("\n") == README.count(command.strip()) == 1


def test_the_first_command_prints_what_is_shown():
    (printed,) = fenced("")
    command = shlex.split(fenced("sh")[0].split(".venv/bin/stepsim ")[1])
    assert CliRunner().invoke(main, command).output == printed


def test_the_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (block,) = fenced("python")
    exec(compile(block, "README.md", "exec"), {})
    assert (tmp_path / "gantt.png").stat().st_size > 0
    assert "step time" in capsys.readouterr().out


def test_the_cluster_of_ones_own_can_be_built(tmp_path):
    (block,) = fenced("yaml")
    lab = tmp_path / "lab.yaml"
    lab.write_text(block)
    done = CliRunner().invoke(main, ["collective", "all_reduce", "--bytes", "1GiB", "--topology", str(lab)])
    assert done.exit_code == 0
    assert "among 20 ranks" in done.output


def test_the_table_of_assumptions_names_every_file_that_assumes():
    _, table = README.split('begins with "Assumes"')
    table, _ = table.split("\n## ", 1)
    assert linked(table) == assuming()


@pytest.mark.parametrize("target", sorted(linked(README)))
def test_links_lead_somewhere(target):
    assert (ROOT / target).exists()


def test_the_errors_of_collectives_are_those_of_the_command():
    summary = validate()[1]
    unseen = summary["leave_one_series_out"]
    blocks = {"all": (summary, unseen)} | {
        name: (block, unseen["size_bands"][name]) for name, block in summary["size_bands"].items()
    }
    for name, (block, left_out) in blocks.items():
        errors = [f"{100 * block[key]:.1f} %" for key in ("median_ape", "p90_ape")]
        bias = f"{100 * block['bias']:+.1f} %".replace("-", "−")
        cells = [name, str(block["rows"]), *errors, bias, f"{100 * left_out['median_ape']:.1f} %"]
        assert f"| {' | '.join(cells)} |" in README
    text = " ".join(README.split())
    assert f"{summary['rows']} measured collectives" in text
    assert f"The other {summary['skipped']} rows are left out" in text
    assert f"Of the {len(summary['groups'])} kinds of group" in text
    worst = max(block["median_ape"] for block in summary["groups"].values() if block["rows"] >= 10)
    assert f"{100 * worst:.0f} % median" in text


@pytest.mark.slow
def test_the_errors_of_runs_are_those_of_the_command():
    summary = runs.validate()[1]
    for split, found in summary["splits"].items():
        for name, block in found["classes"].items():
            if block["rows"]:
                guess = summary["baseline"]["splits"][split]["classes"][name]["wmape"]
                sizes = [percent(block[key]) for key in ("wmape", "median_ape", "p90_ape")]
                words = f"`{split}`, {name.replace('_', ' ').replace('tier', 'tier ')}"
                cells = [words, str(block["rows"]), *sizes, percent(block["bias"], "+"), percent(guess)]
                assert f"| {' | '.join(cells)} |" in README


def test_what_effects_are_worth_is_as_in_the_file():
    columns = ("calib_as_is", "public_validation_as_is", "calib_refitted", "public_validation_refitted")
    with (ROOT / "docs/ablation.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            bias = percent(float(row["public_validation_refitted_bias"]), "+")
            cells = [row["without"], *(percent(float(row[column])) for column in columns), bias]
            assert f"| {' | '.join(cells)} |" in README


def test_the_count_of_constants():
    files = ("fabrics.yaml", "kernels.yaml")
    total, fitted, told = (
        sum(len(of(file)) for file in files) for of in (constants.read, constants.errors, constants.sources)
    )
    assert f"there are {total} constants" in README
    assert f"({fitted} fitted, with standard errors; {told} from sources" in README
