"""What words of the command line stand for; a wrong one is a line that says what was expected."""

import click


def pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """Names and values of texts such as all_reduce=ring.

    >>> pairs("--algorithm", ("all_reduce=ring",))
    {'all_reduce': 'ring'}
    """
    for text in texts:
        if not all(text.partition("=")):
            raise click.UsageError(f"{option} {text}: not KIND=NAME, such as all_reduce=ring")
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def size_bytes(text: str) -> float:
    """A number of bytes, with a unit or without.

    >>> size_bytes("1e6"), size_bytes("64KiB"), size_bytes("2 GB")
    (1000000.0, 65536.0, 2000000000.0)
    """
    units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9, "": 1}
    unit = next(unit for unit in units if text.endswith(unit))
    try:
        return float(text.removesuffix(unit)) * units[unit]
    except ValueError:
        raise click.UsageError(f"--bytes {text}: not a number of bytes such as 1e9, 64KiB or 2GB") from None


def numbers(text: str, size: int) -> list[int]:
    """The numbers, below a size, of a text such as 0-7,16.

    >>> numbers("0-3,8", 16)
    [0, 1, 2, 3, 8]
    """
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            raise click.UsageError(f"--ranks {text}: {part!r} is neither a number nor a range such as 0-7")
        if int(last or first) >= size:
            raise click.UsageError(f"--ranks {text}: rank {last or first} is not there; ranks are 0 to {size - 1}")
        found += range(int(first), int(last or first) + 1)
    return found
