"""A federation on this machine: certificates, keys, a SuperLink and SuperNodes, all stopped at the end."""
