"""Where on the globe a point lies, as the cell of the UTM grid: zone and latitude band."""

import numpy as np

from fielding._typing import Vector
from fielding.errors import InputError

BANDS = "CDEFGHJKLMNPQRSTUVWX"
"""Latitude bands of 8 degrees from 80 degrees south; the last reaches to 84 degrees north. I and O are left out."""


def grid_zones(latitude: Vector, longitude: Vector) -> list[str]:
    """Return the UTM cell of each point, such as ``"32U"``, with the exceptions of Norway and Svalbard.

    Parameters
    ----------
    latitude, longitude
        Degrees, north and east positive, shape ``(n_points,)``.

    Returns
    -------
    Zone and band; near the poles, where UTM ends, one of A, B (south) and Y, Z (north).

    Raises
    ------
    InputError
        If a latitude is beyond 90 degrees or a longitude beyond 180.

    Examples
    --------
    >>> grid_zones(np.array([48.1, -33.9, 60.4, 78.2, 89.0]), np.array([11.6, 151.2, 5.3, 15.6, -5.0]))
    ['32U', '56H', '32V', '33X', 'Y']
    """
    bad = ~((np.abs(latitude) <= 90.0) & (np.abs(longitude) <= 180.0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"row {row} lies at latitude {latitude[row]}, longitude {longitude[row]}; no such place")
    band = np.clip(np.floor((latitude + 80.0) / 8.0), 0, len(BANDS) - 1).astype(np.int64)
    zone = np.floor((longitude + 180.0) / 6.0).astype(np.int64) % 60 + 1
    zone[(band == BANDS.index("V")) & (longitude >= 3.0) & (longitude < 12.0)] = 32
    for west, east, wide in ((0.0, 9.0, 31), (9.0, 21.0, 33), (21.0, 33.0, 35), (33.0, 42.0, 37)):
        zone[(band == BANDS.index("X")) & (longitude >= west) & (longitude < east)] = wide
    cells = [f"{number}{BANDS[letter]}" for number, letter in zip(zone.tolist(), band.tolist(), strict=True)]
    for row in np.flatnonzero((latitude < -80.0) | (latitude > 84.0)).tolist():
        cells[row] = ("AB" if latitude[row] < 0 else "YZ")[int(longitude[row] >= 0.0)]
    return cells
