"""Export a result as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing.

Source of the format: Google's Trace Event Format (complete events X, flows s and f, metadata M).
"""

import contextlib
import gzip
import heapq
import io
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

import pandas

from simulator.plots import Framed

Event = dict[str, Any]

_TRANSFERS = "p2p transfers"
_RECOMPUTE = "olive"
"""One of the format's reserved colours; Perfetto leaves colours out of account and shows the category."""
_NOTES = ("kind", "action", "stage", "microbatch", "axis", "algorithm", "bytes")


def save(result: Framed, path: str | Path) -> None:
    """Write the trace as JSON, gzipped if the path ends in `.gz`; the same result gives the same bytes.

    Nothing is left behind when this fails, and a file that was there before stays as it was. A path that
    cannot be written is a ValueError.
    """
    target = Path(path)
    partial = target.with_name(f"{target.name}.partial")
    try:
        with partial.open("wb") as file:
            _write(result, file, zipped=target.suffix == ".gz")
        partial.replace(target)
    except OSError as error:
        raise ValueError(f"cannot write the trace {target}: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def events(result: Framed) -> Iterator[Event]:
    """The trace's events: names of ranks and streams, a slice per span, an arrow per received message.

    A rank is a process and a stream is a thread. A send does not occupy its stream, so it is on a thread for
    transfers; transfers that overlap are on several. Times are microseconds, rounded to whole nanoseconds.
    """
    spans = result.to_frame("spans")
    spans = spans.assign(
        thread=_threads(spans),
        start=_nanoseconds(spans["start_seconds"]),
        began=_nanoseconds(spans["began_seconds"]),
        end=_nanoseconds(spans["end_seconds"]),
    )
    numbers = {thread: number for number, thread in enumerate(sorted(spans["thread"].unique(), key=_thread_order))}
    spans["number"] = spans["thread"].map(numbers)
    return chain(_process_names(spans, result), _thread_names(spans), _slices(spans), _arrows(spans))


def _write(result: Framed, file: IO[bytes], *, zipped: bool) -> None:
    binary = gzip.GzipFile("", "wb", compresslevel=5, fileobj=file, mtime=0) if zipped else file
    with io.TextIOWrapper(binary, encoding="utf-8", newline="\n") as text:
        text.writelines(_lines(result))


def _lines(result: Framed) -> Iterator[str]:
    encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
    about = {"step_time_seconds": float(result.step_time), "title": result.title}
    yield f'{{"displayTimeUnit":"ms","otherData":{encode(about)},"traceEvents":[\n'
    separator = ""
    for event in events(result):
        yield separator + encode(event)
        separator = ",\n"
    yield "\n]}\n"


def _nanoseconds(seconds: "pandas.Series[float]") -> "pandas.Series[int]":
    return (seconds * 1e9).round().astype("int64")


def _threads(spans: pandas.DataFrame) -> list[str]:
    """The thread that shows each span: its stream, or one for transfers."""
    threads: list[str] = spans["stream"].astype(str).tolist()
    sends = spans[spans["kind"] == "send"].assign(place=lambda frame: spans.index.get_indexer(frame.index))
    for _, group in sends.groupby("rank", sort=True):
        rows = group.sort_values(["start_seconds", "place"], kind="stable")
        lanes = _lanes(rows["start_seconds"].tolist(), rows["end_seconds"].tolist())
        for place, lane in zip(rows["place"].tolist(), lanes, strict=True):
            threads[place] = _TRANSFERS + (f" {lane + 1}" if lane else "")
    return threads


def _lanes(starts: list[float], ends: list[float]) -> list[int]:
    """The fewest lanes on which no two intervals overlap, the lowest free one first; `starts` ascend.

    >>> _lanes([0, 1, 2, 5], [3, 2, 4, 6])
    [0, 1, 1, 0]
    """
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    lanes: list[int] = []
    for start, end in zip(starts, ends, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lanes.append(heapq.heappop(free) if free else len(busy))
        heapq.heappush(busy, (end, lanes[-1]))
    return lanes


def _thread_order(thread: str) -> tuple[int, str]:
    return (0 if thread == "compute" else 1 if thread.startswith(_TRANSFERS) else 2, thread)


def _process_names(spans: pandas.DataFrame, result: Framed) -> Iterator[Event]:
    first = spans.drop_duplicates("rank").sort_values("rank")
    for rank, alike in zip(first["rank"].tolist(), first["ranks_in_class"].tolist(), strict=True):
        place = " ".join(f"{axis} {index}" for axis, index in result.coordinates[rank].items())
        name = f"rank {rank}" + (f" (of {alike} alike)" if alike > 1 else "") + (f" · {place}" if place else "")
        yield {"ph": "M", "name": "process_name", "pid": rank, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": rank, "args": {"sort_index": rank}}


def _thread_names(spans: pandas.DataFrame) -> Iterator[Event]:
    first = spans.drop_duplicates(["rank", "number"]).sort_values(["rank", "number"])
    for rank, number, thread in zip(*(first[key].tolist() for key in ("rank", "number", "thread")), strict=True):
        where = {"ph": "M", "pid": rank, "tid": number}
        yield {**where, "name": "thread_name", "args": {"name": thread}}
        yield {**where, "name": "thread_sort_index", "args": {"sort_index": number}}


def _slices(spans: pandas.DataFrame) -> Iterator[Event]:
    """One complete event a span; `waited_microseconds` is how long a transfer stood before it ran.

    Kernels that recompute are in a category of their own too, and of another colour.
    """
    columns = ("rank", "number", "name", "work", "start", "began", "end")
    again = spans["recompute"].tolist() if "recompute" in spans else [False] * len(spans)
    rows = zip(*(spans[column].tolist() for column in columns), again, _notes(spans), strict=True)
    for rank, number, name, work, start, began, end, repeats, notes in rows:
        if began > start:
            notes["waited_microseconds"] = (began - start) / 1e3
        yield {
            "ph": "X",
            "name": name,
            "cat": f"{work},recompute" if repeats else work,
            "pid": rank,
            "tid": number,
            "ts": start / 1e3,
            "dur": (end - start) / 1e3,
            "args": notes,
            **({"cname": _RECOMPUTE} if repeats else {}),
        }


def _notes(spans: pandas.DataFrame) -> Iterator[dict[str, Any]]:
    """What a span tells beside its times, without the columns that say nothing: '', -1 and NaN."""
    names = [name for name in _NOTES if name in spans]
    for values in zip(*(spans[name].tolist() for name in names), strict=True):
        notes = zip(names, values, strict=True)
        yield {name: value for name, value in notes if value not in ("", -1) and not pandas.isna(value)}


def _arrows(spans: pandas.DataFrame) -> Iterator[Event]:
    """A flow from each send to every receive it serves, ending inside the receive's slice."""
    keys = ["message", "rank", "number", "start", "end"]
    sends = spans.loc[(spans["kind"] == "send") & (spans["message"] >= 0), keys].drop_duplicates("message")
    receives = spans.loc[(spans["kind"] == "recv") & (spans["message"] >= 0), keys]
    pairs = receives.merge(sends, on="message", suffixes=("", "_sent"))
    columns = ("rank_sent", "number_sent", "start_sent", "rank", "number", "start", "end")
    rows = zip(*(pairs[column].tolist() for column in columns), strict=True)
    for arrow, (sender, sending, sent, rank, number, start, end) in enumerate(rows):
        message = {"name": "message", "cat": "p2p", "id": arrow}
        yield {**message, "ph": "s", "pid": sender, "tid": sending, "ts": sent / 1e3}
        yield {**message, "ph": "f", "bp": "e", "pid": rank, "tid": number, "ts": max(start, end - 1) / 1e3}
