"""Which experts serve clients: how many believe each of them most, and why a client does."""

from collections.abc import Iterable, Mapping

from fielding._typing import ClientId, Json
from fielding.reporting.charts.figures import Line, change_layout, lines_figure, stack_figure
from fielding.reporting.numbers.run_record import RunRecord
from fielding.reporting.page import Section, merge_views

WORDS = {
    "served": "the model as it is",
    "corrected": "the model, corrected to their labels",
    "common": "one model for all clients",
    "heads": "the heads of all clusters",
    "residual": "the model and what it got wrong on their samples",
    "local": "their own samples, past ones too",
    "window": "all, as the window weighs them",
}
"""What the page calls experts."""
STYLES = {name: style for style, name in enumerate(WORDS, start=1)}
"""The colours of experts, the same in all figures; the first colour is what clients are served."""


def draw_served_by(run: RunRecord, group: str | None) -> Section:
    """Return what serves clients: how many believe each expert most, and what each alone would give."""
    return merge_views(
        "What clients are served by", {"clients": draw_experts(run, group), "accuracy": draw_alone(run, group)}
    )


def draw_experts(run: RunRecord, group: str | None) -> Section:
    """Return how many clients believe each expert most, for the samples to come."""
    title = "What clients are served by"
    rows = [(row["round"], one) for row in run.rounds if isinstance(one := row.get("experts"), dict)]
    if not rows:
        return Section(title=title, missing="Clients read their samples with the served model alone.", group=group)
    rounds = [float(str(at)) for at, _ in rows]
    names = [name for name in rows[-1][1] if any(one.get(name) for _, one in rows)]
    layers = [
        Line(
            name=WORDS.get(name, name),
            x=rounds,
            y=[float(str(one.get(name, 0))) for _, one in rows],
            style=STYLES.get(name, 9),
        )
        for name in names
    ]
    text = (
        "Each client weighs its experts by how well they predicted its samples before their labels came, and by its "
        "window. Counted is the one that counts most in what it is served next. "
        f"At the end {expert_words(rows[-1][1])}."
    )
    return Section(title=title, text=text, figure=stack_figure(layers, x_title="round", y_title="clients"), group=group)


def draw_alone(run: RunRecord, group: str | None) -> Section:
    """Return what clients are served beside what each expert alone would give, on the interval to come if known."""
    title = "What clients are served by"
    where = "next_" if any("next_expert_accuracy" in row for row in run.rounds) else ""
    rows = [(row, one) for row in run.rounds if isinstance(one := row.get(f"{where}expert_accuracy"), dict)]
    if not rows:
        return Section(title=title, missing="Clients read their samples with the served model alone.", group=group)
    rounds = [float(str(row["round"])) for row, _ in rows]

    def line(name: str, values: Iterable[Json], style: int) -> Line:
        return Line(name=name, x=rounds, y=[None if one is None else float(str(one)) for one in values], style=style)

    lines = [line("served", (row.get(f"served_{where}accuracy") for row, _ in rows), 0)]
    lines += [
        line(WORDS.get(name, name), (one.get(name) for _, one in rows), STYLES.get(name, 9)) for name in rows[-1][1]
    ]
    samples = "the interval to come" if where else "the window"
    text = (
        f"Mean accuracy of clients on {samples}. The promise is that the first line stays at or above the best of the "
        "others, without knowing in advance which that is."
    )
    figure = lines_figure(lines, x_title="round", y_title="accuracy", from_zero=False)
    return Section(title=title, text=text, figure=figure, group=group)


def expert_words(counts: Mapping[str, Json]) -> str:
    """Return by what clients are served best, most of them first.

    Examples
    --------
    >>> expert_words({"served": 1, "residual": 3, "heads": 0})
    'clients are served best: 75% by the model and what it got wrong on their samples, 25% by the model as it is'
    """
    numbers = {name: int(str(value)) for name, value in counts.items()}
    most = sorted((name for name, number in numbers.items() if number), key=lambda name: -numbers[name])
    whole = max(sum(numbers.values()), 1)
    told = ", ".join(f"{numbers[name] / whole:.0%} by {WORDS.get(name, name)}" for name in most[:3])
    return f"clients are served best: {told}"


def draw_client_experts(run: RunRecord, client: ClientId, name: str) -> list[Section]:
    """Return how much a client believed each expert, and how each fared on its newest samples; none without experts."""
    tests = [one for one in run.tests() if one.expert_weights and client in one.client_ids]
    if not tests:
        return []
    places, rounds = [one.client_ids.index(client) for one in tests], [float(one.round_index) for one in tests]
    sections = []
    for key, title, y_title, text in (
        (
            "client-experts",
            f"Which experts {name} believes",
            "weight",
            "Weights by what each expert gave to the labels of samples before they were known, and by the window.",
        ),
        (
            "client-expert-losses",
            f"How its experts fared for {name}",
            "log loss",
            "Log loss on samples before their labels came, the newest counting most: the lower, the more it is "
            "believed.",
        ),
    ):
        numbers = [one.expert_weights if y_title == "weight" else one.expert_losses for one in tests]
        lines = [
            Line(
                name=WORDS.get(expert, expert),
                x=rounds,
                y=[float(one[expert][at]) if expert in one else None for one, at in zip(numbers, places, strict=True)],
                style=STYLES.get(expert, 9),
            )
            for expert in numbers[-1]
        ]
        figure = change_layout(lines_figure(lines, x_title="round", y_title=y_title), hoverlabel={"namelength": -1})
        sections.append(Section(title=title, text=text, figure=figure, key=key))
    return sections
