"""Flash: one model for everybody whose server speeds up after drift (METHODS.md 10; Panchal et al., ICML 2023)."""

from dataclasses import replace

from fielding.federation.aggregation.flash import Flash
from fielding.methods.global_model import GlobalModel
from fielding.methods.method import MethodSetting


def flash(  # noqa: PLR0913 - each is an option with a default
    setting: MethodSetting,
    *,
    eta: float = 0.01,
    beta1: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,
    speedup: float = 10.0,
) -> GlobalModel:
    """Return one model for everybody with Flash at the server, whatever aggregation the setting names.

    Parameters
    ----------
    setting
        What it is made of.
    eta
        The server's learning rate.
    beta1, beta2
        How much of the old moments stays.
    tau
        How little adaptivity there is: large values make all coordinates alike.
    speedup
        How many times the step of Adam a step may be, at least 1; with 1 it only ever brakes.
    """
    aggregator = Flash(eta=eta, beta1=beta1, beta2=beta2, tau=tau, speedup=speedup)
    return GlobalModel(replace(setting, parts=replace(setting.parts, aggregator=aggregator)))
