"""SI units: everything inside is in seconds, bytes, bytes/s, FLOP and FLOP/s; conversions exist only here.

>>> 400 * GBIT  # bytes/s of a 400 Gb/s network card, one direction
50000000000.0
"""

KILO, MEGA, GIGA, TERA, PETA = 1e3, 1e6, 1e9, 1e12, 1e15
MILLI, MICRO, NANO = 1e-3, 1e-6, 1e-9

KIB, MIB, GIB = 2**10, 2**20, 2**30

GBIT = GIGA / 8
"""Bytes (or bytes/s) in a gigabit (per second), as network vendors count: 1e9 bits."""
