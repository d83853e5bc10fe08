"""The config of a run: every key declared once, and every part that it can name, found without importing it.

Reading order: ``keys`` (every key with its default, its rule and a line of help), ``parts`` (every part that a key can
name, and where it is), ``reader`` (from a file to a :class:`~fielding.config.keys.Config`), ``presets``.
"""
