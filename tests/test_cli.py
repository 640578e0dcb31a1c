"""The command line: JSON and nothing else on stdout, one line on stderr and exit code 2 on bad input."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import topologies
from simulator import collectives, plots, replay_schedule
from simulator.cli import main
from workloads import models, schedules, stacks, strategies

RUN_KEYS = {
    "step_time_seconds",
    "tokens_per_second",
    "tokens_per_second_per_gpu",
    "mfu",
    "hfu",
    "flops_convention",
    "bubble_fraction",
    "exposed_communication_seconds",
    "peak_memory_bytes",
    "reserved_memory_bytes",
    "usable_memory_bytes",
    "memory_rows_bytes",
    "memory_fits",
    "memory_remedy",
    "offloaded_memory_bytes",
    "gpus",
    "rank_classes",
    "ops_replayed",
    "wall_seconds",
    "timings_seconds",
    "warnings",
}
TIMINGS = {"topology", "program", "fold", "replay", "metrics", "output"}


def stepsim(*words: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(main, words)


def run(plan: str = "dp=8", model: str = "llama3_8b,layers=4", topology: str = "dgx_h100", **options: object) -> Result:
    """`stepsim run` of a small step; options as on the command line, with underscores."""
    given = {"batch": 8, "sequence": 2048, **options}
    words = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return stepsim("run", model, topology, plan, *words)


def refused(result: Result) -> str:
    """The one line of a refusal, after checking that it is one."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("stepsim: ")
    return lines[0].removeprefix("stepsim: ")


def test_run_prints_one_json_object(tmp_path):
    """Every key, and wall time = program + fold + replay + metrics."""
    picture, trace = tmp_path / "step.png", tmp_path / "step.json.gz"
    result = stepsim(
        *("run", "llama3_8b,layers=4", "dgx_h100", "pp=2 dp=2,zero=1 tp=2", "--batch", "8", "--sequence", "2048"),
        *("--gantt", str(picture), "--trace", str(trace), "--json"),
    )
    assert (result.exit_code, result.stderr) == (0, "")
    report = json.loads(result.stdout)
    assert set(report) == RUN_KEYS
    assert set(report["timings_seconds"]) == TIMINGS
    parts = [report["timings_seconds"][name] for name in ("program", "fold", "replay", "metrics")]
    assert report["wall_seconds"] == pytest.approx(sum(parts))
    assert report["gpus"] == 8
    assert report["tokens_per_second_per_gpu"] == report["tokens_per_second"] / 8
    assert set(report["exposed_communication_seconds"]) == {"pp", "dp", "tp"}
    assert sum(report["memory_rows_bytes"].values()) == report["peak_memory_bytes"] < report["reserved_memory_bytes"]
    assert picture.stat().st_size > 0
    assert trace.stat().st_size > 0


@pytest.mark.parametrize(
    "extra", [["--no-fold"], ["--detail", "actions"], ["--recompute", "full"], ["--precision", "fp16"]]
)
def test_run_with_options(extra):
    words = ["run", "llama3_8b,layers=4", "dgx_h100", "pp=2 dp=4", "--batch", "16", "--sequence", "2048", "--json"]
    base, changed = (json.loads(stepsim(*words, *more).stdout) for more in ([], extra))
    assert set(changed) == RUN_KEYS
    if extra == ["--no-fold"]:
        assert changed["rank_classes"] == 8
        assert changed["step_time_seconds"] == pytest.approx(base["step_time_seconds"], rel=1e-9)
    if "actions" in extra:
        assert changed["step_time_seconds"] == pytest.approx(base["step_time_seconds"], rel=0.02)
    if "full" in extra:
        assert changed["hfu"] > changed["mfu"]
        assert changed["peak_memory_bytes"] < base["peak_memory_bytes"]


def test_run_prints_a_table_without_json():
    text = run("pp=2 dp=4").stdout
    for word in ("step time", "MFU", "bubble", "exposed pp", "memory"):
        assert word in text


