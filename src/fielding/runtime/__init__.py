"""All that happens where data are, for N clients at a time: observe, train, probe, test, serve.

A device is a fleet of one. The simulator runs this for all its clients with a clock beside it, a Flower device for
one client with a disk. ``runtime.py`` first; ``store.py`` is where samples lie. Code of the user's own imports the
types that pass through it from here.
"""

from fielding.runtime.own_code import DeviceNode, Embedded, Fitted, Job, Samples, Scored, Tensors

__all__ = ["DeviceNode", "Embedded", "Fitted", "Job", "Samples", "Scored", "Tensors"]
