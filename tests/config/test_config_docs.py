"""docs/config.md lists every key as the code has it, and the page of each kind of part every option with its default.

``python -m tests.config.test_config_docs`` writes the lists of keys into docs/config.md and prints the options.
"""

import re
import sys
from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.client.drift import DRIFT_TESTS
from fielding.client.drift.detectors import KindDetector, SampleDetector
from fielding.client.drift.sample_tests import SAMPLE_TESTS
from fielding.client.representation.registry import REPRESENTATIONS, representation_options
from fielding.config.keys import KEYS, SECTIONS
from fielding.config.options import options_of
from fielding.config.parts import BY_KIND
from fielding.config.presets import PRESETS
from fielding.config.reader import config_from
from fielding.config.rules import Key
from fielding.federation.aggregation import AGGREGATORS
from fielding.federation.pace import PACES
from fielding.federation.selection import SELECTORS
from fielding.methods import METHODS, method_options
from fielding.traces.scenarios import SCENARIOS, scenario_options

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "config.md"
SOME = 10_000
"""Upper bounds from here on only keep mistakes out, as do lower bounds alone: the page leaves them out."""
MOST_NAMES = 6
"""Keys with more known names than this name parts, which have tables of their own."""


def shown(value: object) -> str:
    """Return a default as TOML would have it; nothing for none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{list(value)}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value:.4g}`" if isinstance(value, float) else f"`{value}`"


def assigned(name: str, value: object) -> str:
    """Return a name with its default as ``--set`` takes it; the name alone for none."""
    return f"`{name}={shown(value)[1:-1]}`" if value is not None else f"`{name}`"


def key_list(section: str) -> str:
    """Return the list of the keys of one section, or of those without one."""
    rows = []
    for path, one in KEYS.items():
        if path.rpartition(".")[0] == section:
            told = "; ".join(filter(None, (one.rule.help, limits(one))))
            rows.append(f"- {assigned(one.name, one.default)}: {told}")
    return "\n".join(rows)


def limits(one: Key) -> str:
    """Return in short what a key may be; nothing where its help or a table of parts says it."""
    rule = one.rule
    if rule.choices is not None and len(rule.choices) > MOST_NAMES:
        return ""
    has_range = rule.high is not None and rule.high < SOME
    bounds = [
        f"{rule.low:g} to {rule.high:g}" if has_range and rule.low is not None else "",
        f"above {rule.above:g}" if has_range and rule.above is not None else "",
        f"at most {rule.high:g}" if has_range and rule.low is None else "",
    ]
    return ", ".join(filter(None, (*bounds, *sorted(rule.choices or ()))))


def preset_list() -> str:
    """Return what presets set; what they leave to the representation is left out."""
    rows = []
    for name, sections in PRESETS.items():
        values = {f"{at}.{key}": value for at, keys in sections.items() for key, value in keys.items()}
        told = [assigned(key, value) for key, value in values.items() if value is not None]
        rows.append(f"- `{name}`: {', '.join(told)}")
    return "\n".join(rows)


def lists() -> dict[str, str]:
    """Return every list of the page, by the heading that it stands under."""
    found = {"Keys without a section": key_list(""), **{f"[{name}]": key_list(name) for name in SECTIONS}}
    return found | {"Presets": preset_list()}


def parts_of(page: str) -> dict[str, str]:
    """Return the text under each heading of a page."""
    return dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL))


def options_of_parts() -> dict[str, dict[str, dict[str, Json]]]:
    """Return the options of every part with their defaults, by kind of part and name."""
    of_rule = options_of(SampleDetector, hidden=("test", "needs_errors"))
    on_samples = {name: {**of_rule, **options_of(kind)} for name, kind in SAMPLE_TESTS.items()}
    return {
        "Scenarios": {name: scenario_options(name) for name in SCENARIOS},
        "Representations": {name: representation_options(name) for name in REPRESENTATIONS},
        "Drift tests": {name: options_of(kind) for name, kind in DRIFT_TESTS.items()},
        "On samples": {**on_samples, BY_KIND: options_of(KindDetector)},
        "Methods": {name: method_options(kind) for name, kind in METHODS.items()},
        "Selectors": {name: SELECTORS.options(name) for name in SELECTORS},
        "Aggregators": {name: AGGREGATORS.options(name) for name in AGGREGATORS},
        "Paces": {name: PACES.options(name) for name in PACES},
    }


PAGES = {
    "Scenarios": "scenarios.md",
    "Representations": "representations.md",
    "Drift tests": "drift-tests.md",
    "On samples": "drift-tests.md",
    "Selectors": "selection.md",
    "Aggregators": "aggregation.md",
    "Paces": "pace.md",
}
OF_OTHERS = {"feddrift-eager": "feddrift", "pyramidfl": "oort"}
"""Parts whose options stand with those of another, but for their own."""
SHARED = {"alpha": 0.003, "least": 10, "growth": 2}
"""What the tests on samples have in common, said once."""


def described(kind: str, name: str) -> str:
    """Return the text about a part: its page, or there what is under its heading, in its row, or in its item."""
    alone = DOCS / "methods" / f"{name.removesuffix('-eager')}.md"
    if kind == "Methods" and alone.exists():
        return alone.read_text(encoding="utf-8")
    text = (DOCS / PAGES.get(kind, "methods/index.md")).read_text(encoding="utf-8")
    under_heading = rf"^##+ `?{name}`?(?: [^\n]*)?\n(.*?)(?=^##|\Z)"
    in_row, in_item = rf"^\| `{name}` (\|.*\|)$", rf"^- `{name}`:? (.*?)(?=^- |\n\n|\Z)"
    found = [re.findall(one, text, re.MULTILINE | re.DOTALL) for one in (under_heading, in_item)]
    return "\n".join(sum(found, re.findall(in_row, text, re.MULTILINE)))


def options_to_list() -> list[tuple[str, str, dict[str, Json]]]:
    """Return each part that has options, with those that its own text must list."""
    found = []
    for kind, parts in options_of_parts().items():
        for name, options in parts.items():
            shared = SHARED if kind == "On samples" else parts.get(OF_OTHERS.get(name, ""), {})
            own = {key: value for key, value in options.items() if key not in shared or shared[key] != value}
            if own:
                found.append((kind, name, own))
    return found


@pytest.mark.parametrize(("kind", "name", "options"), options_to_list())
def test_the_page_of_a_part_lists_its_options(kind: str, name: str, options: dict[str, Json]) -> None:
    text = described(kind, name)

    assert text, f"nothing about {name}"
    missing = [assigned(option, default) for option, default in options.items()]
    assert [one for one in missing if one not in text] == []


def test_what_tests_on_samples_share_is_said() -> None:
    text = (DOCS / PAGES["On samples"]).read_text(encoding="utf-8")

    assert all(assigned(option, default) in text for option, default in SHARED.items())


def test_pages_list_no_option_that_there_is_not() -> None:
    for kind, name, _ in options_to_list():
        has = set(options_of_parts()[kind][name])
        listed = set(re.findall(r"`([a-z_0-9]+)=[^`]+`", described(kind, name)))
        assert listed <= has | set(options_of_parts()[kind].get(OF_OTHERS.get(name, name), ())), name


@pytest.mark.parametrize("heading", lists())
def test_the_page_lists_what_the_code_has(heading: str) -> None:
    listed = re.findall(r"^- `.*$", parts_of(PAGE.read_text(encoding="utf-8"))[heading], flags=re.MULTILINE)

    assert listed == lists()[heading].splitlines()


def test_every_key_is_in_a_list() -> None:
    listed = "\n".join(lists().values())

    for one in KEYS.values():
        assert re.search(rf"^- `{one.name}[=`]", listed, flags=re.MULTILINE)
        assert one.rule.help in listed


def test_the_page_has_no_other_lists_of_keys() -> None:
    others = {heading: text for heading, text in parts_of(PAGE.read_text()).items() if heading not in lists()}

    assert not any(re.search(r"^- `", text, flags=re.MULTILINE) for text in others.values())


def test_the_examples_of_the_page_are_configs() -> None:
    import tomllib

    examples = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)

    assert len(examples) >= 2
    for example in examples:
        config_from(tomllib.loads(example))


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    for heading, told in lists().items():
        part = parts_of(text)[heading]
        kept = re.findall(r"^- `.*\n", part, flags=re.MULTILINE)
        text = text.replace(part, part.replace("".join(kept), told + "\n"))
    PAGE.write_text(text, encoding="utf-8")
    for kind, name, options in options_to_list():
        sys.stdout.write(f"{kind}, {name}: {', '.join(assigned(*one) for one in options.items())}\n")
