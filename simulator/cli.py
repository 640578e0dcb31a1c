"""The command `stepsim`: one JSON object with --json, exit code 2 with one line on bad input."""

import json
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import click

from simulator.cli_texts import numbers, pairs, size_bytes
from simulator.outputs import check_picture, check_writable, save_picture, write

JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")


class OneLine(click.Group):
    """A group whose every error is one line, with exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line."""
        from simulator.deadlock import DeadlockError

        try:
            return super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.exceptions.Exit as stop:
            sys.exit(stop.exit_code)
        except click.ClickException as error:
            message = error.format_message()
        except (ValueError, DeadlockError, OSError) as error:
            message = str(error)
        except click.Abort:
            message = "interrupted"
        click.echo(f"stepsim: {' '.join(message.split())}", err=True)
        return sys.exit(2)


@click.group(cls=OneLine, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="stepsim")
def main() -> None:
    """Simulate large-scale training steps: time, memory, bubbles, exposed communication, MFU."""


@main.command()
@click.argument("model")
@click.argument("topology")
@click.argument("plan")
@click.option("--batch", type=int, required=True, help="Sequences per step, over all ranks.")
@click.option("--sequence", type=int, required=True, help="Tokens per sequence.")
@click.option("--microbatch", type=int, default=1, show_default=True, help="Sequences per microbatch and replica.")
@click.option("--recompute", default="none", show_default=True, help="Such as selective, full or full,every=4.")
@click.option("--precision", default="bf16", show_default=True, help="bf16, fp16, fp32, tf32, fp8, mxfp8 or nvfp4.")
@click.option("--optimizer", default="adam", show_default=True, help="Such as adam,gradients=4, muon or none.")
@click.option("--offload", default="none", show_default=True, help="Such as optimizer or optimizer+gradients,to=nvme.")
@click.option("--stack", default="megatron_bridge_2025", show_default=True, help="Software: see stepsim list stacks.")
@click.option("--attention", help="flash, flash2, triton or unfused; by default the stack's.")
@click.option("--fusion/--no-fusion", default=None, help="Whether elementwise kernels are fused; else as the stack.")
@click.option("--graphs/--no-graphs", default=None, help="Whether CUDA graphs launch the kernels; else as the stack.")
@click.option("--convention", default="causal", show_default=True, help="How model FLOPs are counted.")
@click.option("--detail", type=click.Choice(["ops", "actions"]), default="ops", show_default=True)
@click.option("--algorithm", multiple=True, metavar="KIND=NAME", help="Such as all_reduce=ring; the rest is chosen.")
@click.option("--no-fold", is_flag=True, help="Replay every rank instead of one per symmetry class.")
@click.option("--constants", type=click.Path(dir_okay=False), help="Constants of kernels, as stepsim calibrate writes.")
@click.option("--gantt", type=click.Path(dir_okay=False), help="Write a Gantt chart to this file.")
@click.option("--memory", type=click.Path(dir_okay=False), help="Write a picture of memory over time to this file.")
@click.option("--trace", type=click.Path(dir_okay=False), help="Write a Chrome / Perfetto trace to this file.")
@JSON
def run(model: str, topology: str, plan: str, **options: Any) -> None:
    """Simulate one training step of MODEL on TOPOLOGY, cut up by PLAN."""
    import topologies
    from simulator.simulation import simulate
    from workloads.step import TrainingStep

    outputs = {name: options.pop(name) for name in ("gantt", "memory", "trace")}
    as_json, detail, fold = options.pop("as_json"), options.pop("detail"), not options.pop("no_fold")
    algorithms = pairs("--algorithm", options.pop("algorithm"))
    constants = options.pop("constants")
    check_writable(*outputs.values())
    check_picture(outputs["gantt"])
    check_picture(outputs["memory"])
    step = TrainingStep(model, plan, **options)
    cluster, built = _timed(lambda: topologies.build(topology))
    result = simulate(step, cluster, detail=detail, fold=fold, algorithms=algorithms, constants=constants)
    report, measured = _timed(lambda: _report(result))
    _, written = _timed(lambda: write(result, **outputs))
    timings = {"topology": built, **result.timings, "metrics": measured, "output": written}
    report["wall_seconds"] = sum(timings[name] for name in ("program", "fold", "replay", "metrics"))
    report["timings_seconds"] = timings
    _print(report if as_json else result, as_json=as_json)


