"""GB200 NVL72 racks: 72 GPUs on one NVLink switch.

Source: NVIDIA GB200 NVL72 data sheet: 18 trays of 4 GPUs, 1.8 TB/s of NVLink a GPU counted both ways; reference design
with one 400 Gb/s InfiniBand card a GPU.
"""

from typing import Unpack

from topologies.clusters._racks import GPUS_PER_RACK, GPUS_PER_TRAY, racks_on_a_switch
from topologies.clusters._servers import Switched, SwitchOptions
from topologies.topology import Topology
from topologies.units import GIGA

TRAYS = Switched("gb200", nics=4, nic_gbit=400, transport="infiniband", gpus=GPUS_PER_TRAY, nvlink=900 * GIGA)


def build(racks: int = 1, gpus_per_rack: int = GPUS_PER_RACK, **options: Unpack[SwitchOptions]) -> Topology:
    """So many racks, of which `gpus_per_rack` are used: 72, or whole trays of 4.

    A rack is a host, that is a scale-up domain. Options: `nics` a tray of 4 GPUs, `nic_gbit`, `transport`,
    `oversubscription`, `accelerator`, `nvlink_bandwidth`.
    Assumes the fabric between racks is one ideal, non-blocking switch; with an oversubscription, a leaf switch above
    each rack below one ideal spine.

    >>> build(racks=2).description
    '144 GB200 in 2 nodes; nvlink 900 GB/s; infiniband 72 × 400 Gb/s a node'
    """
    return racks_on_a_switch(build, TRAYS, racks, gpus_per_rack, options)
