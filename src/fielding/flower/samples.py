"""What a client app imports: the types that pass between Fielding and one's own code."""

from fielding.runtime.own_code import DeviceNode, Embedded, Fitted, Job, Samples, Scored, Tensors

__all__ = ["DeviceNode", "Embedded", "Fitted", "Job", "Samples", "Scored", "Tensors"]
