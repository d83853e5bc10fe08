"""The version of the package, read by the build and by `fielding --version`."""

__version__ = "0.1.0.dev0"