@main.command()
@click.argument("schedule")
@click.option("--stages", type=int, help="Pipeline ranks.")
@click.option("--microbatches", type=int, help="Microbatches a step.")
@click.option("--virtual", type=int, help="Virtual stages per rank, where the schedule takes so many.")
@click.option("--chains", type=int, help="Into how many chains the stages of a CSV file are cut; 2 for DualPipe.")
@click.option("--forward", type=float, default=1.0, show_default=True, help="Time of a forward on a rank.")
@click.option("--backward-input", type=float, default=1.0, show_default=True, help="Time of an input gradient.")
@click.option("--backward-weight", type=float, default=1.0, show_default=True, help="Time of a weight gradient.")
@click.option("--hop", type=float, default=0.0, show_default=True, help="Time of a message between ranks.")
@click.option(
    "--mode",
    default="latency",
    show_default=True,
    help="Who a hop holds: latency (nobody), send_block, recv_block or blocking (both).",
)
@click.option("--pair-factor", type=float, default=1.0, show_default=True, help="Of F + B, for an overlapped pair.")
@click.option("--release", default="W", show_default=True, help="What ends a microbatch's time in flight: I or W.")
@click.option("--stage-factors", help="Times of each stage over the others', such as 1,1,1,1.5.")
@click.option("--csv", type=click.Path(dir_okay=False), help="Write the schedule to this file.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write the picture to this file, PNG or SVG.")
@click.option("--arrows", is_flag=True, help="Draw which action each message comes from and goes to.")
@click.option("--memory", is_flag=True, help="Draw what is in flight beneath each rank.")
@click.option("--text", is_flag=True, help="Print the schedule as a table of ranks and steps too.")
@JSON
def gantt(schedule: str, *, as_json: bool, stage_factors: str | None, **options: Any) -> None:
    """Replay a pipeline schedule by itself: its figures and its picture.

    SCHEDULE is one of `stepsim list schedules`, with options or without (1f1b or zb_h1,virtual=2), for as many
    --stages and --microbatches; or a CSV file with a row for each rank and an action (3F7) in each cell.
    """
    from simulator import gantt_command

    counts = {name: options.pop(name) for name in ("stages", "microbatches", "virtual", "chains")}
    files = {name: options.pop(name) for name in ("out", "csv")}
    shown = {name: options.pop(name) for name in ("arrows", "memory", "text")}
    times = {**options, "stage_factors": gantt_command.factors(stage_factors)}
    report, text = gantt_command.gantt(schedule, counts=counts, times=times, files=files, **shown)
    _print(report if as_json else text, as_json=as_json)


@main.command()
@click.argument("kind")
@click.option("--bytes", "size", required=True, help="One rank's whole buffer, as nccl-tests counts it: 1e9, 64MiB …")
@click.option("--topology", required=True, help="The cluster, as text or as a YAML file.")
@click.option("--ranks", default="all", show_default=True, help="Who takes part, such as 0-7,16.")
@click.option("--algorithm", default="auto", show_default=True, help="One of `stepsim list collectives`.")
@click.option("--curve", type=click.Path(dir_okay=False), help="Write the curve over message sizes to this file.")
@JSON
def collective(kind: str, size: str, topology: str, *, ranks: str, algorithm: str, **options: Any) -> None:
    """Time one collective that has its links to itself.

    KIND is all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, or send_receive, in which every rank
    sends to the next one at once.
    """
    import topologies
    from simulator.collective_time import time_collective

    check_writable(options["curve"])
    check_picture(options["curve"])
    cluster = topologies.build(topology)
    members = range(cluster.size) if ranks == "all" else numbers(ranks, cluster.size)
    done = time_collective(kind, bytes=size_bytes(size), ranks=members, topology=cluster, algorithm=algorithm)
    if options["curve"] is not None:
        save_picture(done.plot("collective_curve"), options["curve"])
    report = {
        "time_seconds": done.seconds,
        "algbw_bytes_per_second": done.algbw,
        "busbw_bytes_per_second": done.busbw,
        "algorithm": done.algorithm,
        "warnings": list(done.warnings),
    }
    _print(report if options["as_json"] else done, as_json=options["as_json"])


@main.group()
def validate() -> None:
    """Compare predictions with what others measured and published."""


