"""Models that carry the label mix that they were trained on, if a config has clients correct for it."""

from fielding.config.keys import Config
from fielding.training.label_mix import LabelMixTrainer
from fielding.training.trainer import Trainer


def with_mix(config: Config, trainer: Trainer, n_classes: int) -> Trainer:
    """Return the trainer of models that carry their label mix, if clients correct for it; else the trainer itself.

    Parameters
    ----------
    config
        Says whether, and how fast the mix follows training.
    trainer
        Of models without a mix.
    n_classes
        Classes.
    """
    if config.serving.correction == "none":
        return trainer
    return LabelMixTrainer(trainer, n_classes, rate=config.serving.mix_rate, is_balanced=config.training.balanced)