def test_gantt_prints_the_figures_of_a_schedule(tmp_path):
    picture = tmp_path / "schedule.png"
    words = ["gantt", "interleaved", "--stages", "4", "--microbatches", "8", "--virtual", "2", "--forward", "2"]
    result = stepsim(
        *words, "--backward-input", "2", "--backward-weight", "2", "--hop", "0", "--out", str(picture), "--json"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    report = json.loads(result.stdout)
    assert set(report) == {"makespan", "span", "bubble_fraction", "bubble_ratio", "peak_in_flight", "warnings"}
    assert report["makespan"] == 8 * 6 + 3 * 6 / 2
    assert report["peak_in_flight"] == [11, 9, 7, 5]
    assert picture.stat().st_size > 0


def gantted(*words):
    result = stepsim("gantt", *words, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def test_gantt_takes_every_option_of_a_replay():
    """ZB-H1 with two chunks a rank on slow stages and blocked receivers, as `replay_schedule` has it."""
    words = ["zb_h1,virtual=2", "--stages", "4", "--microbatches", "8", "--hop", "0.5", "--mode", "recv_block"]
    factors = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5]
    report = gantted(*words, "--release", "I", "--stage-factors", ",".join(map(str, factors)))
    schedule = schedules.build("zb_h1", 4, 8, virtual=2)
    expected = replay_schedule(schedule, hop=0.5, mode="recv_block", release="I", stage_factors=factors)
    assert report["makespan"] == expected.makespan
    assert report["peak_in_flight"] == list(expected.peak_in_flight)
    dual = ["dualpipe", "--stages", "4", "--microbatches", "8", "--pair-factor"]
    assert gantted(*dual, "0.8")["makespan"] < gantted(*dual, "1")["makespan"]


def test_gantt_prints_the_table_of_ranks_and_steps():
    words = ["gpipe", "--stages", "2", "--microbatches", "2", "--text"]
    table = str(schedules.build("gpipe", 2, 2))
    assert gantted(*words)["text"] == table
    printed = stepsim("gantt", *words).stdout
    assert printed.startswith(table)
    assert "bubble_fraction" in printed
    assert "rank 0" not in stepsim("gantt", *words[:-1]).stdout


@pytest.mark.parametrize(("name", "chains"), [("interleaved", []), ("zb_v", []), ("dualpipe", ["--chains", "2"])])
def test_gantt_writes_and_reads_csv(tmp_path, name, chains):
    file, pictures = tmp_path / "my schedule.csv", [tmp_path / "one.png", tmp_path / "two.svg"]
    words = [name, "--stages", "4", "--microbatches", "8", "--csv", str(file), "--out", str(pictures[0]), "--arrows"]
    again = [str(file), *chains, "--out", str(pictures[1]), "--memory"]
    assert gantted(*words) == gantted(*again) == gantted(*again, "--stages", "4", "--microbatches", "8")
    assert all(picture.stat().st_size > 0 for picture in pictures)
    assert len(file.read_text().splitlines()) == 4


def test_gantt_says_what_changes_nothing():
    words = ["gantt", "1f1b", "--stages", "4", "--microbatches", "2", "--pair-factor", "0.8", "--release", "I"]
    printed = stepsim(*words).stdout
    for word in ("at most 2 of 4 ranks", "--pair-factor 0.8 changes nothing", "--release I changes nothing"):
        assert word in printed


@pytest.mark.parametrize(
    ("rows", "words", "message"),
    [
        ("0F0,0B0", ["--virtual", "2"], "--virtual 2 is no option of a file"),
        ("0F0,0B0", ["--stages", "2"], "--stages 2, but the file has 1"),
        ("0F0,0B0", ["--microbatches", "2"], "--microbatches 2, but the file has 1"),
        ("0F0,0B0", ["--chains", "2"], "1 stages cannot be cut into chains=2 equal parts"),
        ("0F0,0B0", ["--chains", "0"], "1 stages cannot be cut into chains=0 equal parts"),
        ("0F0,0X0", [], "'0X0' is no action such as 3F7"),
        ("1F0,1B0\n0F0,0B0,0B0", [], "legal are F then B"),
        ("0F0,1F0,1B0,0B0\n3F0,2F0,2B0,3B0", [], "can never finish"),
        ("0F0,1F0,1B0,0B0\n3F0,2F0,2B0,3B0", [], "say --chains 2"),
        ("", [], "nothing runs stage 0"),
    ],
)
def test_bad_schedule_files(tmp_path, rows, words, message):
    (tmp_path / "mine.csv").write_text(rows)
    assert message in refused(stepsim("gantt", str(tmp_path / "mine.csv"), *words))


def test_list_knows_every_folder():
    folders = {
        "models": models.names(),
        "topologies": topologies.names(),
        "accelerators": topologies.accelerators.names(),
        "strategies": strategies.names(),
        "schedules": schedules.names(),
        "collectives": collectives.names(),
        "plots": plots.names(),
        "stacks": stacks.names(),
    }
    assert json.loads(stepsim("list", "--json").stdout) == folders
    for folder, names in folders.items():
        assert json.loads(stepsim("list", folder, "--json").stdout) == {folder: names}
    assert "llama3_405b" in stepsim("list").stdout


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["gantt", "-h"], ["list", "--help"], ["--version"]])
def test_help(words):
    result = stepsim(*words)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("dp=4", "dp=4 = 4 ranks, but dgx_h100,nodes=1 has 8"),
        ("pp=2 fsdp=2 tp=8", "pp=2 × fsdp=2 × tp=8 = 32 ranks, but dgx_h100,nodes=1 has 8"),
        ("", "the plan is empty; write for example dp=8"),
        ("  ", "the plan is empty"),
        ("dp 8", "'dp' is not axis=degree; write for example dp=8"),
        ("dp=", "'dp='"),
        ("dp=nan", "'dp=nan' is not axis=degree"),
        ("dp=1e99", "'dp=1e99' is not axis=degree"),
        ("dp=-8", "dp=-8: a degree is a whole number from 1"),
        ("tp=0", "tp=0: a degree is a whole number from 1"),
        ("dp=99999999999999999999", "dp=99999999999999999999: a degree"),
        ("tp=3", "heads=32 are not divisible by tp=3; nearest tp: 2 or 4"),
        ("dp=2 dp=4", "dp is given 2 times"),
        ("ddp=8", "unknown axis 'ddp'; did you mean dp?"),
        ("dp=8,zeros=1", "unknown option of dp 'zeros'; did you mean zero?"),
        ("dp=8,zero=1,zero=1", "zero is given twice"),
        ("dp=8,zero=3", "dp has zero=0, 1 or 2; for sharded parameters use fsdp=8"),
        ("dp=8,bucket=nan", "bucket=nan"),
        ("dp=8,bucket=-1", "bucket=-1"),
        ("dp=8,overlap=maybe", "overlap=maybe is neither on nor off"),
        ("dp=8,degree=4", "unknown option of dp 'degree'"),
        ("dp=8,axis=4", "unknown option of dp 'axis'"),
        ("dp=8,name=x", "unknown option of dp 'name'"),
        ("dp=8,self=x", "unknown option of dp 'self'"),
        ("pp=8,degree=4", "unknown option of pp 'degree'"),
        ("pp=8,schedule=interleaved,name=4", "unknown option of pp,schedule=interleaved 'name'"),
        ("fsdp=8,prefetch=1e99", "prefetch=1e+99"),
        ("tp=8,sp=2", "sp=2 is neither on nor off"),
        ("pp=8", "layers=4 are too few for 8 stages"),
        ("pp=8,layers=1x8", "layers=1x8 gives 8 layers to 8 stages; the model has 4 layers"),
        ("pp=8,layers=--", "layers=--"),
        ("pp=2,schedule=3 dp=4", "unknown schedule '3'"),
        ("pp=2,schedule=on dp=4", "unknown schedule"),
        ("pp=2,schedule=gpip dp=4", "unknown schedule 'gpip'; did you mean gpipe?"),
        ("pp=2,schedule=gpipe,virtual=2 dp=4", "unknown option of pp,schedule=gpipe 'virtual'"),
        ("pp=2,schedule=interleaved,virtual=0 dp=4", "virtual=0"),
        ("pp=2,schedule=interleaved,virtual=1000000000 dp=4", "chunks; at most"),
        ("pp=2,schedule=interleaved,strict=7 dp=4", "strict=7 is neither on nor off"),
        ("pp=2,schedule=interleaved dp=8", "microbatches=1 in rounds of 2 leave 1 over"),
    ],
)
def test_bad_plans(plan, message):
    assert message in refused(run(plan))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("", "unknown model ''"),
        ("llama3_8", "unknown model 'llama3_8'; did you mean llama3_8b?"),
        ("dgx_h100", "unknown model 'dgx_h100'; "),
        ("_plugins", "unknown model '_plugins'"),
        ("llama3_8b,layer=3", "unknown field of a model 'layer'; did you mean layers?"),
        ("llama3_8b,layers", "'layers' in 'llama3_8b,layers' is not key=value"),
        ("llama3_8b,layers=2,layers=3", "layers is given twice"),
        ("llama3_8b,layers=-2", "layers=-2 is not a whole number from 1"),
        ("llama3_8b,layers=nan", "layers=nan is not a whole number from 1"),
        ("llama3_8b,layers=1e99", "layers=1e+99 is not a whole number from 1"),
        ("llama3_8b,heads=31", "heads=31 is not divisible by kv_heads=8; nearest kv_heads: 1 or 31"),
        ("llama3_8b,norm=x", "unknown norm 'x'"),
        ("llama3_8b,tied=2", "tied=2 is neither on nor off"),
        ("llama3_8b,self=2", "unknown field of a model 'self'"),
    ],
)
def test_bad_models(model, message):
    assert message in refused(run(model=model))


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        ("", "unknown topology ''"),
        ("dgx_h10", "unknown topology 'dgx_h10'; did you mean dgx_h100?"),
        ("dgx_h100,node=2", "unknown option of dgx_h100 'node'; did you mean nodes?"),
        ("dgx_h100,name=2", "unknown option of dgx_h100 'name'"),
        ("dgx_h100,nodes=0", "nodes=0 is not a whole number from 1"),
        ("dgx_h100,nodes=1.5", "nodes=1.5 is not a whole number"),
        ("dgx_h100,nodes=1e99", "nodes=1e+99 is not a whole number"),
        ("llama3_cluster,gpus=13", "gpus=13 is not a multiple of 8 from 8 to 1048576; nearest: 8, 16"),
        ("flat,ranks=8,bandwidth=0", "bandwidth=0: bytes/s must be at least 1"),
        ("flat,ranks=8,bandwidth=nan", "bandwidth=nan: bytes/s must be at least 1"),
        ("flat,ranks=8,latency=-1", "latency=-1: seconds must be between 0 and"),
        ("flat,ranks=8,latency=inf", "latency=inf: seconds must be between 0 and"),
        ("flat,ranks=8,accelerator=h101", "unknown accelerator 'h101'; did you mean h100?"),
    ],
)
def test_bad_topologies(topology, message):
    assert message in refused(run(topology=topology))


