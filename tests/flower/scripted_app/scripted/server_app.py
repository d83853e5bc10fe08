"""What runs beside the SuperLink: Fielding's server, with a first model of the app's own."""

import numpy as np
import numpy.typing as npt

from fielding.flower.server.server_app import server_app

N_FEATURES, N_CLASSES = 5, 4


def first_model() -> dict[str, npt.NDArray[np.float32]]:
    """Return a linear model that knows nothing."""
    return {"weights": np.zeros((N_FEATURES, N_CLASSES), dtype=np.float32)}


app = server_app(first_model=first_model)
