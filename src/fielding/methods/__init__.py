"""Methods, one file each: who is in which cluster, and which model serves whom. They know no driver.

To add one, write a class with the verbs of :class:`~fielding.methods.method.Method` whose constructor takes a
:class:`~fielding.methods.method.MethodSetting` and, by keyword, its options; name it in ``METHODS``, or leave it where
it is and name it in the config as ``my_module:MyMethod``.
"""

from fielding.methods.fielding import Fielding
from fielding.methods.global_model import GlobalModel
from fielding.methods.kinds import Hears, MethodKind, kind_named, method_named, method_options
from fielding.methods.method import Method, MethodSetting, Parts
from fielding.methods.registry import METHODS

__all__ = [
    "METHODS",
    "Fielding",
    "GlobalModel",
    "Hears",
    "Method",
    "MethodKind",
    "MethodSetting",
    "Parts",
    "kind_named",
    "method_named",
    "method_options",
]
