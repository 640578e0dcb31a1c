"""SI units: everything inside is in seconds, bytes, bytes/s, FLOP and FLOP/s; conversions exist only here.

>>> 400 * GBIT  # bytes/s of a 400 Gb/s network card, one direction
50000000000.0
"""

MEGA, GIGA, TERA = 1e6, 1e9, 1e12
MILLI, MICRO = 1e-3, 1e-6

MIB = 2**20

GBIT = GIGA / 8
"""Bytes (or bytes/s) in a gigabit (per second), as network vendors count: 1e9 bits."""
