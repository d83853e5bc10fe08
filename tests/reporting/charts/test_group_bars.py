from fielding.reporting.charts.group_bars import GroupBar, group_bars


def test_parts_of_a_row_are_named_once_and_rows_have_their_names_above() -> None:
    bars = [GroupBar(group=group, length=1.0, part=part) for group in ("a", "b") for part in ("model", "report")]

    figure = group_bars(bars, {"a": "2 MB"}, x_title="MB")

    entries = [trace for trace in figure["data"] if trace["showlegend"]]
    assert [trace["name"] for trace in entries] == ["model", "report"]
    assert not any("meta" in trace for trace in entries)  # a group that is switched off leaves the legend as it is
    names = [trace["text"][0] for trace in figure["data"] if trace["type"] == "scatter"]
    assert names == ["a: 2 MB<br>\u200b", "b<br>\u200b"]


def test_rows_without_a_length_still_have_an_axis() -> None:
    figure = group_bars([GroupBar(group="a", length=0.0)], {}, x_title="hours")

    assert figure["layout"]["xaxis"]["range"] == [0, 1]


def test_names_of_rows_stay_text() -> None:
    figure = group_bars([GroupBar(group="<b>", length=1.0, part="<i>")], {"<b>": "<u>"}, x_title="hours")

    assert not [text for trace in figure["data"] for text in (*trace["y"], trace["name"]) if "<" in str(text)]
    assert figure["data"][1]["text"] == ["&lt;b&gt;: &lt;u&gt;<br>\u200b"]
