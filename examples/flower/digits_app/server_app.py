"""What runs beside the SuperLink: Fielding's server, as the run config in pyproject.toml says."""

from fielding.flower.server_app import server_app

app = server_app()
