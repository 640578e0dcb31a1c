"""What counts as a number or a switch, and the nearest legal values that a refusal names."""


def is_whole(value: object, smallest: float, largest: float = float("inf")) -> bool:
    """Whether a value is a whole number from `smallest` to `largest`; `on` and `off` are none.

    >>> is_whole(8, 1, 16), is_whole(8.0, 1, 16), is_whole(True, 1, 16)
    (True, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and smallest <= value <= largest


def is_number(value: object) -> bool:
    """Whether a value is a number; `on` and `off` are none.

    >>> is_number(2), is_number(0.5), is_number(True), is_number("2")
    (True, True, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_whole(name: str, value: object, smallest: int, largest: int) -> None:
    """Refuse what is not a whole number from `smallest` to `largest`.

    >>> check_whole("layers", 2.5, 1, 100)
    Traceback (most recent call last):
    ValueError: layers=2.5 is not a whole number from 1 to 100
    """
    if not is_whole(value, smallest, largest):
        raise ValueError(f"{name}={value!r} is not a whole number from {smallest} to {largest}")


def check_switch(**switches: object) -> None:
    """Refuse an option that is neither on nor off.

    >>> check_switch(overlap=True)
    """
    for name, value in switches.items():
        if value is not True and value is not False:
            raise ValueError(f"{name}={value} is neither on nor off")


def nearest_multiples(value: int, step: int) -> str:
    """The positive multiples of `step` on both sides of `value`.

    >>> nearest_multiples(100, 16), nearest_multiples(3, 16)
    ('96 or 112', '16')
    """
    below = value // step * step
    return f"{below} or {below + step}" if below else str(below + step)


def nearest_divisors(number: int, value: int) -> str:
    """The divisors of `number` on both sides of `value`.

    >>> nearest_divisors(128, 3), nearest_divisors(32, 100)
    ('2 or 4', '32')
    """
    below = next(each for each in range(min(value, number), 0, -1) if number % each == 0)
    above = next((each for each in range(value, number + 1) if number % each == 0), None)
    return f"{below} or {above}" if above else str(below)
