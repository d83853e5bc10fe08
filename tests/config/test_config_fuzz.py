"""Mutated config files are read or refused with one line: never a traceback, never a hang (QUALITY.md R21)."""

from pathlib import Path

import numpy as np
import pytest

from fielding.config.keys import KEYS
from fielding.config.reader import config_from, config_table, config_text, read_config
from fielding.errors import InputError
from fielding.simulation.assembly import Own, assemble
from fielding.traces.scenarios import scenario_options
from tests.simulation.run_cases import small_pool, table

POOL = small_pool()
BASE = config_text(config_from(table(preset="paper", stop_at_accuracy=0.9)))
VALUES = (
    "0", "1", "2", "-1", "0.5", "1e-300", "1e308", "-0.0", "inf", "-inf", "nan", "true", "false", '""', '"x"', '"1/3"',
    '"inf"', '"places"', '"static"', '"natural"', '"chi2"', '"periodic"', '"a:b"', '"os:getcwd"', '"/"', '"."',
    '"\\u0000"', '"\\n"', "[]", "[1, [2]]", "{}", "{a = 1}", "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z",
    "2147483648", "999999999999", "9" * 400, "0x7f", '"""a\nb"""', '"' + "z" * 5000 + '"', "1_0", "01", "",
)  # fmt: skip
NAMES = (
    *(name.rpartition(".")[2] for name in KEYS), "share", "places", "alpha", "eps", "rounds", "period",
    "options", "x", "__class__", "self", '"a b"', '""', "'\\'", "a.b", "é", "-", "seed.x",
)  # fmt: skip
SECTIONS = ("", "trace", "model", "training", "method", "coordinator", "clock", "checkpoint", "nowhere", "trace.x")


def mutated(rng: np.random.Generator) -> bytes:
    """Return a config with a few mistakes: other values, other names, lines gone or twice, bytes flipped."""
    lines = BASE.splitlines()
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(lines)))
        name, equals, _ = lines[at].partition(" = ")
        kind = int(rng.integers(6))
        if kind <= 1 and equals:
            lines[at] = f"{name} = {rng.choice(VALUES)}"
        elif kind == 2:
            lines.insert(at, f"{rng.choice(NAMES)} = {rng.choice(VALUES)}")
        elif kind == 3:
            lines[at] = f"[{rng.choice(SECTIONS)}]"
        elif kind == 4 and equals:
            lines[at] = lines[at].replace(name, misspelt(name, rng), 1)
        else:
            del lines[at]
    content = "\n".join(lines).encode()
    if rng.random() < 0.3:
        flipped = bytearray(content)
        for at in rng.integers(len(flipped), size=int(rng.integers(1, 4))).tolist():
            flipped[at] = int(rng.integers(256))
        content = bytes(flipped)
    return content


def misspelt(name: str, rng: np.random.Generator) -> str:
    """Return a name with one letter gone or doubled."""
    at = int(rng.integers(len(name)))
    return name[:at] + (name[at] * 2 if rng.random() < 0.5 else "") + name[at + 1 :]


@pytest.mark.parametrize(("seed", "n_files"), [(1, 300), pytest.param(2, 5000, marks=pytest.mark.slow)])
def test_mutated_configs_are_read_or_refused_in_one_line(tmp_path: Path, seed: int, n_files: int) -> None:
    rng = np.random.default_rng(seed)
    path, verdicts = tmp_path / "mutated.toml", {"read": 0, "refused": 0}
    for _ in range(n_files):
        content = mutated(rng)
        path.write_bytes(content)
        try:
            config = read_config(path)
            assemble(config, Own(samples=POOL), n_workers=1).clients.close()
        except InputError as error:
            line = str(error)
            assert line, content
            assert line.isprintable(), content
            assert len(line) < 1000, content
            verdicts["refused"] += 1
        else:
            assert config_from(config_table(config)) == config, content
            path.write_text(config_text(config))
            assert read_config(path) == config, content
            verdicts["read"] += 1

    assert min(verdicts.values()) > n_files // 20, "the mutations are too wild or too tame to prove anything"


@pytest.mark.parametrize("seed", range(3))
def test_a_misspelt_key_is_named_in_full(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    path = tmp_path / "misspelt.toml"
    known = set(KEYS)
    for name in sorted(known):
        section, _, inner = name.rpartition(".")
        wrong = misspelt(inner, rng)
        whole = f"{section}.{wrong}" if section else wrong
        if whole in known or not wrong or wrong in scenario_options("places"):  # trace.shared without its last letter
            continue
        path.write_text(f"[{section}]\n{wrong} = 1\n" if section else f"{wrong} = 1\n")

        with pytest.raises(InputError) as caught:
            assemble(read_config(path), Own(samples=POOL), n_workers=1)

        assert wrong in str(caught.value)
        if section not in ("trace", "coordinator", "own"):  # there it may be nearer to an option, or a setting
            assert f"unknown key {whole}; did you mean " in str(caught.value)
