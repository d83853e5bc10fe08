"""Methods, one file each: who is in which cluster, and which model serves whom. They know no driver.

To write one, make a class with the verbs of :class:`Method` whose constructor takes a :class:`MethodSetting` and, by
keyword, its options; all that it needs is here. Give the class to :func:`fielding.run` or :func:`fielding.compare`, or
name it in a config as ``my_module:MyMethod``. One that comes with Fielding is described beside its class as a
:class:`MethodKind`, which is named in ``fielding.config.parts``.
"""

from fielding._typing import ClientId, Counts, Json, Mask, Matrix, Membership, Models, Vector
from fielding.client.report import ReportBatch
from fielding.errors import OptionError
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays, ClusterModels
from fielding.federation.models import mean_model, mix_models
from fielding.methods.kinds import (
    METHODS,
    MethodKind,
    ReportsFrom,
    kind_named,
    method_named,
    method_options,
    plain_name,
)
from fielding.methods.method import (
    Method,
    MethodSetting,
    Parts,
    client_index,
    plan_by_cluster,
    plan_training,
    positions_of,
    select_participants,
)
from fielding.rng import stream

__all__ = [
    "METHODS",
    "Arrays",
    "ClientId",
    "Clients",
    "ClusterModels",
    "Counts",
    "Json",
    "Mask",
    "Matrix",
    "Membership",
    "Method",
    "MethodKind",
    "MethodSetting",
    "Models",
    "OptionError",
    "Parts",
    "ReportBatch",
    "ReportsFrom",
    "TrainingPlan",
    "Updates",
    "Vector",
    "client_index",
    "kind_named",
    "mean_model",
    "method_named",
    "method_options",
    "mix_models",
    "plain_name",
    "plan_by_cluster",
    "plan_training",
    "positions_of",
    "select_participants",
    "stream",
]
