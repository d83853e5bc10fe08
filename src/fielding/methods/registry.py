"""Every method that configs can name."""

from fielding.client.drift import Never
from fielding.methods.auxo import Auxo
from fielding.methods.cfl import CFL
from fielding.methods.fedac import FedAC
from fielding.methods.feddrift import FedDrift, FedDriftEager, feddrift_hears
from fielding.methods.fielding import Fielding
from fielding.methods.flexcfl import FlexCFL, flexcfl_detector, flexcfl_hears
from fielding.methods.global_model import GlobalModel, flash
from fielding.methods.ifca import Ifca, ifca_hears
from fielding.methods.kinds import MethodKind
from fielding.methods.local import Local
from fielding.methods.oracle import Oracle
from fielding.methods.variants import ClusteredSGD, SelectedReports, StaticClusters, always, moves

METHODS: dict[str, MethodKind] = {
    "fielding": MethodKind(
        summary="one model per cluster; drifted clients move, and all are grouped anew when a center moved too far",
        sends="a representation of the window, when it drifted",
        hears="drifted",
        build=Fielding,
    ),
    "global": MethodKind(
        summary="one model for everybody: federated averaging",
        sends="nothing",
        build=GlobalModel,
    ),
    "static": MethodKind(
        summary="the clusters of the start stay as they are; who comes later joins the nearest, once",
        sends="a representation of the window, once",
        hears="first",
        detector=lambda _options: Never(),
        build=StaticClusters,
    ),
    "moves": MethodKind(
        summary="fielding that moves drifted clients one by one and never groups everyone anew",
        sends="a representation of the window, when it drifted",
        hears="drifted",
        build=moves,
    ),
    "always": MethodKind(
        summary="fielding that groups everyone anew whenever somebody reports",
        sends="a representation of the window, when it drifted",
        hears="drifted",
        build=always,
    ),
    "selected": MethodKind(
        summary="fielding that hears of drift from participants of the round alone, after they trained",
        sends="a representation of the window with the model, of drifted participants",
        hears="participants",
        build=SelectedReports,
    ),
    "clustered-sgd": MethodKind(
        summary="the convergence theorem's method: k-center when two of a cluster are too far apart, single steps",
        sends="a representation of the window, when it drifted",
        hears="drifted",
        build=ClusteredSGD,
    ),
    "local": MethodKind(
        summary="every client trains a model of its own, all in every round: the floor",
        sends="nothing, not even models",
        build=Local,
    ),
    "oracle": MethodKind(
        summary="one model per true concept, for scenarios that know it: the ceiling",
        sends="nothing",
        build=Oracle,
    ),
    "flash": MethodKind(
        summary="one model for everybody, whose server takes longer steps after drift (Flash)",
        sends="nothing",
        build=flash,
    ),
    "ifca": MethodKind(
        summary="k models; every participant gets all of them and trains the one that fits its data best (IFCA)",
        sends="which model it chose; receives all k models",
        hears=ifca_hears,
        build=Ifca,
    ),
    "feddrift": MethodKind(
        summary="clients whose accuracy drops open models of their own, and models that agree merge (FedDrift)",
        sends="how well all models serve its new data; receives all models",
        hears=feddrift_hears,
        build=FedDrift,
    ),
    "feddrift-eager": MethodKind(
        summary="clients whose accuracy drops at the same time open one model together (FedDrift-Eager)",
        sends="how well all models serve its new data; receives all models",
        hears=feddrift_hears,
        build=FedDriftEager,
    ),
    "auxo": MethodKind(
        summary="cohorts that split by the updates of their participants; who trains may move, others stay (Auxo)",
        sends="nothing",
        build=Auxo,
    ),
    "fedac": MethodKind(
        summary="FedAC-style (reconstructed): embeddings pulled together, participants join the most similar model",
        sends="the mean embedding, to every participant",
        build=FedAC,
    ),
    "flexcfl": MethodKind(
        summary="groups by the direction of a short pre-training; who drifted pre-trains and joins again (FlexCFL)",
        sends="that it drifted; the initial model down and a pre-trained one up, at the start and after drift",
        hears=flexcfl_hears,
        detector=flexcfl_detector,
        build=FlexCFL,
    ),
    "cfl": MethodKind(
        summary="clusters split where clients pull their model in opposite directions; nobody ever moves (CFL)",
        sends="nothing, but up to 200 clients all train in every round; newcomers train old models to find theirs",
        build=CFL,
    ),
}
"""Every method, by the name that configs use."""
