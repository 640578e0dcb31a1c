"""Data sheets of accelerators: one file is one chip, each number with its source.

>>> from topologies import accelerators
>>> accelerators.build("h100").peak("bf16")
989400000000000.0
"""

from topologies.accelerator import Accelerator
from topologies.plugins import Folder

DATA_SHEETS = {
    "A100-PCIe-80GB": "a100_pcie",
    "A100-SXM4-40GB": "a100_40gb",
    "A100-SXM4-80GB": "a100_80gb",
    "B200-SXM": "b200",
    "B300-SXM": "b300",
    "GB200": "gb200",
    "GB300": "gb300",
    "GH200": "gh200",
    "Gaudi2": "gaudi2",
    "Gaudi3": "gaudi3",
    "H100-PCIe": "h100_pcie",
    "H100-SXM5": "h100",
    "H100-SXM5-HBM2e": "h100_hbm2e",
    "H20": "h20",
    "H200-SXM": "h200",
    "H800-SXM": "h800",
    "K40": "k40",
    "MI250X": "mi250x",
    "MI300X": "mi300x",
    "MI325X": "mi325x",
    "MI355X": "mi355x",
    "P100-SXM2": "p100",
    "TPU v4": "tpu_v4",
    "TPU v5e": "tpu_v5e",
    "TPU v5p": "tpu_v5p",
    "TPU v6e (Trillium)": "tpu_v6e",
    "Trainium1": "trainium1",
    "Trainium2": "trainium2",
    "V100-SXM2": "v100",
}
"""The name on a chip's data sheet, as in published tables, and the file that has it."""

SPARSE = 0.01
"""How near to twice a dense peak another one has to be to be taken for that of sparse matrices."""
FOLDER = Folder("topologies.accelerators", "accelerator", DATA_SHEETS)


def names() -> list[str]:
    """Every accelerator there is.

    >>> "a100_80gb" in names()
    True
    """
    return FOLDER.names()


def build(name: str | Accelerator) -> Accelerator:
    """The accelerator of that name (the file's or the data sheet's); an Accelerator is returned as it is.

    >>> build("H100-SXM5") == build("h100") == build(build("h100"))
    True
    """
    if isinstance(name, Accelerator):
        _check_dense(name)
        return name
    accelerator: Accelerator = FOLDER.build(str(name))
    return accelerator


def _check_dense(chip: Accelerator) -> None:
    """Refuse a peak for sparse matrices, twice the dense one, under the name of a chip whose data sheet is here."""
    if chip.name not in DATA_SHEETS:
        return
    known = FOLDER.build(chip.name).peak_flops
    for dtype, peak in chip.peak_flops.items():
        if dtype in known and abs(peak / known[dtype] / 2 - 1) < SPARSE:
            raise ValueError(
                f"{dtype} peak {peak:.4g} of {chip.name} is its sparse one, twice the dense {known[dtype]:.4g}; "
                "give a faster chip that you imagine a name of its own"
            )
