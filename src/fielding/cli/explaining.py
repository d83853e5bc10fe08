"""Sentences under a table about words that readers cannot know; docs/words.md has all of them."""

from collections.abc import Collection

_SENTENCES = {
    "worst_decile": "Worst tenth: mean over the tenth of the clients with the lowest accuracy.",
    "final_accuracy_corrected": "Corrected: each client shifts the scores of its model to its own mix of labels.",
    "final_accuracy_tuned": "Tuned: each client trains its model for some steps more, on its own samples.",
    "final_newest_accuracy": "Newest interval: of the samples in the clients' windows those that came last.",
    "final_prequential_accuracy": "Interval to come: the samples that arrive next, before models are trained on them.",
}


def explained(figures: Collection[str]) -> str:
    """Return what the names of figures mean, of those that do not say it themselves; nothing if all do.

    Parameters
    ----------
    figures
        Their names in ``summary.json``.

    Examples
    --------
    >>> explained(["moves", "worst_decile"])
    'Worst tenth: mean over the tenth of the clients with the lowest accuracy.'
    """
    return " ".join(words for figure, words in _SENTENCES.items() if figure in figures)
