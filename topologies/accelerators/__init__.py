"""Data sheets of accelerators: one file is one chip, each number with its source.

>>> from topologies import accelerators
>>> accelerators.build("h100").peak("bf16")
989400000000000.0
"""

from topologies.accelerator import Accelerator
from topologies.plugins import Folder

FOLDER = Folder("topologies.accelerators", "accelerator", {"H100-SXM5": "h100", "A100-SXM4-80GB": "a100_80gb"})


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
        return name
    accelerator: Accelerator = FOLDER.build(str(name))
    return accelerator