@pytest.mark.parametrize(
    ("plan", "options", "message"),
    [
        ("dp=8", {"batch": 0}, "batch=0 is not a whole number from 1"),
        ("dp=8", {"batch": -8}, "batch=-8 is not a whole number from 1"),
        ("dp=8", {"batch": 10**23}, "is not a whole number from 1 to 1000000000"),
        ("dp=8", {"batch": "8.5"}, "'8.5' is not a valid integer"),
        ("dp=8", {"batch": "nan"}, "'nan' is not a valid integer"),
        ("dp=8", {"batch": 9}, "batch=9 is not divisible by dp 8 × microbatch 1 = 8; nearest: 8 or 16"),
        ("dp=8", {"batch": 800_000_000}, "microbatches=100000000 = 100000000 chunks; at most"),
        ("dp=8", {"sequence": 0}, "sequence=0 is not a whole number from 1"),
        ("dp=8", {"microbatch": 16}, "batch=8 is not divisible by dp 8 × microbatch 16 = 128; nearest: 128"),
        ("tp=8", {"sequence": 2047}, "2047 tokens are not divisible by tp=8, as sp needs; nearest: 2040 or 2048"),
        ("pp=2,schedule=interleaved dp=4", {"batch": 12}, "nearest: microbatches=2 or 4"),
        ("dp=8", {"recompute": "some"}, "unknown recompute 'some'; Known: full, none"),
        ("dp=8", {"precision": "bf61"}, "unknown precision 'bf61'; did you mean bf16?"),
        ("dp=8", {"optimizer": "adm"}, "unknown optimizer 'adm'; did you mean adam?"),
        ("dp=8", {"convention": "casual"}, "unknown convention 'casual'; did you mean causal?"),
        ("dp=8", {"detail": "kernels"}, "'kernels' is not one of 'ops', 'actions'"),
        ("dp=8", {"btach": 8}, "No such option '--btach'"),
        ("dp=8", {"gantt": "/nowhere/at/all.png"}, "cannot write /nowhere/at/all.png: /nowhere/at is no folder"),
        ("dp=8", {"trace": "/nowhere/at/all.json"}, "cannot write /nowhere/at/all.json: /nowhere/at is no folder"),
        ("dp=8", {"gantt": ""}, "'' is not the name of a file"),
        ("dp=8", {"gantt": "/"}, "is a directory"),
    ],
)
def test_bad_numbers_and_options(plan, options, message):
    assert message in refused(run(plan, **options))


