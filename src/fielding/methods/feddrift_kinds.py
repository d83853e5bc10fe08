"""FedDrift and FedDrift-Eager as configs see them: their options, and whose reports they hear."""

from collections.abc import Mapping

from fielding._typing import Json
from fielding.methods.feddrift import FedDrift
from fielding.methods.feddrift_rules import DriftRules
from fielding.methods.kinds import Hears
from fielding.methods.method import MethodSetting
from fielding.methods.participation import is_sampled


def feddrift(  # noqa: PLR0913 - options of a config
    setting: MethodSetting,
    *,
    delta: float = 0.1,
    delta_merge: float | None = None,
    isolation: int = 1,
    max_models: int = 32,
    start: str = "common",
    memory: str = "auto",
    participation: str = "auto",
    train_all: bool = False,
) -> FedDrift:
    """Return FedDrift: a model for each client that drifts.

    Parameters
    ----------
    setting
        What it is made of.
    delta
        A client whose best model gets this much less right than last time has drifted.
    delta_merge
        Models no farther apart than this become one; None for ``delta``.
    isolation
        Intervals in which a new model is its client's alone.
    max_models
        How many models there can be.
    start
        ``"common"``: one model for all; ``"each"``: one per client.
    memory
        ``"all"``: models train on all data that they own; ``"window"``: on those in the window; ``"auto"``: all if
        everybody takes part.
    participation
        ``"all"``: everybody trains and is tested; ``"sampled"``: participants train, and who reports drift is tested;
        ``"auto"``: all up to 200 clients.
    train_all
        Whether everybody trains every model; what comes back from whom the model owns no data of is thrown away.
    """
    rules = DriftRules(
        delta=delta,
        delta_merge=delta if delta_merge is None else delta_merge,
        isolation=isolation,
        max_models=max_models,
        start=start,
        memory=memory,
        participation=participation,
        train_all=train_all,
    )
    return FedDrift(setting, rules)


def feddrift_eager(  # noqa: PLR0913 - options of a config
    setting: MethodSetting,
    *,
    delta: float = 0.1,
    max_models: int = 32,
    memory: str = "auto",
    participation: str = "auto",
    train_all: bool = False,
) -> FedDrift:
    """Return FedDrift-Eager: clients that drift at the same time share one new model, and none ever merge.

    Parameters
    ----------
    setting
        What it is made of.
    delta
        A client whose best model gets this much less right than last time has drifted.
    max_models
        How many models there can be.
    memory
        ``"all"``: models train on all data that they own; ``"window"``: on those in the window; ``"auto"``: all if
        everybody takes part.
    participation
        ``"all"``: everybody trains and is tested; ``"sampled"``: participants train, and who reports drift is tested;
        ``"auto"``: all up to 200 clients.
    train_all
        Whether everybody trains every model; what comes back from whom the model owns no data of is thrown away.
    """
    rules = DriftRules(
        delta=delta,
        shares_new=True,
        max_models=max_models,
        memory=memory,
        participation=participation,
        train_all=train_all,
    )
    return FedDrift(setting, rules)


def feddrift_hears(options: Mapping[str, Json], n_clients: int) -> Hears:
    """Return whose reports FedDrift hears: flags of drifted clients where not everybody is tested."""
    return "flags" if is_sampled(options.get("participation", "auto"), n_clients) else "nobody"
