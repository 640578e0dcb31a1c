"""Files of measurements of one's own: what both kinds of validation accept, refuse and report alike."""

import csv
import io
import json

import pandas as pd
import pytest
from click.testing import CliRunner

from simulator.cli import main
from simulator.validation import collectives, gemm, measured, measured_kernels, report
from simulator.validation.tables import Number

READERS = {"gemm": measured_kernels, "collectives": measured}
TEXTS = {"gemm": gemm, "collectives": collectives}
ROWS = {
    name: reader.read().loc[[case.row for case in reader.cases(reader.read())[0][-3:]]].reset_index(drop=True)
    for name, reader in READERS.items()
}
"""A few rows of each kind that are compared."""
NUMBERS = [(name, column, number) for name, reader in READERS.items() for column, number in reader.NUMBERS.items()]
both = pytest.mark.parametrize("name", READERS)


@pytest.fixture
def ran(tmp_path):
    """Validates a file of some text."""

    def run(name, text, *options):
        (tmp_path / "mine.csv").write_text(text)
        return CliRunner().invoke(main, ["validate", name, "--data", str(tmp_path / "mine.csv"), *options])

    return run


def refused(done):
    """The one line of a refusal, without the folder."""
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr.split("mine.csv", 1)[1].strip()


def edited(name, line, edit):
    """The text of a file of a few rows, the fields of one of its lines edited."""
    lines = list(csv.reader(io.StringIO(ROWS[name].to_csv(index=False))))
    lines[line - 1] = edit(lines[line - 1])
    text = io.StringIO()
    csv.writer(text).writerows(lines)
    return text.getvalue()


def with_cell(name, line, column, value):
    """The text of a file with one cell changed."""
    place = ROWS[name].columns.get_loc(column)
    return edited(name, line, lambda fields: [*fields[:place], value, *fields[place + 1 :]])


# ------------------------------------------------------------------------------------------- nothing to compare


@both
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_file_without_a_comparable_row_is_refused_with_the_reasons(name, options, ran, tmp_path):
    """And the rows, with the reason of each, are written all the same."""
    text = ROWS[name].assign(accelerator=["abacus", "abacus", "rule"]).to_csv(index=False)
    out = tmp_path / "rows.csv"
    line = refused(ran(name, text, "--out", str(out), *options))
    assert line.startswith(": no row can be compared; left out: 2 × ")
    assert "(abacus); 1 × " in line
    assert line.endswith("(rule)")
    assert pd.read_csv(out)["left_out"].notna().all()


@both
def test_what_has_no_rows_has_no_errors(name, ran):
    """One row leaves bands of sizes empty: "-" in the table, null in JSON."""
    text = ROWS[name].tail(1).to_csv(index=False)
    empty = [
        block for block in json.loads(ran(name, text, "--json").stdout)["size_bands"].values() if not block["rows"]
    ]
    assert empty
    for block in empty:
        figures = {key: value for key, value in block.items() if key not in ("rows", "skipped")}
        assert set(figures.values()) == {None}
    lines = ran(name, text).stdout.splitlines()
    assert sum(line.split()[-5:] == ["0", "-", "-", "-", "-"] for line in lines) >= len(empty)
    assert lines[-1] == "no row left out"


def test_tables_without_a_line_are_not_shown():
    assert report.text([{}, {}], {"skipped": 0, "skipped_because": {}}) == "no row left out"


@pytest.mark.parametrize(("count", "words"), [(0, "no row left out"), (1, "1 row left out:"), (2, "2 rows left out:")])
def test_rows_left_out_are_counted_in_words(count, words):
    skipped = {"skipped": count, "skipped_because": {"a reason": count} if count else {}}
    assert report.text([], skipped).splitlines()[0] == words


# ------------------------------------------------------------------------------------------- fields


@both
@pytest.mark.parametrize("line", [2, 4])
def test_fields_beyond_the_header_are_refused(name, line, ran):
    width = len(ROWS[name].columns)
    words = refused(ran(name, edited(name, line, lambda fields: [*fields, ""])))
    assert words == f", line {line}: {width + 1} fields, the header has {width}"


