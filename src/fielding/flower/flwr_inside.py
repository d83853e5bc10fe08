"""All that Fielding takes for granted of Flower beyond its documented interface, in one place.

Flower documents no other way to these facts, or one that starts a process for each question. A test looks for each of
them in the release that is installed (``tests/flower/test_flwr_inside.py``), and says which one is gone.
"""

import re

from fielding.federation.clients import Reason

REASONS: dict[int, Reason] = {3: "straggler", 4: "straggler", 5: "offline"}
"""Codes of error replies: message or reply outlived, node gone; with all others the client's own code failed."""
ENDLESS_S = 1e299
"""Nodes of Flower's simulation give no sign of life for longer than this, and have no keys."""
RAISED_BY_CLIENT = re.compile(r"<class '(?:\w+\.)*(\w+)'>:<'(.*)'>", re.DOTALL)
"""How an error reply tells of an exception in a client's own code: its class, perhaps of a module, and its message."""
RAISED_BY_SERVER = "ServerApp failed with exception:"  # how the details of a failed run begin if its app raised
NO_DETAILS = "N/A"
RUN_ENDED = "finished:"  # how the status of a run that ended begins
NODE_ONLINE = "SuperNode ID:"  # in the log of a SuperNode: its SuperLink has accepted it
NODE_REFUSED = "Failed to activate SuperNode"  # the same: its key is not known, or a twin is there
KEY_KNOWN = "already in use"  # of `flwr supernode register`, in any case: it was registered before
PORT_TAKEN = "address already in use"  # in the log of a server, in any case
HEALTH = "/health"  # what a SuperLink answers as soon as it is up
