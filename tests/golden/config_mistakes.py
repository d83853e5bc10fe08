"""Mistakes in configs: systematic ones of every key and every option, and special ones."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from fielding.config.keys import KEYS
from tests.config.test_config_docs import options_of_parts
from tests.config.test_config_docs import shown as shown_default

Table = dict[str, Any]
TINY: Table = {
    "rounds": 1,
    "trace": {"clients": 6, "samples": 12, "gap": 1, "window": 2},
    "model": {"hidden": 2},
    "training": {"participants": 4, "local_steps": 1, "batch_size": 2},
}
"""What a mistake is put into: if it is none after all, the run is over soon."""
SMALL = "rounds = 1\n[trace]\nclients = 6\nsamples = 12\ngap = 1\nwindow = 2\n"
PARTS = {
    "Scenarios": ("trace", "scenario"),
    "Representations": ("coordinator", "representation"),
    "Drift tests": ("coordinator", "detector"),
    "On samples": ("coordinator", "detector"),
    "Methods": ("method", "name"),
    "Selectors": ("selection", "name"),
    "Aggregators": ("aggregation", "name"),
    "Paces": ("pace", "name"),
}
"""By kind of part: section and key that name one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key, and what it may be."""

    section: str
    name: str
    may_be: str

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}".lstrip(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part with its options: defaults as configs have them, empty for none."""

    heading: str
    name: str
    options: dict[str, str]


def keys() -> list[Key]:
    split = [(path.rpartition("."), one) for path, one in KEYS.items()]
    return [Key(section=section, name=name, may_be=one.allowed) for (section, _, name), one in split]


def parts() -> list[Part]:
    return [
        Part(
            heading=kind,
            name=name,
            options={option: shown_default(default).strip("`") for option, default in options.items()},
        )
        for kind, of_kind in options_of_parts().items()
        for name, options in of_kind.items()
    ]


def with_key(section: str, name: str, value: object, base: Table | None = None) -> Table:
    """Return a table with a key set to a value."""
    table = dict(TINY if base is None else base)
    if not section:
        return {**table, name: value}
    inner = table.get(section, {})
    return {**table, section: {**inner, name: value} if isinstance(inner, dict) else {name: value}}


def wrong_values(may_be: str) -> list[object]:
    """Return values that a key may not have, by what the page says that it may be."""
    if may_be.startswith("one of"):
        first = may_be.removeprefix("one of ").split(", ")[0].split(" or ")[0]
        return [f"{first}x", "zzz", 3, ["a"]]
    if may_be.startswith("true"):
        return ["yes", 1]
    if may_be == "a number or a text":
        return [True, [1], -math.inf]
    if may_be == "a text":
        return [7, ["a"], date(1979, 5, 27)]
    found: list[object] = ["x", True, math.nan]
    found += [value for value in (-1, 0, 2.5) if not _is_within(may_be, value)]
    if high := re.search(r"(?:to|at most) ([\d.]+)$", may_be):
        found.append(float(high[1]) * 2 if "." in high[1] else int(high[1]) + 1)
    return found


def _is_within(may_be: str, value: float) -> bool:
    """Return whether a number is one that a key may be."""
    if "whole" in may_be and not isinstance(value, int):
        return False
    low = re.search(r"(?:from|at least) ([\d.]+)", may_be)
    above = re.search(r"above ([\d.]+)", may_be)
    high = re.search(r"(?:to|at most) ([\d.]+)$", may_be)
    return not (
        (low and value < float(low[1])) or (above and value <= float(above[1])) or (high and value > float(high[1]))
    )


def misspelt(name: str) -> list[str]:
    """Return names with a letter gone, one doubled, and two exchanged."""
    at = len(name) // 2
    exchanged = name[: at - 1] + name[at] + name[at - 1] + name[at + 1 :]
    return [wrong for wrong in (name[:at] + name[at + 1 :], name + name[-1], exchanged) if wrong != name]


