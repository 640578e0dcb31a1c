"""Colours of what ranks do, the same in every picture of a step."""

import pandas
from matplotlib.colors import to_rgb

Colour = tuple[float, float, float]

# Dark or pale, all stay at least 15 CIELAB units apart under protanopia and deuteranopia (Machado et al. 2009) too.
ACTIONS = {
    "F": ("#2F5FA8", "F forward"),
    "B": ("#148F77", "B backward"),
    "I": ("#E3C62F", "I input gradient"),
    "W": ("#B5651D", "W weight gradient"),
    "open": ("#8C7AA9", "opening"),
    "optimizer": ("#333333", "optimizer"),
}
"""Colour and words of each kind of action, in the order of the legend."""
STAGED = ("F", "B", "I", "W")
AXES = {
    "tp": "#EE7733",
    "cp": "#DDCC44",
    "ep": "#33BBEE",
    "fsdp": "#CC3311",
    "dp_shard": "#DD77AA",
    "dp": "#AA3377",
    "pp": "#332288",
}
OTHER_AXES = "#777777"
IDLE = "#ECECEC"
WAIT = "#A8A8A8"
_PALEST = 0.5


def colours(rows: pandas.DataFrame) -> list[Colour]:
    """The colour of each action, by its kind and shade."""
    kinds = zip(rows["action"].tolist(), rows["shade"].tolist(), strict=True)
    return [tint(ACTIONS[action][0], shade) for action, shade in kinds]


def tint(colour: str, shade: float) -> Colour:
    """The colour mixed with white: as it is at shade 0, palest at 1."""
    red, green, blue = (part + (1 - part) * _PALEST * shade for part in to_rgb(colour))
    return red, green, blue


def darkened(colour: str) -> Colour:
    """The colour of a thin line that belongs to bars of this colour."""
    red, green, blue = (0.65 * part for part in to_rgb(colour))
    return red, green, blue
