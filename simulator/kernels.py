"""How the kernels of accelerators use their peaks: the constants of every family, read from kernels.yaml.

Accelerators whose kernels are alike are a *family*. A constant is shared by all, or belongs to a family or to a single
accelerator; the narrowest place that gives it counts. Families that were never measured have the shares of `other`; an
accelerator without a data sheet, such as `ideal`, reaches its peaks and costs nothing. Assumes that all data types
reach the share of BF16 where the file gives them none, and that NVFP4 reaches `nvfp4_ratio` of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from simulator.constants import Key, read
from topologies.accelerators import DATA_SHEETS
from topologies.plugins import unknown

FAMILIES = {
    **dict.fromkeys(("A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIe-80GB"), "A100"),
    **dict.fromkeys(("H100-SXM5", "H100-SXM5-HBM2e", "H100-PCIe", "H200-SXM", "H800-SXM", "H20", "GH200"), "Hopper"),
    **dict.fromkeys(("B200-SXM", "GB200"), "Blackwell"),
    **dict.fromkeys(("B300-SXM", "GB300"), "Blackwell Ultra"),
    **dict.fromkeys(("MI300X", "MI325X", "MI355X"), "MI300"),
    **dict.fromkeys(("TPU v4", "TPU v5e", "TPU v5p", "TPU v6e (Trillium)", "TPU v7x (Ironwood)"), "TPU"),
    **{name: name for name in ("Gaudi2", "Gaudi3")},
}
"""Accelerators and the family whose constants they have; the rest of those with a data sheet are `other`."""

OTHER = "other"
LIKE = {"Blackwell Ultra": "Blackwell"}
"""Families that have the constants of another one where the file does not give them their own."""

INSTRUCTIONS = {"A100": 2048.0, "Hopper": 4096.0, "Blackwell": 8192.0, "Blackwell Ultra": 8192.0}
"""BF16 FLOPs per clock and SM of the tensor cores (data sheets: peak over SMs and clock), for families on which kernels
written for Ampere run. They issue Ampere's instructions (mma.sync), and so reach on a later family what they reach on
A100 times the ratio of these. Elsewhere libraries have a kernel of their own, the best there is."""

BLOCK = 128.0
"""Queries of a block of fused attention, and keys that it takes at a time (FlashAttention-2, arXiv:2307.08691, and -3,
arXiv:2407.08608, for heads of 128)."""
TILES = {("Blackwell", "best"): 2.0, ("Blackwell Ultra", "best"): 2.0}
"""Tiles of so many queries that a block has: two on Blackwell (FlashAttention-4, together.ai/blog/flashattention-4)."""
LATE_BLOCKS = 1.0
"""Blocks by which the last wave of attention ends late on average, as masked blocks are unequal."""

ITEM_BYTES = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "mxfp8": 1.0, "nvfp4": 0.5, "fp4": 0.5}
"""Bytes of an element of each data type that kernels take, without the scales of a block."""

BEST, FLASH2, TRITON = "", "flash2", "triton"
VARIANTS = {BEST: "best", FLASH2: "flash2", TRITON: "triton"}
"""Implementations of attention, by the `variant` of an op, and what they are called in the file."""
AMPERE = ("flash2", "triton")
"""Those that are written for Ampere. They lose to exponentials alike."""

GEMM_SHARES = {**dict.fromkeys(ITEM_BYTES, "gemm_bf16"), "fp8": "gemm_fp8", "mxfp8": "gemm_fp8"}
"""The constant that says which share of the peak a data type's GEMMs reach; `gemm` stands for all of them."""
FP4 = ("nvfp4", "fp4")


@dataclass(frozen=True, slots=True)
class Attention:
    """A fused implementation of attention.

    `share` of the peak is reached by long rows of heads of 128; each row of blocks costs as much as `overhead_keys`
    more keys, and each score as much as `score_depth` more elements of a head. A block has `block_rows` queries of one
    head, and takes `block_keys` keys at a time.
    """

    share: float = 1.0
    overhead_keys: float = 0.0
    score_depth: float = 0.0
    block_rows: float = 1.0
    block_keys: float = 0.0


@dataclass(frozen=True, slots=True)
class Training:
    """What steps that go on for hours are like, relative to kernels measured by themselves.

    `clock` is that of GEMMs and `attention_clock` that of fused attention, at the limit of power; `memory` the share of
    the bandwidth that is left. Ranks differ by `jitter` (a standard deviation), and all wait for the slowest. Between
    two steps the host works `step_seconds` for itself; then a kernel is launched every `launch_interval`.
    `kernel_share` is how fast a stack's kernels are.
    """

    clock: float = 1.0
    attention_clock: float = 1.0
    memory: float = 1.0
    jitter: float = 0.0
    step_seconds: float = 0.0
    launch_interval: float = 0.0
    kernel_share: float = 1.0


