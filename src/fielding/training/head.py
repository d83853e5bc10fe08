"""Where the last layer of a model lies among its numbers."""

from fielding.training.layout import Layout

NO_HEAD = "the parameters of the model do not end in a last layer with weights and a bias for each class"
"""Why something that needs the last layer is refused."""


def head_size(layout: Layout, n_classes: int) -> int:
    """Return how many parameters, at their end, are the last layer: weights and a bias for each class.

    Modules may declare their layers in any order, and layers without biases; then nobody knows.

    Parameters
    ----------
    layout
        What the numbers of a model mean.
    n_classes
        How many classes the model tells apart.

    Returns
    -------
    ``n_classes * (n_features + 1)``, or 0 if the last two tensors of parameters have other shapes than
    ``(n_classes, n_features)`` and ``(n_classes,)``.

    Examples
    --------
    >>> layout = Layout(names=("0.weight", "1.weight", "1.bias"), shapes=((3, 5), (2, 3), (2,)), n_parameters=3)
    >>> head_size(layout, 2), head_size(layout, 3)
    (8, 0)
    """
    match layout.shapes[max(0, layout.n_parameters - 2) : layout.n_parameters]:
        case ((rows, n_features), (biases,)) if rows == biases == n_classes:
            return n_classes * (n_features + 1)
        case _:
            return 0