@validate.command(name="collectives")
@click.option("--data", type=click.Path(dir_okay=False), help="Measurements of your own, with the same columns.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write every row with its prediction to this CSV file.")
@JSON
def validate_collectives(data: str | None, out: str | None, as_json: bool) -> None:
    """Compare times of collectives with measured ones."""
    from simulator.validation import collectives

    _validate(collectives, data, out, as_json=as_json)


@validate.command(name="gemm")
@click.option("--data", type=click.Path(dir_okay=False), help="Measurements of your own, with the same columns.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write every row with its prediction to this CSV file.")
@JSON
def validate_gemm(data: str | None, out: str | None, as_json: bool) -> None:
    """Compare times of GEMMs, attention and memory streams with measured ones.

    With --data, every accelerator with 20 GEMMs or more has the clock that suits them, and the errors without are
    reported beside.
    """
    from simulator.validation import gemm

    _validate(gemm, data, out, as_json=as_json)


@validate.command(name="runs")
@click.option("--data", type=click.Path(dir_okay=False), help="Published runs of your own, with the same columns.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write every row with its prediction to this CSV file.")
@click.option("--plot", type=click.Path(dir_okay=False), help="Draw predicted against published times, PNG or SVG.")
@click.option("--split", multiple=True, help="Only rows of this split, such as calib; may be given again.")
@click.option("--group", multiple=True, help="Only rows of this group, such as korth22; may be given again.")
@click.option("--constants", type=click.Path(dir_okay=False), help="Constants of kernels, as stepsim calibrate writes.")
@JSON
def validate_runs(data: str | None, out: str | None, as_json: bool, plot: str | None, **options: Any) -> None:
    """Compare step times and peak memory of whole training runs with published ones, on two processes."""
    from simulator.validation import runs, runs_scatter
    from simulator.validation.report import SECONDS, check_compared

    check_writable(out, plot)
    check_picture(plot)
    kept = {"splits": options["split"], "groups": options["group"], "constants": options["constants"]}
    rows, summary = runs.validate(data, **kept, progress=not as_json)
    if out is not None:
        runs.written(rows).rename(columns=SECONDS).to_csv(out, index=False)
    check_compared(summary, len(rows), data or "runs.csv")
    if plot is not None:
        save_picture(runs_scatter.draw(rows), plot)
    _print(summary if as_json else runs.text(summary), as_json=as_json)


@validate.command(name="schedules")
@click.option("--data", type=click.Path(dir_okay=False), help="Published schedules of your own, in the same format.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write every check with its outcome to this CSV file.")
@JSON
def validate_schedules(data: str | None, out: str | None, as_json: bool) -> None:
    """Compare pipeline schedules with published ones, their closed forms and printed bubble rates.

    Orders that stepsim generates must be the given ones action for action, figures of replays the given ones to their
    digits, searched schedules no worse, and what others refuse refused by the same rule.
    """
    from simulator.validation import schedules

    _validate(schedules, data, out, as_json=as_json)


def _validate(kind: Any, data: str | None, out: str | None, *, as_json: bool) -> None:
    """Run one kind of validation, write its rows, print its report."""
    from simulator.validation.report import SECONDS, check_compared

    check_writable(out)
    rows, summary = kind.validate(data)
    if out is not None:
        rows.rename(columns=SECONDS).to_csv(out, index=False)
    check_compared(summary, len(rows), data)
    _print(summary if as_json else kind.text(summary), as_json=as_json)


@main.command()
@click.option("--data", multiple=True, type=click.Path(dir_okay=False), help="Measurements, columns as of runs.csv.")
@click.option(
    "--site/--no-site", default=True, help="One factor for the site of --data; or its calib rows beside ours."
)
@click.option("--constants", type=click.Path(dir_okay=False), help="Where to begin, rather than at the published ones.")
@click.option("--evaluations", type=int, default=3, show_default=True, help="Rounds of a fit of all constants.")
@click.option("--ablate", is_flag=True, help="Fit nothing: the table of what each effect is worth.")
@click.option("--every", type=int, default=1, show_default=True, help="Of all runs, those that --ablate looks at.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write the constants to this YAML file, a table to CSV.")
@JSON
def calibrate(as_json: bool, **options: Any) -> None:
    """Fit the constants of training steps to published runs, or one factor to the steps of a site of your own.

    Without --data, those of kernels.yaml that runs tell, each drawn towards what microbenchmarks and sources say; this
    takes minutes. With --data, how fast the kernels of your site are; `stepsim run --constants` takes what is written.
    """
    from simulator import calibrate_command

    report, text = calibrate_command.calibrate(**options, progress=not as_json)
    _print(report if as_json else text, as_json=as_json)


