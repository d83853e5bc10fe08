import json
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.config.reader import config_from
from fielding.errors import InputError, OptionError
from fielding.simulation import privacy_plan
from fielding.simulation.assembly import Own
from fielding.simulation.privacy_plan import plan_privacy
from fielding.traces.pool import Pool
from tests.cli.invoke import fielding
from tests.simulation.run_cases import small_pool, table


def config(**sections: Json) -> dict[str, Json]:
    found = table(
        rounds=40,
        trace={"clients": 20, "gap": 2, "window": 8, "samples": 25, "share": 0.2},
        privacy={"mode": "record", "epsilon": 4},
    )
    return {**found, "coordinator": {}, **sections}


def test_more_epsilon_puts_more_clients_where_their_data_say_and_reports_beat_silence() -> None:
    plan = plan_privacy(config_from(config()), Own(samples=small_pool(2000)))

    assert {epsilon for epsilon, _ in plan.right} == {2.0, 4.0, 8.0}
    assert (plan.n_clients, plan.n_labels, plan.window) == (20, 4, 8)
    assert plan.n_clusters >= 2
    assert plan.right[8.0, 1] >= plan.right[2.0, 1] - 0.02
    assert plan.right[8.0, 4] > plan.right[2.0, 4]
    assert plan.right[8.0, plan.suggest(8.0)] == max(plan.right[8.0, m] for m in (1, 2, 4))
    assert all(0.0 < share <= 1.0 for share in (*plan.right.values(), plan.unmoved))


def test_with_hardly_any_noise_and_a_report_at_every_arrival_all_are_right() -> None:
    sections = config(privacy={"mode": "record", "epsilon": 500})
    plan = plan_privacy(config_from(sections), Own(samples=small_pool(2000)), reports=(1, 8))

    assert plan.right[1000.0, 8] > 0.9  # all but those whom the few samples of a window leave in doubt
    assert plan.right[1000.0, 8] > plan.right[1000.0, 1]


def test_clients_of_a_plan_move_as_in_a_run_only_where_noise_does_not_explain_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    private, pool = config_from(config(privacy={"mode": "record", "epsilon": 1})), Own(samples=small_pool(2000))
    plan = plan_privacy(private, pool)
    monkeypatch.setattr(privacy_plan, "clear_moves", lambda points, *_, **__: np.ones(len(points), dtype=np.bool_))

    without = plan_privacy(private, pool)

    assert plan.unmoved == without.unmoved
    assert plan.right != without.right


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"privacy": {}}, 'privacy.mode is not "record"'),
        ({"coordinator": {"representation": "confusion"}}, "only reports of labels can be planned"),
    ],
)
def test_what_cannot_be_planned_is_told(sections: dict[str, Json], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        plan_privacy(config_from(config(**sections)), Own(samples=small_pool()))


def test_clients_that_are_one_group_are_told() -> None:
    one_class = Pool(x=np.ones((500, 2), dtype=np.float32), y=np.zeros(500, dtype=np.int32), classes=("a", "b"))

    with pytest.raises(InputError, match="clients are one group"):
        plan_privacy(config_from(config()), Own(samples=one_class))


def test_the_command_tells_the_table_and_suggests_a_number_of_reports(tmp_path: Path) -> None:
    text = 'rounds = 12\n[trace]\nclients = 12\ngap = 2\nwindow = 4\n[privacy]\nmode = "record"\nepsilon = 2\n'
    (tmp_path / "run.toml").write_text(text)

    shown = fielding("privacy", "plan", tmp_path / "run.toml")
    record = json.loads(fielding("privacy", "plan", tmp_path / "run.toml", "--json").stdout)

    assert shown.returncode == 0, shown.stderr
    assert "In the cluster that exact counts say" in shown.stdout
    assert f"for epsilon 2: reports_per_window = {record['suggested_reports_per_window']}" in shown.stdout
    assert len(record["right"]) == 9