OWN = (
    *("extra_depth_bytes", "tile_loss", "quantisation", "memory_share", "kernel_seconds", "graph_seconds"),
    "backward_share",
)
"""Constants of kernels that are as the file has them."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """How an accelerator's kernels use its peaks. Shares are of the dense peak or the bandwidth of the data sheet.

    `gemm` has the share that large GEMMs reach for each data type. A tile takes as long as if its depth were
    `extra_depth_bytes` greater, and tiles smaller than the largest lose with `tile_loss`; of an unfilled wave,
    `quantisation` is lost. `memory_share` is what large memory-bound kernels see; `kernel_seconds` a kernel's own start
    and drain, `graph_seconds` the same when it is queued already: launched by a graph, or a further group of a grouped
    GEMM. `tail` blocks of attention are waited for at the end, and its backward reaches `backward_share` of what the
    forward does.
    """

    gemm: Mapping[str, float] = field(default_factory=dict)
    extra_depth_bytes: float = 0.0
    tile_loss: float = 0.0
    quantisation: float = 0.0
    memory_share: float = 1.0
    kernel_seconds: float = 0.0
    graph_seconds: float = 0.0
    tail: float = 0.0
    backward_share: float = 1.0
    attention: Mapping[str, Attention] = field(default_factory=dict)
    training: "Training" = field(default_factory=Training)

    def gemm_share(self, dtype: str) -> float:
        """The share of its peak that a data type's large GEMMs reach."""
        return self.gemm.get(dtype, 1.0)

    def attention_variant(self, variant: str) -> Attention:
        """An implementation of attention; an unknown one fails with the known ones."""
        if variant not in VARIANTS:
            raise ValueError(unknown("variant of attention", variant, VARIANTS))
        return self.attention.get(variant, IDEAL_ATTENTION)


IDEAL = Kernels()
IDEAL_ATTENTION = Attention()


@dataclass(frozen=True, slots=True, eq=False)
class Constants:
    """A whole set of constants: `values` by their place in the file, read by family."""

    values: Mapping[Key, float]
    cache: dict[tuple[str, str], Kernels] = field(default_factory=dict)

    def kernels(self, accelerator: str, stack: str = "") -> Kernels:
        """The constants of an accelerator's family below a software stack, and of the stack.

        An accelerator without a data sheet is ideal (peak, no overhead).
        """
        stack = stack.partition(",")[0]
        if (accelerator, stack) not in self.cache:
            family = FAMILIES.get(accelerator, OTHER if accelerator in DATA_SHEETS else "")
            self.cache[accelerator, stack] = self._of(accelerator, family, stack) if family else IDEAL
        return self.cache[accelerator, stack]

    def _of(self, accelerator: str, family: str, stack: str) -> Kernels:
        """The constants of an accelerator: its own, or its family's, or those of one like it, or those of the rest."""
        lineage = (OTHER, *([LIKE[family]] if family in LIKE else []), family, accelerator)
        shared = {name: value for (section, _, name), value in self.values.items() if section == "shared"}
        own = shared | self._joined("families", lineage)
        gemm = {dtype: self._gemm_share(lineage, name) for dtype, name in GEMM_SHARES.items()}
        return Kernels(
            gemm=gemm | {dtype: gemm[dtype] * shared["nvfp4_ratio"] for dtype in FP4},
            tail=LATE_BLOCKS,
            attention={variant: self._attention(lineage, name) for variant, name in VARIANTS.items()},
            training=Training(**self._joined("training", (*lineage, stack))),
            **{name: own[name] for name in OWN},
        )

    def _gemm_share(self, lineage: Sequence[str], name: str) -> float:
        """The narrowest of a lineage's shares; in one place, that of a data type is narrower than `gemm`."""
        places = [("families", entry, each) for entry in lineage for each in ("gemm", name)]
        return [self.values[key] for key in places if key in self.values][-1]

    def _attention(self, lineage: Sequence[str], name: str) -> Attention:
        """An implementation of attention: what a family reaches with it, the rest as everywhere.

        On A100 FlashAttention-2 is the best there is; where no kernel for Ampere runs, there is nothing but the best.
        """
        family = lineage[-2]
        if family == "A100" and name == "best":
            name = "flash2"
        elif family not in INSTRUCTIONS:
            name = "best"
        shared = self._joined("attention", ["all", "flash2" if name in AMPERE else name])
        share = self._attention_share(lineage, name)
        rows = BLOCK * TILES.get((family, name), 1.0)
        return Attention(**shared | share, block_rows=rows, block_keys=BLOCK)

    def _attention_share(self, lineage: Sequence[str], name: str) -> dict[str, float]:
        """What a family reaches with an implementation of attention, where that is not what all do."""
        own = self._joined("attention", [f"{entry} {name}" for entry in lineage])
        if own or name not in AMPERE:
            return own
        ratio = INSTRUCTIONS["A100"] / INSTRUCTIONS[lineage[-2]]
        return {each: value * ratio for each, value in self._joined("attention", [f"A100 {name}"]).items()}

    def _joined(self, section: str, entries: Sequence[str]) -> dict[str, float]:
        """The constants of several entries, where a later one overrules an earlier one."""
        found: dict[str, dict[str, float]] = {entry: {} for entry in entries}
        for (where, entry, name), value in self.values.items():
            if where == section and entry in found:
                found[entry][name] = value
        return {name: value for entry in entries for name, value in found[entry].items()}


@cache
def published() -> Constants:
    """The constants that come with the package."""
    return Constants(read("kernels.yaml"))


def kernels(accelerator: str) -> Kernels:
    """The published constants of an accelerator.

    >>> kernels("GH200") == kernels("H100-SXM5"), kernels("ideal") == IDEAL
    (True, True)
    """
    return published().kernels(accelerator)
