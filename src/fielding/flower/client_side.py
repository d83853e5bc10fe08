"""What a client app imports: the app around one's own code."""

from fielding.flower.device.client_app import client_app

__all__ = ["client_app"]
