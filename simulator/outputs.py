"""Files that the command writes: refused before anything is simulated if they cannot be written."""

from pathlib import Path
from typing import Any


def check_writable(*paths: str | None) -> None:
    """Refuse an output file without a name or in a folder that is not there."""
    for path in paths:
        if path is not None and not Path(path).name:
            raise ValueError(f"{path!r} is not the name of a file")
        if path is not None and not Path(path).resolve().parent.is_dir():
            raise ValueError(f"cannot write {path}: {Path(path).resolve().parent} is no folder")


def check_picture(path: str | None) -> None:
    """Refuse a picture in a format that cannot be written."""
    if path is None:
        return
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    ending = Path(path).suffix.removeprefix(".").lower()
    if ending not in known:
        raise ValueError(f"{path}: a picture ends in one of {', '.join(sorted(known))}")


def save_picture(axes: Any, path: str) -> None:
    """Write the figure of some axes, cut to what is drawn."""
    axes.figure.savefig(path, bbox_inches="tight")


def write(result: Any, *, trace: str | None = None, **pictures: str | None) -> None:
    """Write a result's trace and its pictures by name, where a path is given."""
    for name, path in pictures.items():
        if path is not None:
            save_picture(result.plot(name), path)
    if trace is not None:
        result.save_trace(trace)
