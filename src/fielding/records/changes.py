"""What may change between two stretches of one run, why the rest may not, and what did change, by round.

:data:`RULES` is the one table; ``docs/changes.md`` shows it. A run folder keeps its changes in ``manifest.json`` beside
the config that they led to, so that both are written in one piece.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from fielding._typing import Json
from fielding.errors import InputError, echo

SIMULATOR, FLOWER = "simulator", "flower"  # as the manifest names the engine; the simulator's names none
FREE = ("workers", "stop_at_accuracy", "stop_at_time_s", "checkpoint")
"""Keys and sections that the manifest leaves out: no round depends on them, so a change is not even recorded."""
CHANGES, RUN_CONFIG = "changes", "run_config"
CLASSES = "classes"  # of the manifest: their names; on Flower also a setting, how many there are
STRATEGY = "strategy"  # of Flower, in place of an aggregation of Fielding's; named as if it were a key


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A key that has another value from a round on; None: it is not given."""

    round_index: int
    key: str
    old: Json
    new: Json

    def record(self) -> dict[str, Json]:
        """Return it as the manifest has it."""
        return {"round": self.round_index, "key": self.key, "old": self.old, "new": self.new}

    def __str__(self) -> str:
        """Return it in words.

        Examples
        --------
        >>> print(Change(round_index=200, key="training.learning_rate", old=0.05, new=0.01))
        round 200: training.learning_rate 0.05 -> 0.01
        """
        old, new = ("not given" if one is None else echo(one) for one in (self.old, self.new))
        return f"round {self.round_index}: {self.key} {old} -> {new}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Whether some keys may change while a run goes on, in each engine.

    ``keys``: names, or patterns such as ``trace.*``. ``simulator``, ``flower``: empty if they may, else why not, as the
    end of a sentence that begins with the key. ``note``: what else there is to say, for the docs.
    """

    keys: tuple[str, ...]
    simulator: str = ""
    flower: str = ""
    note: str = ""

    def why_not(self, engine: str) -> str:
        """Return why the keys may not change; empty if they may."""
        return self.flower if engine == FLOWER else self.simulator


def _never(*keys: str, why: str, note: str = "") -> Rule:
    return Rule(keys=keys, simulator=why, flower=why, note=note)


_PAST = "it decides what clients have had and said so far"
_DETECTOR = Rule(
    keys=("coordinator.*",),
    simulator="a resume lets the data arrive again and finds past reports by it",
    note='`detector` and its options; on Flower with `representation = "label"` alone, from the next order on',
)
_METHOD = Rule(keys=("method.*",), note="options in the list below, and all of a method of your own")
_SELECTION = Rule(
    keys=("selection.*",),
    note="what the new one remembers begins afresh; not to or from one that hears all reports",
)
RULES = (
    Rule(keys=("workers", "checkpoint.every", "stop_at_*"), note="not recorded: no round depends on them"),
    Rule(
        keys=("rounds",),
        note="never below the rounds that are done; in the simulator only if the data dealt so far stay the same",
    ),
    Rule(keys=("preset",), note="each key that it sets is judged by itself"),
    _never("seed", why="all random choices of the run hang on it"),
    _never("trace.*", why=_PAST),
    _never("model.*", "training.trainer", why="the models that there are have the shape that it gave them"),
    _never("serving.correction", "aggregation.shared_body", why="the models that there are have the parts for it"),
    _never(
        "training.moon", "training.rehearsal", "serving.experts", why="clients keep something for it from the start"
    ),
    Rule(
        keys=("training.learning_rate", "training.batch_size"),
        note="in the simulator not if a shared model was trained with them (`pool`)",
    ),
    Rule(keys=("training.*",), note="from the next round on"),
    _never("method.name", why="another method cannot go on with the clusters of this one"),
    _METHOD,
    _never(
        "coordinator.representation", "coordinator.metric", "coordinator.reports", "coordinator.shared_*", why=_PAST
    ),
    Rule(
        keys=(
            *(f"coordinator.{name}" for name in ("trigger", "tau", "reference", "noise_floor", "delta_*")),
            *(f"coordinator.{name}" for name in ("partitioner", "k_max", "k_choice", "participants_per_cluster")),
            *(f"coordinator.{name}" for name in ("hysteresis", "warm_start", "robust", "inherit")),
        ),
        note="from the next event on; clusters stay until then",
    ),
    _DETECTOR,
    _SELECTION,
    Rule(keys=("aggregation.*", "pace.*"), note="what the new one remembers of a cluster begins afresh"),
    Rule(keys=("serving.*",), note="from the next round on"),
    Rule(keys=("clock.overcommit",), note="from the next round on"),
    _never("clock.*", why="the devices are those that the run began with"),
    Rule(keys=("evaluation.*",), note="from the next round on"),
    _never("privacy.*", why=_PAST),
    _never("reports.budget", why="whose turn it is to be asked hangs on it"),
    Rule(
        keys=("own.train", "own.embed"),
        simulator="files that it keeps belong to it; change its code instead, under the same name",
        note="Flower: any setting of your app under `own`",
    ),
    Rule(keys=("own.*",), note="settings of your own code"),
    Rule(
        keys=(CLASSES,),
        note="Flower's run config alone: more of them, with models of ours, `fielding`, `global` or `flash`, and "
        '`representation = "label"`; last layers grow',
    ),
    Rule(
        keys=("deadline", "min-nodes", "start-wait", "memory-rounds", "deliveries", STRATEGY),
        note="Flower's run config alone",
    ),
)
"""The first rule that fits a key counts."""

METHOD_OPTIONS: dict[str, tuple[str, ...]] = {
    "fielding": ("reuse",),
    "clustered-sgd": ("k", "delta"),
    "local": (),
    "flash": ("eta", "beta1", "beta2", "tau", "speedup"),
    "ifca": (),
    "feddrift": ("delta", "delta_merge", "isolation", "step_rounds", "max_models"),
    "feddrift-eager": ("delta", "step_rounds", "max_models"),
    "auxo": ("base_reward", "epsilon", "epsilon_decay", "neighbors", "min_results", "stop_after"),
    "fedac": ("mu", "pca_every", "tune_every"),
    "flexcfl": ("eta_g", "pretrain_steps"),
    "cfl": ("eps1", "eps2", "eps1_share", "eps2_share", "gamma_max", "start_after", "max_age"),
}
"""Options of methods that may change; what the method has stored is built on the others, or they act at the start."""


def rule_of(key: str) -> Rule:
    """Return the rule for a key; one that nobody knows may not change.

    Examples
    --------
    >>> rule_of("training.prox").why_not("flower"), rule_of("seed").why_not("simulator")
    ('', 'all random choices of the run hang on it')
    """
    found = (rule for rule in RULES if any(fnmatchcase(key, pattern) for pattern in rule.keys))
    return next(found, _never(key, why="this release does not know what hangs on it"))


def settings_of(manifest: Mapping[str, Json]) -> dict[str, Json]:
    """Return all settings in a manifest, by dotted key; on Flower also those of the run config.

    Examples
    --------
    >>> settings_of({"config": {"rounds": 9, "training": {"prox": 0.1}}, "own": {"settings": {"own.epochs": 2}}})
    {'rounds': 9, 'training.prox': 0.1, 'own.epochs': 2}
    """
    found: dict[str, Json] = {}
    for name, value in _table(manifest.get("config")).items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": one for inner, one in value.items()}
        else:
            found[name] = value
    own = _table(manifest.get("own"))
    found |= _table(own.get("settings"))
    found |= {} if own.get("aggregation") is None else {STRATEGY: own["aggregation"]}
    if RUN_CONFIG in manifest and isinstance(classes := manifest.get(CLASSES), list):
        found[CLASSES] = len(classes)
    return found | _table(manifest.get(RUN_CONFIG))


def without_settings(manifest: Mapping[str, Json]) -> dict[str, Json]:
    """Return a manifest without what :func:`settings_of` returns, and without the changes of it."""
    rest = {name: value for name, value in manifest.items() if name not in ("config", RUN_CONFIG, CHANGES)}
    if own := _table(rest.get("own")):
        rest["own"] = {name: value for name, value in own.items() if name not in ("settings", "aggregation")}
    return rest


def changes_in(manifest: Mapping[str, Json]) -> list[Change]:
    """Return the changes that a manifest tells of, in the order in which they were made; damaged ones are left out."""
    rows, found = manifest.get(CHANGES), []
    for row in rows if isinstance(rows, list) else []:
        at = row.get("round") if isinstance(row, dict) else None
        if isinstance(row, dict) and isinstance(at, int):
            found.append(Change(round_index=at, key=str(row.get("key")), old=row.get("old"), new=row.get("new")))
    return found


def change_settings(
    stored: Mapping[str, Json], now: Mapping[str, Json], *, n_done: int, folder: Path | str
) -> list[Change]:
    """Return all changes of a run that goes on after some rounds, or raise for the first that may not be.

    ``stored``, ``now``: manifests. A change from a round that is not done yet has not counted: a run that was killed
    before it committed such a round may drop it or replace it.

    Raises
    ------
    InputError
        In one line, with the folder, the key, both values, and why.
    """
    # With nothing done the run begins anew.
    made = [one for one in changes_in(stored) if one.round_index < n_done]
    before = settings_of(stored)
    for one in reversed(changes_in(stored)[len(made) :]):
        before[one.key] = one.old
    after = settings_of(now)
    if RUN_CONFIG not in stored:  # an older version did not write it down
        after = {key: value for key, value in after.items() if key not in (CLASSES, *_table(now.get(RUN_CONFIG)))}
    new = []
    for key in dict.fromkeys([*before, *after]):
        if _same(old := before.get(key), value := after.get(key)):
            continue
        if why := _why_not(key, before, after, stored, n_done=n_done):
            was, is_now = ("not given" if one is None else echo(one) for one in (old, value))
            raise InputError(f"cannot resume {folder}: {key} was {was}, now it is {is_now}: {why}")
        new.append(Change(round_index=n_done, key=key, old=old, new=value))
    return made + (new if n_done else [])


def _why_not(
    key: str, before: Mapping[str, Json], after: Mapping[str, Json], stored: Mapping[str, Json], *, n_done: int
) -> str:
    """Return why a key may not change so; empty if it may."""
    engine, value, rule = str(stored.get("engine", SIMULATOR)), after.get(key), rule_of(key)
    if why := rule.why_not(engine):
        return why
    if key == "rounds" and isinstance(value, int) and value < n_done:
        return f"{n_done} are done"
    if key == CLASSES and isinstance(value, int) and isinstance(old := before.get(key), int) and value < old:
        return "a class list can only grow"
    if key == "rounds" and engine == SIMULATOR and before.get("training.rehearsal"):
        return "training.rehearsal is on, and what clients rehearse is known by its place in the data"
    if key in ("training.learning_rate", "training.batch_size") and stored.get("shared_model") == "pool":
        return "the shared model that windows are seen with was trained with it" if engine == SIMULATOR else ""
    if rule is _METHOD:
        name, option = str(before.get("method.name")), key.rpartition(".")[2]
        is_known = ":" in name or option in METHOD_OPTIONS.get(name, ())
        return "" if is_known else "what the method has stored is built on it"
    if rule is _DETECTOR and before.get("coordinator.representation") != "label":
        return "devices keep what they saw in the form that it wants"
    if rule is _SELECTION and (_needs_reports(before) or _needs_reports(after)):
        return "it hears all reports of clients, from the first on"
    return ""


def _needs_reports(settings: Mapping[str, Json]) -> bool:
    return settings.get("selection.name") == "nearest" or bool(settings.get("selection.forget_on_report"))


def _same(one: Json, other: Json) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _table(value: Json) -> dict[str, Json]:
    return dict(value) if isinstance(value, dict) else {}
