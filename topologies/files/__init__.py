"""A user's own cluster in a YAML file, as servers below switches or as an explicit graph.

Servers may be unequal and of different accelerators; each entry stands for `count` equal ones:

    servers:
      - {count: 2, gpus: 8, accelerator: h100, nic_gbit: 400}
      - {count: 4, gpus: 4, accelerator: a100_40gb, nics: 1, nic_gbit: 200, transport: infiniband,
         scale_up: {kind: nvlink, bandwidth: 300e9, latency: 0.3e-6}}
    network:
      levels:
        - {switch: leaf, nodes: 2}
        - {switch: spine, oversubscription: 2}

`nics` (one a GPU unless said) are cards a node of `nic_gbit` Gb/s each way, `transport` (infiniband) the kind of their
links, `pcie` the generation between GPUs and cards that they share. `scale_up` is a switch inside the server, to which
each GPU has `bandwidth` bytes/s each way, or with `mesh: true` the direct link of each pair; without it, what the
accelerator has by its data sheet. `network` (one ideal switch unless said) lists switches from the cards up: one above
so many `nodes`, the last above all; uplinks have the rate of the cards below them, or `bandwidth` bytes/s per GPU
below, over the `oversubscription`.

A graph lists everything; links go both ways unless `directed: true`:

    devices:
      - {name: a, accelerator: h100, host: left}
      - {name: b, accelerator: h100}
    switches: [s]
    links:
      - {from: a, to: s, bandwidth: 50e9, latency: 1e-6, kind: ethernet}
      - {from: b, to: s, bandwidth: 50e9}

Either may say what copies between devices and their hosts find there, in bytes/s, and how many devices share a host
where it is not all of one domain; without it, what the accelerators have by their data sheets and typical drives:

    host: {bandwidth: 55e9, nvme_read: 50e9, nvme_write: 25e9, devices: 4}

Unknown keys fail with the nearest known one, and every mistake is one line that names the file.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from topologies.files.entries import Entry
from topologies.files.explicit import explicit
from topologies.files.servers import servers
from topologies.hosts import Hosts
from topologies.topology import Topology

_FORMS: Mapping[str, Callable[[str, Entry], Topology]] = {"servers": servers, "devices": explicit}


def load(path: str | Path) -> Topology:
    """The cluster of a YAML file; its name is the path, which `topologies.build` loads again.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "lab.yaml")
    ...     _ = path.write_text("servers: [{count: 2, gpus: 8, accelerator: h100, nic_gbit: 400}]")
    ...     load(path).description
    '16 H100-SXM5 in 2 nodes; nvlink 450 GB/s; infiniband 8 × 400 Gb/s a node'
    """
    try:
        return _built(str(path), yaml.safe_load(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _built(name: str, content: Any) -> Topology:
    entry = Entry.of("the file", content)
    forms = [key for key in _FORMS if key in entry.values]
    if len(forms) != 1:
        raise ValueError(f"a cluster has either 'servers' or 'devices', not {' and '.join(forms) or 'neither'}")
    host = entry.part("host", {}).only(*(each.name for each in fields(Hosts)))
    rates: dict[str, Any] = {key: host.number(key) if key != "devices" else host.get(key) for key in host.values}
    rest = Entry(entry.where, {key: value for key, value in entry.values.items() if key != "host"})
    topology = _FORMS[forms[0]](name, rest)
    return topology.replace(host=Hosts(**rates)) if rates else topology
