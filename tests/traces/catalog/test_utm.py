import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import InputError
from fielding.traces.catalog.fmow import BANDS, grid_zones

PLACES = [
    ("Munich", 48.137, 11.575, "32U"),
    ("Sydney", -33.868, 151.209, "56H"),
    ("New York", 40.713, -74.006, "18T"),
    ("Nairobi", -1.286, 36.817, "37M"),
    ("Bergen", 60.391, 5.322, "32V"),
    ("Oslo", 59.913, 10.752, "32V"),
    ("Longyearbyen", 78.223, 15.647, "33X"),
    ("Svalbard, west", 80.0, 8.9, "31X"),
    ("Svalbard, east", 80.0, 30.0, "35X"),
    ("the equator at Greenwich", 0.0, 0.0, "31N"),
    ("the date line", 10.0, 180.0, "1P"),
    ("the date line from the west", 10.0, -180.0, "1P"),
    ("the top of band X", 84.0, -100.0, "14X"),
    ("the North Pole", 90.0, 0.0, "Z"),
    ("near the South Pole", -85.0, -1.0, "A"),
]


@pytest.mark.parametrize(("place", "latitude", "longitude", "cell"), PLACES)
def test_places_lie_in_their_cells(place: str, latitude: float, longitude: float, cell: str) -> None:
    assert grid_zones(np.array([latitude]), np.array([longitude])) == [cell]


@given(latitude=st.floats(-90, 90), longitude=st.floats(-180, 180))
def test_every_place_lies_in_a_cell_near_it(latitude: float, longitude: float) -> None:
    (cell,) = grid_zones(np.array([latitude]), np.array([longitude]))

    if cell in ("A", "B", "Y", "Z"):
        assert latitude < -80 or latitude > 84
    else:
        south = BANDS.index(cell[-1]) * 8 - 80
        # A hair south of a border may be rounded onto it.
        assert south - 1e-9 <= latitude <= south + (12 if cell[-1] == "X" else 8)
        west = (int(cell[:-1]) - 1) * 6 - 180
        assert west - 6 - 1e-9 <= longitude <= west + 12 or longitude > 180.0 - 1e-9


@pytest.mark.parametrize(("latitude", "longitude"), [(91.0, 0.0), (0.0, 200.0), (np.nan, 0.0)])
def test_a_place_off_the_globe_is_refused(latitude: float, longitude: float) -> None:
    with pytest.raises(InputError, match="row 1 lies at latitude"):
        grid_zones(np.array([0.0, latitude]), np.array([0.0, longitude]))