def key_mistakes() -> Iterator[tuple[str, Table]]:
    """Yield tables with one wrong value or name each, by a name."""
    known = keys()
    for key in known:
        for value in wrong_values(key.may_be):
            yield f"{key.path} = {shown(value)}", with_key(key.section, key.name, value)
        for wrong in misspelt(key.name):
            yield f"{key.section}.{wrong} for {key.name}".lstrip("."), with_key(key.section, wrong, 1)
        if key.section and key.name not in {other.name for other in known if not other.section}:
            yield f"{key.name} without [{key.section}]", with_key("", key.name, 1)
        elsewhere = "clock" if key.section != "clock" else "serving"
        yield f"{elsewhere}.{key.name} for {key.path}", with_key(elsewhere, key.name, 1)
    for section in dict.fromkeys(key.section for key in known if key.section):
        for value in (5, [1, 2]):
            yield f"{section} = {shown(value)}", {**TINY, section: value}
        yield f"[{section[:-1]}]", {**TINY, section[:-1]: {"name": "a"}}
        yield f"{section}.options", with_key(section, "options", {"a": 1})
        yield f"{section}.zzz", with_key(section, "zzz", 1)


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 40 else f"{text[:20]}... ({len(text)})"


def wrong_options(default: str) -> list[object]:
    """Return values that an option can hardly have, by its default."""
    if default.startswith('"'):
        return [f"{default[1:-1]}x", [1]]
    if default in ("true", "false"):
        return ["yes"]
    return ["x", -2, math.nan] if default else ["x", -2]


def option_mistakes() -> Iterator[tuple[str, str, Table]]:
    """Yield tables with a wrong option each, by heading and a name; of options that parts share, for one of them."""
    known, seen = parts(), set[tuple[str, str, str]]()
    for part in known:
        section, named = PARTS[part.heading]
        of_section = {other for one in known if PARTS[one.heading][0] == section for other in one.options}
        base = with_key(section, named, part.name)
        for option, default in part.options.items():
            if (section, option, default) in seen:
                continue
            seen.add((section, option, default))
            for value in wrong_options(default):
                name = f"{section}.{named} {part.name}: {option} = {shown(value)}"
                yield part.heading, name, with_key(section, option, value, base)
        for other in sorted(of_section - set(part.options))[:2]:
            name = f"{section}.{named} {part.name}: has no {other}"
            yield part.heading, name, with_key(section, other, 1, base)
        for wrong in [misspelt(option)[0] for option in part.options][:2]:
            name = f"{section}.{named} {part.name}: misspelt {wrong}"
            yield part.heading, name, with_key(section, wrong, 1, base)
        yield part.heading, f"{section}.{named} misspelt {part.name}s", with_key(section, named, f"{part.name}s")


