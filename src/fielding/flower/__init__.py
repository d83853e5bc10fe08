"""Real federations on Flower: the same engine, with clients that are reached through a SuperLink.

On a device: :func:`~fielding.flower.client_side.client_app` around the user's own code, which
:class:`~fielding.flower.device.Device` gives a window, a drift test and reports. On the server:
:func:`~fielding.flower.server_app.server_app` around :mod:`~fielding.flower.clients` (the driver),
:mod:`~fielding.flower.exchange` (one push per round) and :mod:`~fielding.flower.roster` (who is who). To try both:
:class:`~fielding.flower.local_federation.LocalFederation`.
"""

from fielding.flower.client_side import client_app
from fielding.flower.samples import DeviceNode, Fitted, Job, Samples, Scored

__all__ = ["DeviceNode", "Fitted", "Job", "Samples", "Scored", "client_app"]
