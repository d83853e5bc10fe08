from dataclasses import replace
from pathlib import Path

from fielding.reporting.numbers.comparison import compare_groups
from fielding.reporting.numbers.groups import gather_runs
from fielding.reporting.numbers.run_record import read_run
from fielding.reporting.report_page import MOST_CARDS, report_cards, run_cards
from tests.reporting.run_folders import compared, round_rows, run_folder

CURVE = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
BETTER = [0.2, 0.4, 0.5, 0.6, 0.7, 0.8]


def test_a_run_tells_its_accuracy_its_time_and_its_bytes(tmp_path: Path) -> None:
    cards = {card.name: card for card in run_cards(read_run(run_folder(tmp_path / "run", round_rows(CURVE))))}

    # The later half of the six evaluations: the mean of 0.4, 0.5 and 0.6.
    assert cards["final accuracy"].value == "0.500"
    assert cards["worst decile"].value == "0.250"
    assert cards["simulated time"].value == "6m00s"
    assert cards["simulated time"].note == "6 rounds"
    assert not any(card.is_warning for card in cards.values())
    assert "clusters now" not in cards


def test_a_run_without_a_round_or_a_test_says_so(tmp_path: Path) -> None:
    for at, rows in enumerate(([], round_rows([None, None]))):
        (card,) = (
            one for one in run_cards(read_run(run_folder(tmp_path / str(at), rows))) if one.name == "final accuracy"
        )
        assert (card.value, card.note) == ("none", "no client was tested")


def test_a_run_with_clusters_tells_of_them(tmp_path: Path) -> None:
    rows = round_rows(CURVE, n_clusters=[1, 2, 2, 3, 3, 3], n_moved=[0, 5, 0, 1, 0, 0])
    cards = {card.name: card.value for card in run_cards(read_run(run_folder(tmp_path / "run", rows)))}

    assert (cards["clusters now"], cards["moves"], cards["re-clusterings"]) == ("3", "6", "0")


def test_trainings_that_diverged_are_told_first(tmp_path: Path) -> None:
    rows = round_rows(CURVE, n_failed=[0, 3, 0, 0, 0, 0])

    first = run_cards(read_run(run_folder(tmp_path / "run", rows)))[0]

    assert first.is_warning
    assert (first.name, first.value) == ("training diverged", "3 of 15")


def test_groups_have_a_card_each_with_their_gain(tmp_path: Path) -> None:
    runs = gather_runs([compared(tmp_path, {"global": {1: CURVE, 2: CURVE}, "fielding": {1: BETTER, 2: BETTER}})])

    cards = {card.name: card for card in report_cards(runs, compare_groups(runs))}

    assert (cards["fielding"].value, cards["global"].value) == ("0.700", "0.500")
    assert cards["fielding"].note.startswith("+0.200")
    assert cards["fielding"].note.endswith("against global")
    assert cards["fielding"].group == "fielding"
    assert cards["fielding"].color != cards["global"].color


def test_each_card_names_whom_its_group_is_held_against(tmp_path: Path) -> None:
    names = ("global-easy", "global-hard", "ifca-easy", "ifca-hard")
    runs = gather_runs([compared(tmp_path, {name: {1: CURVE} for name in names})])
    settings = {name: dict(zip(("method.name", "trace.scenario"), name.split("-"), strict=True)) for name in names}
    runs = replace(runs, reference="global-easy", settings=settings)

    notes = {card.name: card.note for card in report_cards(runs, compare_groups(runs))}

    assert notes["ifca-hard"] == "+0.000 against global-hard"
    assert notes["global-hard"] == "others are held against it"


def test_without_a_run_of_the_reference_cards_tell_no_gain(tmp_path: Path) -> None:
    runs = gather_runs([compared(tmp_path, {"ifca": {1: CURVE}, "fielding": {1: BETTER}})])
    runs = replace(runs, reference="gone")

    assert {card.note for card in report_cards(runs, compare_groups(runs))} == {"mean over clients and seeds"}


def test_many_groups_are_left_to_the_table(tmp_path: Path) -> None:
    runs = gather_runs([compared(tmp_path, {f"method-{at}": {1: CURVE} for at in range(MOST_CARDS + 1)})])

    assert report_cards(runs, compare_groups(runs)) == []


def test_groups_without_a_finished_run_show_how_far_they_are(tmp_path: Path) -> None:
    run_folder(tmp_path / "done", round_rows(CURVE), method="global")
    run_folder(tmp_path / "long", round_rows(CURVE), seed=1, finished=False)
    behind = run_folder(tmp_path / "short", round_rows(CURVE), seed=2, finished=False)
    (behind / "rounds.jsonl").write_text("".join((behind / "rounds.jsonl").read_text().splitlines(keepends=True)[:4]))
    runs = gather_runs([tmp_path])

    cards = {card.name: card for card in report_cards(runs, compare_groups(runs))}

    # The newest accuracies of the two: 0.6 and 0.4.
    assert (cards["fielding"].value, cards["fielding"].note) == ("0.500", "so far, round 4 to 6 of 6")
    assert cards["global"].note == "the others are held against it"


def test_a_run_that_goes_on_has_no_final_accuracy_yet(tmp_path: Path) -> None:
    cards = run_cards(read_run(run_folder(tmp_path / "run", round_rows(CURVE), finished=False)))

    assert (cards[0].name, cards[0].value, cards[0].note) == ("accuracy", "0.600", "so far, round 6 of 6")
    assert "final accuracy" not in [card.name for card in cards]
