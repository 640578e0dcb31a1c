"""Benchmarks print each figure beside its target; they never fail because a machine is slow."""

from collections.abc import Callable
from typing import Any

import pytest

ROWS = pytest.StashKey[list[tuple[str, str, str]]]()
HEADING = ("work", "figure", "target")

Report = Callable[[str, str, str], None]
Seconds = Callable[[Callable[[], Any]], float]


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Add a row (work, figure, target) to the table that is printed at the end."""

    def add(work: str, figure: str, target: str) -> None:
        request.config.stash.setdefault(ROWS, []).append((work, figure, target))

    return add


@pytest.fixture
def seconds(benchmark: Any) -> Seconds:
    """Median wall time of some work that was done once before, so that caches are filled."""

    def measure(work: Callable[[], Any]) -> float:
        benchmark.pedantic(work, rounds=5, warmup_rounds=1)
        return float(benchmark.stats.stats.median)

    return measure


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table."""
    rows = [HEADING, *config.stash.get(ROWS, [])]
    if len(rows) == 1:
        return
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    terminalreporter.section("figures and targets")
    for work, figure, target in rows:
        terminalreporter.write_line(f"{work:<{widths[0]}}  {figure:<{widths[1]}}  {target}")
