"""The parallel plan and the recomputation of a published run."""

import math
from collections.abc import Iterator

from simulator.validation.published_cells import Cells
from simulator.validation.published_clusters import slices
from simulator.validation.published_stacks import WITHOUT_SEQUENCE_PARALLELISM
from simulator.validation.published_times import implies_recomputation
from simulator.validation.tables import LeftOutError
from workloads import Transformer, stacks
from workloads.stages import layout_text

SCHEDULES = {
    "zb-1p": "zb_auto",
    "zb-2p": "zb_auto,memory=2",
    "zb-h1": "zb_h1",
    "zb-h2": "zb_h2",
    "zb-v": "zb_v",
    "dualpipe": "dualpipe",
    "gpipe": "gpipe",
    "interleaved": "interleaved",
    "1f1b": "1f1b",
}
"""Words of a row for its schedule, and ours: the first that it contains. ZB-1p and ZB-2p are searches with the memory
of 1F1B and twice that (arXiv:2401.10241, section 3.1)."""
BALANCED = "one layer fewer"
"""What notes say of runs whose first and last stage hold a layer less, for embedding and head."""
LIGHTER = "last stage lighter"
"""What notes say of layers that do not divide: DeepSpeed fills stages from the first on (partition_balanced)."""
SPLITS = r"TP(\d+) x PP(\d+)"
"""How notes tell degrees that were not printed for each row."""

RECOMPUTED = {
    "minimal": "selective,modules=attention+norm+activation",
    "qkv_proj_offloaded": "full",
    "op-level SAC": "selective,modules=op",
    "per-op SAC": "selective,modules=op",
    "selective op": "selective,modules=op",
}
"""What some sources' words for recomputation come to. MaxText's `minimal` keeps all products of weights, and
`qkv_proj_offloaded` nothing else on the accelerator but what it needs for queries, keys and values (base.yml and
layers/decoders.py); torchtitan's per-op policy keeps attention and every second product (parallelize_llama.py)."""
EVERY_SECOND_LAYER = "selective layer"


def degrees(cells: Cells) -> tuple[int, int, int]:
    """Tensor, pipeline and data parallel degree, which multiply to the number of accelerators."""
    told = cells.found(SPLITS, "notes")
    tp, pp = (cells.count(name, int(told[index]) if told else 1) for index, name in enumerate(("tp", "pp")))
    gpus = int(cells.number("gpus"))
    cp = cells.number("cp")
    if cp > 1:
        raise LeftOutError("context parallelism: no such axis yet")
    if gpus % (tp * pp):
        raise LeftOutError(f"{gpus} accelerators are no multiple of tp={tp} × pp={pp}")
    dp = gpus // (tp * pp)
    if cells.states("dp") and cells.number("dp") != dp:
        raise LeftOutError(f"tp={tp} × pp={pp} × dp={cells.number('dp'):g} are not the {gpus} accelerators")
    return tp, pp, dp


def plan(cells: Cells, stack: str) -> str:
    """The plan's text."""
    tp, pp, dp = degrees(cells)
    axes = []
    if pp > 1:
        axes.append(f"pp={pp},{_pipeline(cells, pp)}")
    if dp > 1:
        axes += _data(cells, dp, stack)
    if tp > 1:
        axes.append(f"tp={tp},{_tensor(cells, stack)}")
    return " ".join(axes) or "dp=1"


def _pipeline(cells: Cells, pp: int) -> str:
    """The schedule and how layers are split."""
    words = cells.word("schedule").lower()
    name = next((ours for theirs, ours in SCHEDULES.items() if theirs in words), "")
    if not name:
        name = "interleaved" if cells.number("vpp") > 1 or cells.word("overlap_pp") == "yes" else "1f1b"
        cells.assume(f"schedule={name}")
    balanced = BALANCED in cells.word("notes")
    if name == "interleaved":
        layers = int(cells.number("layers")) + 2 * balanced
        virtual = cells.count("vpp", layers // pp if layers % pp == 0 else 1)
        name = f"interleaved,virtual={virtual}" if virtual > 1 else "1f1b"
    if LIGHTER in cells.word("notes") and cells.states("layers"):
        layers = int(cells.number("layers"))
        full = math.ceil(layers / pp)
        name += f",layers={layout_text([full] * (pp - 1) + [layers - full * (pp - 1)])}"
    ends = ",account_for_embedding=on,account_for_loss=on" if balanced else ""
    p2p = ",p2p=recv_block" if cells.word("overlap_pp") == "no" else ""
    return f"schedule={name}{ends}{p2p}"


def _data(cells: Cells, dp: int, stack: str) -> Iterator[str]:
    """Replicas: whole, with a sharded optimizer, or fully sharded in groups."""
    usual = "zero1" if stacks.build(stack).distributed_optimizer else "none"
    sharding = cells.told("sharding", usual)
    group = int(cells.number("shard_group")) if cells.states("shard_group") else dp
    if sharding in ("fsdp", "hsdp"):
        if slices(cells) > 1:
            group = dp // slices(cells)
        if dp % group:
            raise LeftOutError(f"dp={dp} is no multiple of the {group} ranks that share parameters")
        if group < dp:
            yield f"dp={dp // group}"
        yield f"fsdp={group}"
        return
    zero = {"none": 0, "zero1": 1, "zero2": 2}.get(sharding)
    if zero is None:
        raise LeftOutError(f"no such sharding is modelled ({sharding})")
    shard = f",shard={group}" if zero == 1 and group < dp else ""
    overlap = ",overlap=off" if cells.word("overlap_dp") == "no" and zero < 2 else ""
    yield f"dp={dp},zero={zero}{shard}{overlap}"


OVERLAPPING_RECIPES = ("megatron_bridge_2025",)
"""Stacks whose published recipes overlap tensor parallel collectives with GEMMs although the library does not unless
told: NVIDIA's performance recipes set tp_comm_overlap."""


def _tensor(cells: Cells, stack: str) -> str:
    """Sequence parallelism, and whether collectives overlap with GEMMs."""
    usual = "no" if stack in WITHOUT_SEQUENCE_PARALLELISM else "yes"
    sp = "on" if cells.told("sequence_parallel", usual) == "yes" else "off"
    told = cells.word("overlap_tp")
    if not told and stack in OVERLAPPING_RECIPES and sp == "on":
        cells.assume("overlap_tp=yes")
        told = "yes"
    overlap = {"yes": ",overlap=on", "no": ",overlap=off"}.get(told, "") if sp == "on" else ""
    return f"sp={sp}{overlap}"


def recompute(cells: Cells, model: Transformer) -> str:
    """The text of a Recompute; nothing is recomputed where a source is silent and counts FLOPs once."""
    note = cells.word("recompute_note")
    if note == EVERY_SECOND_LAYER:
        half = int(cells.number("layers")) // 2
        cells.assume(f"recompute=full,layers={half} for every second layer")
        return f"full,layers={half}"
    special = next((ours for theirs, ours in RECOMPUTED.items() if theirs in note), "")
    if special:
        cells.assume(f"recompute={special} for {note}")
        return special
    if not cells.word("recompute") and implies_recomputation(cells, model):
        cells.assume("recompute=full for the FLOPs that rate and time imply")
        return "full"
    return cells.told("recompute", "none")