def test_pictures_of_an_unknown_format_are_refused(tmp_path):
    assert "a picture ends in one of avif, eps" in refused(run(gantt=tmp_path / "step.foo"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing command"),
        (["rum"], "No such command 'rum'. Did you mean 'run'?"),
        (["--jsn"], "No such option '--jsn'"),
        (["run", "llama3_8b", "dgx_h100", "--batch", "8", "--sequence", "8"], "Missing argument 'PLAN'"),
        (["run", "llama3_8b", "dgx_h100", "dp=8", "--batch", "8"], "Missing option '--sequence'"),
        (
            ["run", "llama3_8b", "dgx_h100", "dp=8", "more", "--batch", "8", "--sequence", "8"],
            "unexpected extra argument",
        ),
        (["list", "modells"], "unknown folder 'modells'; did you mean models?"),
        (["list", "models", "plots"], "unknown models 'plots'"),
        (["list", "models", "llama3_8b", "more"], "unexpected extra argument"),
    ],
)
def test_bad_commands(words, message):
    assert message in refused(stepsim(*words))


@pytest.mark.parametrize(
    ("schedule", "options", "message"),
    [
        ("1f2b", {}, "unknown schedule '1f2b'"),
        ("1f1b", {"stages": 0}, "stages=0: a schedule needs a whole number of at least 1"),
        ("1f1b", {"microbatches": -1}, "microbatches=-1: a schedule needs a whole number of at least 1"),
        ("1f1b", {"stages": 4000, "microbatches": 4000}, "= 16000000 chunks; at most"),
        ("1f1b", {"virtual": 2}, "unknown option of 1f1b 'virtual'"),
        ("interleaved", {"virtual": 0}, "virtual=0"),
        ("interleaved", {"microbatches": 6}, "nearest: microbatches=4 or 8"),
        ("interleaved,virtual=2", {"virtual": 2}, "virtual is given twice: 2 in the text, 2 beside it"),
        ("interleaved,stages=3", {}, "stages is given twice: 3 in the text, 4 beside it"),
        ("interleaved,name=3", {}, "unknown option of interleaved 'name'"),
        ("1f1b", {"forward": "nan"}, "forward=nan: a time is 0, or from"),
        ("1f1b", {"forward": -1}, "forward=-1: a time is 0, or from"),
        ("1f1b", {"hop": "inf"}, "hop=inf: a time is 0, or from"),
        ("1f1b", {"backward_weight": "1e99"}, "backward_weight=1e+99: a time is 0, or from"),
        ("1f1b", {"forward": 0, "backward_input": 0, "backward_weight": 0}, "one of them must be above 0"),
        ("1f1b", {"out": "/nowhere/at/all.png"}, "cannot write /nowhere/at/all.png"),
        ("1f1b", {"out": "all.foo"}, "a picture ends in one of"),
        ("1f1b", {"csv": "/nowhere/at/all.csv"}, "cannot write /nowhere/at/all.csv"),
        ("nosuch.csv", {}, "nosuch.csv: No such file or directory"),
        ("1f1b", {"chains": 2}, "--chains 2 is for schedules from CSV files; 1f1b knows its own"),
        ("1f1b", {"stages": None}, "1f1b needs --stages"),
        ("1f1b", {"microbatches": None}, "1f1b needs --microbatches"),
        ("1f1b", {"mode": "late"}, "unknown mode 'late'; did you mean latency"),
        ("1f1b", {"release": "F"}, "unknown release 'F'; Known: I, W"),
        ("1f1b", {"pair_factor": -1}, "pair_factor=-1: a time is 0, or from"),
        ("1f1b", {"stage_factors": "1,1"}, "2 stage factors for 4 stages; each stage needs one"),
        ("1f1b", {"stage_factors": "1,1,1,x"}, "--stage-factors 1,1,1,x: not numbers such as"),
    ],
)
def test_bad_schedules(schedule, options, message):
    given = {"stages": 4, "microbatches": 8, **options}
    given = {name.replace("_", "-"): value for name, value in given.items() if value is not None}
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    assert message in refused(stepsim("gantt", schedule, *words))


def test_json_has_no_infinities():
    words = ["run", "llama3_8b,layers=4", "flat,ranks=8,latency=1e308", "dp=8", "--batch", "8", "--sequence", "8"]
    refused(stepsim(*words, "--json"))


def test_the_installed_command(tmp_path):
    """As a process: one JSON object on stdout and nothing beside it; one line and exit code 2 on bad input."""
    command = [str(Path(sys.executable).with_name("stepsim"))]
    words = ["run", "llama3_8b,layers=4", "dgx_h100", "dp=8", "--batch", "8", "--sequence", "2048"]
    done = subprocess.run([*command, *words, "--json"], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert set(json.loads(done.stdout)) == RUN_KEYS
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    bad = subprocess.run([*command, *words, "--batch", "9"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)
    assert list(tmp_path.iterdir()) == []
