"""Real federations on Flower: the same engine, with clients that are reached through a SuperLink.

On a device: :func:`~fielding.flower.client_side.client_app` around the user's own code, which
:class:`~fielding.flower.device.Device` gives a window, a drift test and reports. On the server:
:mod:`~fielding.flower.exchange` (one push per round), :mod:`~fielding.flower.roster` (who is who).
"""

from fielding.flower.client_side import client_app
from fielding.flower.samples import DeviceNode, Fitted, Job, Samples, Scored

__all__ = ["DeviceNode", "Fitted", "Job", "Samples", "Scored", "client_app"]
