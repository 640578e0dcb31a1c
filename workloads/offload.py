"""Offload: model states that a rank keeps at its host.

Sources: ZeRO-Offload, arXiv:2101.06840 (optimizer and gradients in CPU memory, updated by the CPUs); ZeRO-Infinity,
arXiv:2104.07857 (drives, parameters).
"""

from dataclasses import dataclass
from typing import Self

from workloads.checks import check_switch
from workloads.ops import MEDIA
from workloads.plugins import parse, unknown

STATES = ("optimizer", "gradients", "parameters")
NONE = "none"


@dataclass(frozen=True, slots=True)
class Offload:
    """Which `states` are kept at the host, in its memory or on its drives (`to` cpu or nvme).

    With the `optimizer` the host updates the parameters: it gets the gradients once a step and gives back the
    parameters. Beside it, `gradients` leave the accelerator in every microbatch, as soon as they are complete, and are
    added up at the host; `parameters` are fetched for every forward and backward, a layer ahead of its use. With
    `overlap` off every copy holds up the kernels. Assumes that the host's own copies of gradients and parameters are as
    large as those that travel; that drives hold the optimizer's states and the parameters, but never gradients; that
    adding up gradients takes the host no time; that those of a tied embedding leave before its two copies meet; and
    that hosts and drives have room.

    >>> offload = Offload.parse("optimizer+gradients,to=nvme")
    >>> offload.states, str(offload), bool(Offload.parse("none"))
    (('optimizer', 'gradients'), 'optimizer+gradients,to=nvme', False)
    """

    states: tuple[str, ...] = ()
    to: str = "cpu"
    overlap: bool = True

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read text such as `optimizer+gradients,to=nvme`."""
        names, options = parse(text)
        for key in options:
            if key not in ("to", "overlap"):
                raise ValueError(unknown("option of offload", key, ("to", "overlap")))
        return cls(() if names == NONE else tuple(names.split("+")), **options)

    def __post_init__(self) -> None:
        for name in self.states:
            if name not in STATES:
                raise ValueError(unknown("state to offload", name, STATES if len(self.states) > 1 else (*STATES, NONE)))
        if self.to not in MEDIA:
            raise ValueError(unknown("place to offload to", str(self.to), MEDIA))
        if not self.states and (self.to, self.overlap) != ("cpu", True):
            raise ValueError(f"offload=none has no options, and so no {'to' if self.to != 'cpu' else 'overlap'}")
        if self.states and "optimizer" not in self.states:
            raise ValueError(f"offload={'+'.join(self.states)}: without the optimizer nothing else is offloaded")
        check_switch(overlap=self.overlap)

    def __str__(self) -> str:
        options = ["to=nvme"] if self.to == "nvme" else []
        return ",".join(["+".join(self.states) or NONE, *options, *([] if self.overlap else ["overlap=off"])])

    def __bool__(self) -> bool:
        return bool(self.states)

    def keeps(self, state: str) -> bool:
        """Whether a state is at the host: one of `STATES`, or the master weights, which are the optimizer's."""
        return state in self.states or (state == "master_weights" and "optimizer" in self.states)
