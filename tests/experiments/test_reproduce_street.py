from pathlib import Path

import numpy as np
import pytest

from experiments.reproduce.street import LOOKS, car_videos, looks, owners_of, recipe_digest, street_file
from fielding.errors import InputError
from fielding.traces.importers import import_trace
from fielding.traces.trace import Trace


class TestStreet:
    def test_over_80_percent_are_cars_in_about_as_many_clients_as_waymo_has(
        self, data_folder: Path, tmp_path: Path
    ) -> None:
        trace = import_trace(street_file(data_folder, tmp_path))
        cars = float(np.mean(np.array(trace.classes)[trace.y] == "Car"))

        assert 0.8 < cars < 0.83
        assert 190 <= len(trace.client_ids) <= 220
        assert set(np.unique(trace.time).tolist()) == set(map(float, range(10)))
        assert np.unique(np.asarray(trace.x).reshape(trace.n_rows, -1), axis=0).shape[0] > 0.99 * trace.n_rows

    def test_only_videos_with_more_cars_than_others_are_kept_and_every_other_frame(self) -> None:
        trace = Trace(
            client_ids=("cars", "people"),
            client=np.array([0, 0, 0, 1, 1], dtype=np.int32),
            time=np.array([0.0, 0.1, 0.2, 0.0, 0.2]),
            y=np.array([0, 0, 1, 1, 1], dtype=np.int32),
            classes=("Car", "Pedestrian"),
        )

        kept = car_videos(trace)

        assert kept.client_ids == ("cars",)
        assert kept.time.tolist() == [0.0, 0.2]

    def test_what_is_left_over_of_a_video_joins_its_last_client(self) -> None:
        trace = Trace(
            client_ids=("a", "b"),
            client=np.repeat(np.array([0, 1], dtype=np.int32), [150, 20]),
            time=np.arange(170.0),
            y=np.zeros(170, dtype=np.int32),
            classes=("Car",),
        )

        owners = owners_of(trace)

        assert {owner: owners.count(owner) for owner in owners} == {"a-00": 70, "a-01": 80, "b-00": 20}

    def test_no_image_is_used_twice_and_kinds_keep_their_look(self) -> None:
        classes = sorted({one for shown in LOOKS.values() for one in shown})
        y = np.tile(np.arange(len(classes), dtype=np.int32), 5)
        names_of = ["Car"] * 8 + ["Van"] * 3

        rows = looks(names_of, y, classes)

        assert len(set(rows.tolist())) == len(names_of)
        assert {classes[y[row]] for row in rows[:8]} <= set(LOOKS["Car"])
        with pytest.raises(InputError, match="keep fewer frames"):
            looks(["Van"] * 9, y, classes)

    def test_a_file_of_another_recipe_is_not_taken(self, tmp_path: Path) -> None:
        (tmp_path / "street.npz").touch()
        (tmp_path / "street.recipe").write_text(f"{recipe_digest()}\n")

        assert street_file(tmp_path, tmp_path) == tmp_path / "street.npz"

        (tmp_path / "street.recipe").write_text("another\n")
        with pytest.raises(InputError, match="of another recipe"):
            street_file(tmp_path, tmp_path)

    def test_a_file_without_its_recipe_is_made_again(self, tmp_path: Path) -> None:
        (tmp_path / "street.npz").touch()

        with pytest.raises(InputError, match=r"has no kitti_objects\.csv\.gz"):
            street_file(tmp_path, tmp_path)