@main.command(name="list")
@click.argument("folder", required=False)
@click.argument("name", required=False)
@JSON
def list_(folder: str | None, name: str | None, as_json: bool) -> None:
    """List what there is: models, topologies, accelerators, strategies, schedules, collectives, plots.

    `stepsim list topologies` also says in one line what each of them is, and `stepsim list topologies dgx_h100` which
    options it takes.
    """
    import topologies
    from topologies.plugins import unknown

    folders = _folders()
    if folder is not None and folder not in folders:
        raise click.UsageError(unknown("folder", folder, folders))
    if folder is not None and name is not None:
        words = _described(folder, name)
        _print({folder: {name: words}} if as_json else words, as_json=as_json)
        return
    found = {each: names() for each, names in folders.items() if folder in (None, each)}
    if folder == "topologies" and not as_json:
        text = "\n".join(f"{name:<16} {topologies.build(name).description}" for name in found[folder])
    else:
        text = "\n".join(f"{name}: {', '.join(values)}" for name, values in found.items())
    _print(found if as_json else text, as_json=as_json)


def _described(folder: str, name: str) -> str:
    """What a plugin is and which options it takes, with their defaults, in its own words."""
    import importlib
    import inspect

    from topologies.clusters import HOSTS
    from topologies.plugins import unknown

    known = _folders()[folder]()
    if name not in known:
        raise click.UsageError(unknown(folder, name, known))
    packages = {"topologies": "topologies.clusters", "accelerators": "topologies.accelerators"}
    own = "simulator" if folder in ("collectives", "plots") else "workloads"
    module = importlib.import_module(f"{packages.get(folder, f'{own}.{folder}')}.{name}")
    function = module.draw if folder == "plots" else module.build
    options = [
        each.name if each.default is each.empty else f"{each.name}={each.default}"
        for each in inspect.signature(function).parameters.values()
        if each.kind is not each.VAR_KEYWORD
    ]
    words, _, _ = (inspect.getdoc(function) or "").partition("\n\n>>>")
    beside = f"\n\nBeside these: {', '.join(HOSTS)}" if folder == "topologies" else ""
    return f"{name}({', '.join(options)})\n\n{words}{beside}"


def _folders() -> dict[str, Callable[[], list[str]]]:
    """The plugin folders and how to list them."""
    import topologies
    from simulator import collectives, plots
    from workloads import models, schedules, stacks, strategies

    return {
        "models": models.names,
        "topologies": topologies.names,
        "accelerators": topologies.accelerators.names,
        "strategies": strategies.names,
        "schedules": schedules.names,
        "stacks": stacks.names,
        "collectives": collectives.names,
        "plots": plots.names,
    }


def _report(result: Any) -> dict[str, Any]:
    """What `stepsim run --json` prints, without the timings."""
    return {
        "step_time_seconds": result.step_time,
        "tokens_per_second": result.tokens_per_second,
        "tokens_per_second_per_gpu": result.tokens_per_second / result.topology.size,
        "mfu": result.mfu,
        "hfu": result.hfu,
        "flops_convention": result.program.convention,
        "bubble_fraction": result.bubble_fraction,
        "exposed_communication_seconds": dict(result.exposed),
        "peak_memory_bytes": result.peak_memory,
        "reserved_memory_bytes": result.reserved_memory,
        "usable_memory_bytes": min(result.usable_memory),
        "memory_rows_bytes": dict(result.memory_rows),
        "memory_fits": result.memory_fits,
        "memory_remedy": str(result.remedy) if result.remedy else None,
        "offloaded_memory_bytes": result.offloaded_memory,
        "gpus": result.topology.size,
        "rank_classes": result.rank_classes,
        "ops_replayed": result.timeline.ops_replayed,
        "warnings": list(result.warnings),
    }


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = perf_counter()
    value = work()
    return value, perf_counter() - start


def _print(value: Any, *, as_json: bool) -> None:
    """Print a value as text or as JSON, which has no word for infinite or undefined numbers."""
    click.echo(json.dumps(value, allow_nan=False) if as_json else str(value))
