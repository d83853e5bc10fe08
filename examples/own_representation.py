"""A representation of one's own: clients are grouped by what a function makes of their windows.

Here inputs differ and labels do not: every place turns its images, so label histograms are all alike, while mean images
tell the places apart. A config can name such a function, too: representation = "my_module:mean_image".
"""

import numpy as np
import numpy.typing as npt

from fielding import Own, run

Floats = npt.NDArray[np.float32]


def mean_image(x: Floats, y: npt.NDArray[np.int64], n_classes: int) -> Floats:
    """Return the mean image of every class, one after the other; zeros for a class that the window does not hold."""
    means = np.zeros((n_classes, x[0].size), dtype=np.float32)
    for label in np.unique(y):
        means[label] = x[y == label].reshape(-1, x[0].size).mean(axis=0)
    return means.ravel()


def main() -> None:
    """Compare groups by mean images with groups by labels, where only the look of the images drifts."""
    config = {
        "rounds": 60,
        "trace": {"scenario": "covariate", "clients": 40, "samples": 80, "gap": 20, "window": 20},
        "coordinator": {"metric": "l2", "detector": "any-change"},
    }
    by_labels = run({**config, "coordinator": {"metric": "l1", "detector": "any-change"}})
    by_images = run(config, own=Own(represent=mean_image))
    for name, result in (("label histograms", by_labels), ("mean images", by_images)):
        summary = result.summary or {}
        print(f"{name}: accuracy {summary['final_accuracy']:.3f}, agreement with the places {summary['final_ari']:.2f}")


if __name__ == "__main__":
    main()
