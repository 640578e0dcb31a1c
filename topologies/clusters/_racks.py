"""What NVL72 racks share: trays of four GPUs, and one NVLink switch above all of them."""

from collections.abc import Callable
from typing import Any

from topologies.clusters._servers import Switched, SwitchOptions, outside
from topologies.hierarchy import blocks
from topologies.options import MAXIMUM_DEVICES, check_size, title
from topologies.topology import Topology

GPUS_PER_TRAY = 4
GPUS_PER_RACK = 72


def racks_on_a_switch(
    build: Callable[..., Any], defaults: Switched, racks: int, gpus_per_rack: int, options: SwitchOptions
) -> Topology:
    """So many racks, their cards on one ideal switch or, oversubscribed, on a leaf switch per rack."""
    trays = defaults.changed(build, options)
    size = check_size("gpus_per_rack", gpus_per_rack, GPUS_PER_RACK, multiple=GPUS_PER_TRAY)
    devices = size * check_size("racks", racks, MAXIMUM_DEVICES // size)
    hosts = blocks(devices, size)
    changed = trays.beside(defaults)
    name = title(build, racks=racks, gpus_per_rack=size, **changed)
    return trays.cluster(name, trays.above_servers(hosts), hosts).replace(warnings=outside(changed, racks, "rack"))
