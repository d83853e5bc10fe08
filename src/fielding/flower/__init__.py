"""Real federations on Flower: the same engine, with clients that are reached through a SuperLink.

``device/`` is what runs on a node: ``client_app`` around the user's own code, and ``Device``, which answers orders.
``server/`` is what runs beside the SuperLink: ``server_app``, the engine's clients, one push per round. ``wire/`` is
what travels between them, ``deploy/`` a federation of both on this machine. Apps import ``client_side``, ``samples``
and ``server_app``.
"""

from fielding.flower.device.client_app import client_app
from fielding.flower.device.delivered import ModelInfo
from fielding.flower.device.offline import ServedModel, served
from fielding.runtime.own_code import DeviceNode, Fitted, Job, Samples, Scored

__all__ = ["DeviceNode", "Fitted", "Job", "ModelInfo", "Samples", "Scored", "ServedModel", "client_app", "served"]
