"""What a server app imports."""

from fielding.flower.server.server_app import app, server_app

__all__ = ["app", "server_app"]
