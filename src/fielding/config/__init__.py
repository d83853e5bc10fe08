"""The config of a run: every key declared once, and every part that it can name, found without importing it.

Reading order: ``keys`` (every key: default, rule, help, what it is used with and by), ``parts`` (every part that a key
can name, and where it is), ``reader`` (from a file to a :class:`~fielding.config.keys.Config`), ``presets``; then
``rules`` (what a declaration means), ``options`` (of parts) and ``schema`` (all of it as a JSON Schema).
"""
