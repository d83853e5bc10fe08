"""Methods, one file each: who is in which cluster, and which model serves whom. They know no driver.

To add one, write a class with the verbs of :class:`~fielding.methods.method.Method` whose constructor takes a
:class:`~fielding.methods.method.MethodSetting` and, by keyword, its options; describe it beside the class as a
:class:`~fielding.methods.kinds.MethodKind` and name that in ``fielding.config.parts``. Or leave it where it is and name
it in the config as ``my_module:MyMethod``.
"""

from fielding.methods.kinds import (
    METHODS,
    MethodKind,
    ReportsFrom,
    kind_named,
    method_named,
    method_options,
    plain_name,
)
from fielding.methods.method import Method, MethodSetting, Parts

__all__ = [
    "METHODS",
    "Method",
    "MethodKind",
    "MethodSetting",
    "Parts",
    "ReportsFrom",
    "kind_named",
    "method_named",
    "method_options",
    "plain_name",
]