@both
def test_a_trailing_comma_on_every_row_is_refused(name, ran):
    header, *rows = ROWS[name].to_csv(index=False).splitlines()
    assert ", line 2: " in refused(ran(name, "\n".join([header, *(f"{row}," for row in rows)])))


@both
def test_fewer_fields_are_refused_where_needed_ones_are_missing(name, ran):
    width = len(ROWS[name].columns)
    words = refused(ran(name, edited(name, 3, lambda fields: fields[:-1])))
    assert words == f", line 3: {width - 1} fields, the header has {width}"
    assert ran(name, edited(name, 1, lambda fields: [*fields, "mine"])).exit_code == 0


@both
def test_lines_are_those_of_the_file(name, ran):
    """Blank lines and lines within quotes count."""
    header, first, second, third = csv.reader(io.StringIO(ROWS[name].to_csv(index=False)))
    first[-1] = "two\nlines"
    text = io.StringIO()
    csv.writer(text).writerows([header, [], first, second, [*third, "more"]])
    assert refused(ran(name, text.getvalue())).startswith(", line 6: ")


# ------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(("name", "column", "number"), NUMBERS)
def test_numbers_out_of_bounds_are_refused(name, column, number, ran):
    beyond = [f"{number.low / 2:g}", f"{number.high * 2:g}"]
    fraction = ["1024.5"] if number.whole else []
    for value in ("many", "0", "-5", "inf", "1e300", "1e-300", "True", *beyond, *fraction):
        words = refused(ran(name, with_cell(name, 3, column, value)))
        assert words == f", line 3: {column}={value} is not {number.words}"


@pytest.mark.parametrize(("name", "column", "number"), NUMBERS)
def test_empty_cells_and_bounds_are_accepted(name, column, number, tmp_path):
    mine = tmp_path / "mine.csv"
    for value in ("", f"{number.low:g}", f"{number.high:g}"):
        mine.write_text(with_cell(name, 3, column, value))
        cell = READERS[name].read(mine)[column][1]
        assert pd.isna(cell) if value == "" else cell == float(value)


@pytest.mark.parametrize("number", dict.fromkeys(number for *_, number in NUMBERS), ids=lambda number: number.words)
def test_bounds_are_said_in_words(number):
    low, high = number.words.split(" from ")[1].split(" to ")
    assert Number(number.words, float(low), float(high.split()[0]), number.whole) == number
    assert number.words.startswith("a whole number") == number.whole


@both
def test_a_column_of_truths_has_no_numbers(name, ran):
    """Which pandas would take for ones."""
    column = next(iter(READERS[name].NUMBERS))
    assert f", line 2: {column}=True is not a whole" in refused(
        ran(name, ROWS[name].assign(**{column: True}).to_csv(index=False))
    )


@both
def test_a_file_may_have_a_mark_of_its_encoding(name, ran):
    plain = ROWS[name].to_csv(index=False)
    assert ran(name, f"\ufeff{plain}").stdout == ran(name, plain).stdout


# ------------------------------------------------------------------------------------------- figures


def test_series_count_alike():
    """Whatever their lengths: `wmape` and `bias`; `mape`, median and percentile count rows alike."""
    rows = pd.DataFrame({"row": range(4), "measured": 1.0, "predicted": [1.2, 1.2, 1.2, 0.9], "series": list("aaab")})
    block = report.block(rows)
    assert block["wmape"] == pytest.approx((0.2 + 0.1) / 2)
    assert block["bias"] == pytest.approx((0.2 - 0.1) / 2)
    assert block["mape"] == pytest.approx((3 * 0.2 + 0.1) / 4)


def test_errors_beyond_all_measure_keep_the_columns():
    block = {"rows": 1, "median_ape": 1e21, "mape": 99.94, "p90_ape": 0.5, "bias": -1e21}
    head, line = report.table({"far": block}).splitlines()
    assert len(head) == len(line)
    assert line.split() == ["far", "1", "1e+23%", "9994.0%", "50.0%", "-1e+23%"]