_CHANGES: dict[str, dict[str, Table]] = {
    "a data set that there is not": {"trace": {"name": "digit"}},
    "a data set that is not here": {"trace": {"name": "cifar100"}},
    "a natural data set that is not here": {"trace": {"name": "waymo", "samples": 20}},
    "no such file": {"trace": {"file": "none.npz"}},
    "an empty file": {"trace": {"file": "empty.npz"}},
    "a file that is no table": {"trace": {"file": "empty.csv"}},
    "a natural pool": {"trace": {"scenario": "natural"}},
    "options of a natural trace": {"trace": {"scenario": "natural", "share": 0.5}},
    "a misspelt scenario": {"trace": {"scenario": "placez"}},
    "a window shorter than the gap": {"trace": {"window": 5, "gap": 6}},
    "more shared samples than there are": {"trace": {"shared": 100_000}},
    "a bad interval": {"trace": {"name": "waymo", "samples": 20, "interval": "1 fortnight"}},
    "a bad align": {"trace": {"name": "waymo", "samples": 20, "align": "calender"}},
    "a bad last": {"trace": {"name": "waymo", "samples": 20, "last": "month"}},
    "an interval of a pool": {"trace": {"interval": "2d"}},
    "align of a pool": {"trace": {"align": "client"}},
    "last of a pool": {"trace": {"last": "9d"}},
    "samples of a natural trace": {"trace": {"name": "zephyr", "samples": 7}},
    "samples of a trace said to be natural": {"trace": {"name": "zephyr", "scenario": "natural", "samples": 7}},
    "an interval of a trace dealt anew": {"trace": {"name": "zephyr", "scenario": "static", "interval": "1d"}},
    **{
        f"{key} of a known data set": {"trace": {key: "kind"}}
        for key in ("client", "time", "label", "text", "features")
    },
    "image size of a known data set": {"trace": {"image_size": 8}},
    "image size of numbers": {"trace": {"file": "empty.npz", "image_size": 8}},
    "image size of columns": {"trace": {"file": "empty.csv", "image_size": 8, "features": "a,b"}},
    "a lie without liars": {"trace": {"lie": "one-hot"}},
    "spoiling without liars": {"trace": {"spoil": "nan"}},
    "an unknown lie": {"trace": {"liars": 0.2, "lie": "permutes"}},
    "an unknown spoiling": {"trace": {"liars": 0.2, "spoil": "signflip"}},
    "more than the trace has": {"trace": {"scenario": "label-buckets", "buckets": 100_000}},
    "an unknown model": {"model": {"name": "mlq"}},
    "a model for torch": {"model": {"name": "cnn"}},
    "a device for torch": {"training": {"device": "cuda"}},
    "moon without features": {"model": {"name": "softmax"}, "training": {"moon": 1.0}},
    "moon temperature without moon": {"training": {"moon_temperature": 0.7}},
    "smoothing without a correction": {"serving": {"smoothing": 5.0}},
    "a mix rate without a correction": {"serving": {"mix_rate": 0.5}},
    "a bad smoothing": {"serving": {"correction": "prior", "smoothing": "calibratd"}},
    "a negative smoothing": {"serving": {"correction": "prior", "smoothing": -1}},
    "a shared body without a body": {"model": {"name": "softmax"}, "aggregation": {"shared_body": True}},
    "a shared model for nobody": {"coordinator": {"shared_model": "global"}},
    "shared epochs for nobody": {"coordinator": {"shared_epochs": 9}},
    "shared rounds for nobody": {"coordinator": {"shared_rounds": 9}},
    "shared epochs of a global model": {
        "coordinator": {"representation": "embedding", "shared_model": "global", "shared_epochs": 9}
    },
    "shared rounds of a pool": {"coordinator": {"representation": "embedding", "shared_rounds": 9}},
    "a shared model that is no file": {"coordinator": {"representation": "embedding", "shared_model": "pol"}},
    "a pool without samples": {"coordinator": {"representation": "embedding"}, "trace": {"held_out": 0}},
    "a misspelt representation": {"coordinator": {"representation": "lable"}},
    "a misspelt sum": {"coordinator": {"representation": "embedding+2*confusionn"}},
    "a bad weight": {"coordinator": {"representation": "embedding+x*confusion"}},
    "a weight below zero": {"coordinator": {"representation": "embedding+-2*confusion"}},
    "auto in a sum": {"coordinator": {"representation": "auto+label"}},
    "an empty representation": {"coordinator": {"representation": ""}},
    "a function that there is not": {"coordinator": {"representation": "no_such_module:describe"}},
    "a function that a module lacks": {"coordinator": {"representation": "math:describe"}},
    "a function without a name": {"coordinator": {"representation": "math:"}},
    "label counts for vectors": {"coordinator": {"representation": "embedding", "detector": "chi2"}},
    "an option of another test": {"coordinator": {"eps": 0.1}},
    "an option of another representation": {"coordinator": {"dims": 3}},
    "an option of nothing": {"coordinator": {"alpa": 0.1}},
    "metric of a histogram for vectors": {"coordinator": {"representation": "embedding", "metric": "js"}},
    "a bad tau": {"coordinator": {"tau": "a third"}},
    "a tau of nothing": {"coordinator": {"tau": "1/0"}},
    "a negative tau": {"coordinator": {"tau": -1}},
    "a negative fraction": {"coordinator": {"tau": "-1/3"}},
    "by-kind with an unknown test": {"coordinator": {"representation": "auto", "errors": "error-rat"}},
    "auto with an unknown key": {"coordinator": {"representation": "auto", "alpa": 1}},
    "an unknown profile": {"clock": {"profile": "sinthetic"}},
    "a profile without columns": {"clock": {"profile": "empty.csv"}},
    "an availability that there is not": {"clock": {"availability": "none.csv"}},
    "an availability without columns": {"clock": {"availability": "empty.csv"}},
    "a method that there is not": {"method": {"name": "no_such_module:Method"}},
    "a method that a module lacks": {"method": {"name": "math:Method"}},
    "an option of nobody's method": {"method": {"name": "global", "zzz": 1}},
    "an option of a method without any": {"method": {"name": "global", "k": 3}},
    "an anchor that is kept and changes": {"method": {"name": "flexcfl", "anchor": "current", "cache_anchor": True}},
    "more than the participants": {"method": {"name": "ifca", "k": 100_000}},
}
SPECIAL: dict[str, Table] = {
    name: {**TINY, **{section: {**TINY.get(section, {}), **inner} for section, inner in changes.items()}}
    for name, changes in _CHANGES.items()
}
TOP: dict[str, Table] = {
    "an unknown preset": {**TINY, "preset": "papr"},
    "a preset with a mistake": {**TINY, "preset": "paper", "training": {"momentum": 1.5}},
    "a preset with an option of another test": {**TINY, "preset": "paper", "coordinator": {"alpha": 0.1}},
    "a preset and a section that is none": {**TINY, "preset": "paper", "training": 5},
    "longer than the data": {**TINY, "rounds": 100_000_000},
    **{
        f"rounds = {shown}": {**TINY, "rounds": value}
        for shown, value in {
            "None": None,
            "a table": {"a": 1},
            "1e3": 1e3,
            "inf": math.inf,
            "400 digits": 10**400,
            "5000 digits": 10**5000,
            "100 letters": "9" * 100,
            "two lines": "a\nb",
        }.items()
    },
    "a number without end": {**TINY, "training": {"prox": math.inf}},
    "a number of 400 digits": {**TINY, "training": {"prox": 10**400}},
    "a section that is None": {**TINY, "training": None},
    "a part that is a table": {**TINY, "coordinator": {"detector": {"name": "chi2"}}},
    "another part that is a table": {**TINY, "method": {"name": {"ifca": {"k": 3}}}},
    "unknown and nowhere near": {**TINY, "zzz": 1},
    "a key that is no text": {**TINY, "": 1},
    "two mistakes": {"sed": 1, "training": {"prx": 1}},
    "a mistake in a value and one in a name": {"seed": -1, "training": {"prx": 1}},
}
FILES: dict[str, bytes] = {
    "no value": b"rounds = ",
    "twice": b"rounds = 1\nrounds = 2\n",
    "no utf-8": b"name = '\xff\xfe'\n",
    "too deep": b"a = " + b"[" * 5000,
    "too many digits": b"seed = " + b"9" * 5000,
    "nothing": b"\x00",
    "an unknown key": b"ruonds = 3\n",
    "a section as a value": b"training = 5\n",
    "an array of tables": b"[[training]]\nprox = 1\n",
    "a table within a section": b"[trace.scenario]\nshare = 0.5\n",
    "a date": b"rounds = 1979-05-27\n",
    "a late mistake": SMALL.encode() + b"share = 7\n",
    "another late mistake": SMALL.encode() + b'[clock]\nprofile = "fast"\n',
    "a name that no file can have": SMALL.encode() + b'[clock]\nprofile = "' + b"z" * 5000 + b'"\n',
    "no effect": SMALL.encode() + b'interval = "2d"\n',
}
"""Whole files for `fielding run`."""
CHANGES = (
    "junk", "=5", "a.b.c=5", "seed.x=5", "sed=5", "ruonds=3", "seed=", "seed=1\nrounds=2", "seed=-1", "rounds=1e3",
    "training=5", "training.prx=5", "training.prox=x", "training.momentum=1.5", "trace.shares=0.1", "trace.share=7",
    "trace.name=digit", "trace.interval=2d", "trace.window=0", "model.name=mlq", "method.name=ifka", "method.k=3",
    "coordinator.metric=l3", "coordinator.alpha=7", "coordinator.tau=third", "clock.profile=fast", "preset=papr",
    "aggregation.name=men", "selection.pool=3", "pace.name=quick", "nowhere.x=1", "training.rounds=5",
    "method.name=no_such_module:Method", "coordinator.eps=0.1", "serving.smoothing=5", "training.x=" + "y" * 100,
)  # fmt: skip
"""For `fielding run --set`."""
COMPARED: dict[str, list[str]] = {
    "an unknown method": ["--methods", "fielding,ifka"],
    "a method twice": ["--methods", "global,global"],
    "no method": ["--methods", ""],
    "a mistake in the file": ["--set", "training.prox=-1"],
    "an unknown key": ["--set", "training.prx=1"],
    "a late mistake": ["--set", "clock.profile=fast"],
    "a mistake of one of them": ["--methods", "fielding,ifca", "--set", "method.k=-1", "--set", "trace.share=7"],
    "an option of none of them": ["--methods", "global", "--set", "method.kk=1"],
    "an option of another method": ["--methods", "global,local", "--set", "method.k=1"],
    "vary nothing": ["--vary", "junk"],
    "vary an empty value": ["--vary", "coordinator.tau=0,,1"],
    "vary a value twice": ["--vary", "coordinator.tau=0,0"],
    "vary a value twice in other words": ["--vary", "coordinator.tau=0.5,1/2"],
    "vary a key twice": ["--vary", "coordinator.tau=0,1", "--vary", "coordinator.tau=2"],
    "vary the seed": ["--vary", "seed=1,2"],
    "vary workers": ["--vary", "workers=1,2"],
    "vary checkpoints": ["--vary", "checkpoint.every=1,2"],
    "vary methods": ["--vary", "method.name=global,local"],
    "vary a section": ["--vary", "training=1,2"],
    "vary an unknown key": ["--vary", "training.prx=1,2"],
    "vary to a wrong value": ["--vary", "training.prox=1,-2"],
    "vary to an unknown name": ["--vary", "coordinator.metric=l1,l3"],
    "vary what nobody uses": ["--methods", "global,local", "--vary", "coordinator.tau=0,1"],
    "vary an option of none of them": ["--methods", "global", "--vary", "method.k=1,2"],
    "vary an unknown option": ["--methods", "ifca", "--vary", "method.kk=1,2"],
    "vary to a late mistake": ["--vary", "clock.profile=uniform,fast"],
    "vary what has no effect": ["--vary", "serving.smoothing=1,2"],
    "an unknown reference": ["--methods", "global,local", "--reference", "fielding"],
    "drop what is not there": ["--drop", "global"],
    "no seeds": ["--seeds", "0"],
    "too many seeds": ["--seeds", "100000"],
    "a seed below zero": ["--first-seed", "-1"],
    "no jobs": ["--jobs", "0"],
    "an unknown tracker": ["--track", "tensorbord"],
}
"""For `fielding compare`."""
VARIANTS: dict[str, Any] = {
    "nothing": [],
    "no names": 5,
    "an unknown method": ["fielding", "ifka"],
    "settings that are none": {"a": 5},
    "a section": {"a": {"training": {"prox": 1}}},
    "an unknown key": {"a": {"training.prx": 1}},
    "a wrong value": {"a": {"training.prox": -1}},
    "a late mistake": {"a": {"clock.profile": "fast"}},
    "a seed": {"a": {"seed": 3}},
    "the same settings": {"a": {"rounds": 3}, "b": {"rounds": 3}},
    "the same config": {"a": {"coordinator.tau": 0.5}, "b": {"coordinator.tau": "1/2"}},
    "no name": {" ": {"rounds": 3}},
    "an option of another method": {"a": {"method.name": "global", "method.k": 3}},
}
"""For `fielding.compare`."""
