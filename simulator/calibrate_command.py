"""The command `stepsim calibrate`: constants of training steps from published runs, or a factor for a site."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulator.kernel_files import chosen
from simulator.outputs import check_writable

Answer = tuple[dict[str, Any], str]
"""A report for JSON, and the same as text."""


def calibrate(  # noqa: PLR0913 (one argument for each option of the command)
    *,
    data: Sequence[str],
    site: bool,
    constants: str | None,
    evaluations: int,
    ablate: bool,
    every: int,
    out: str | None,
    progress: bool = False,
) -> Answer:
    """Do what the options say, write what was found if a file is named, and report it."""
    check_writable(out)
    known = chosen(constants)
    if ablate:
        if data:
            raise ValueError(f"--ablate looks at the package's own runs; --data {data[0]} changes nothing there")
        return _ablation(every, known, out, progress)
    if data and site:
        if len(data) > 1:
            raise ValueError(f"--data is given {len(data)} times; a site has one file, or use --no-site")
        return _site(data[0], known, out)
    from simulator.validation import calibration, calibration_report

    found = calibration.calibrate(data, constants=known, evaluations=evaluations, progress=progress)
    _write(out, calibration_report.as_file(found))
    return calibration_report.summary(found), calibration_report.text(found)


def _site(path: str, known: Any, out: str | None) -> Answer:
    from simulator.validation import site

    found = site.calibrate(path, known=known)
    _write(out, found.as_file())
    return found.summary(), found.text()


def _ablation(every: int, known: Any, out: str | None, progress: bool) -> Answer:
    from simulator.validation import ablation

    found = ablation.ablate(every=every, constants=known, progress=progress)
    if out is not None:
        found.to_csv(out, index=False)
    return {"effects": found.to_dict("records")}, ablation.text(found)


def _write(out: str | None, text: str) -> None:
    if out is not None:
        Path(out).write_text(text, encoding="utf-8")
