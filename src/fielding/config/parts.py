"""Every part that a config can name, and where it is; a part is imported when it is asked for, not before.

To add a part, write it as its family asks (``fielding.methods``, ``fielding.federation.selection``, ...) and name it
here. A method, a selection, an aggregation or a function of the user's own is named in the config as ``module:name``
and needs no line here.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from difflib import get_close_matches
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, TypeVar

from fielding._typing import Json
from fielding.config.options import check_options, options_of
from fielding.errors import FieldingError, OptionError, echo, error_place, error_words, unknown_name

Part = TypeVar("Part")

METHOD_ALIASES = {"fedavg": "global"}  # methods that are known by another name as well
BY_KIND = "by-kind"  # the drift test of auto, which tells label, covariate and concept drift apart

PLACES: dict[str, dict[str, Any]] = {
    "method": {
        "fielding": "fielding.methods.fielding:KIND",
        "global": "fielding.methods.global_model:GLOBAL",
        "static": "fielding.methods.variants:STATIC",
        "moves": "fielding.methods.variants:MOVES",
        "always": "fielding.methods.variants:ALWAYS",
        "selected": "fielding.methods.variants:SELECTED",
        "clustered-sgd": "fielding.methods.variants:CLUSTERED_SGD",
        "local": "fielding.methods.local:KIND",
        "oracle": "fielding.methods.oracle:KIND",
        "flash": "fielding.methods.global_model:FLASH",
        "ifca": "fielding.methods.ifca:KIND",
        "feddrift": "fielding.methods.feddrift:FEDDRIFT",
        "feddrift-eager": "fielding.methods.feddrift:FEDDRIFT_EAGER",
        "auxo": "fielding.methods.auxo:KIND",
        "fedac": "fielding.methods.fedac:KIND",
        "flexcfl": "fielding.methods.flexcfl:KIND",
        "cfl": "fielding.methods.cfl:KIND",
    },
    "representation": {
        "label": "fielding.client.representation.label:LabelShares",
        "label-smoothed": "fielding.client.representation.label:SmoothedLabelShares",
        "label-sqrt": "fielding.client.representation.label:RootLabelShares",
        "embedding": "fielding.client.representation.embedding:Embedding",
        "residual-embedding": "fielding.client.representation.embedding:ResidualEmbedding",
        "class-means": "fielding.client.representation.embedding:ClassMeans",
        "confusion": "fielding.client.representation.confusion:Confusion",
        "soft-confusion": "fielding.client.representation.confusion:SoftConfusion",
        "predictions": "fielding.client.representation.confusion:Predictions",
        "gradient": "fielding.client.representation.gradient:Gradient",
        "head-gradient": "fielding.client.representation.gradient:HeadGradient",
        "class-directions": "fielding.client.representation.gradient:ClassDirections",
        "loss": "fielding.client.representation.loss:Loss",
    },
    "drift test": {
        "always": "fielding.client.drift.label_tests:AlwaysReport",
        "any-change": "fielding.client.drift.label_tests:AnyChange",
        "chi2": "fielding.client.drift.label_tests:Chi2",
        "flexcfl-original": "fielding.client.drift.label_tests:FlexcflOriginal",
        "never": "fielding.client.drift.label_tests:NeverReport",
        "periodic": "fielding.client.drift.label_tests:Periodic",
        "threshold": "fielding.client.drift.label_tests:Threshold",
    },
    "sample test": {
        "adwin": "fielding.client.drift.river_tests:Adwin",
        "bbsd": "fielding.client.drift.predictions:Bbsd",
        "class-shift": "fielding.client.drift.two_sample:ClassShift",
        "confusion": "fielding.client.drift.predictions:ConfusionTest",
        "error-rate": "fielding.client.drift.predictions:ErrorRate",
        "hddm": "fielding.client.drift.river_tests:Hddm",
        "joint": "fielding.client.drift.sample_tests:Joint",
        "ks": "fielding.client.drift.two_sample:Ks",
        "kswin": "fielding.client.drift.river_tests:Kswin",
        "mmd": "fielding.client.drift.two_sample:Mmd",
        "page-hinkley": "fielding.client.drift.river_tests:PageHinkley",
    },
    "sample rule": {"samples": "fielding.client.drift.detectors:SampleDetector"},
    "test by kind": {BY_KIND: "fielding.client.drift.detectors:KindDetector"},
    "expert": {
        "served": "fielding.serving.experts:served",
        "corrected": "fielding.serving.experts:corrected",
        "common": "fielding.serving.experts:common",
        "heads": "fielding.serving.experts:heads",
        "residual": "fielding.serving.experts:residual",
        "local": "fielding.serving.experts:local",
    },
    "trigger": {
        "center-shift": "fielding.coordinator.trigger:CenterShift",
        "learned-tau": "fielding.coordinator.trigger:LearnedTau",
        "pairwise": "fielding.coordinator.trigger:Pairwise",
        "always": "fielding.coordinator.trigger:Always",
        "never": "fielding.coordinator.trigger:Never",
    },
    "partitioner": {
        "kmeans": "fielding.coordinator.clustering.kmeans:KMeans",
        "k-center": "fielding.coordinator.clustering.kcenter:KCenter",
    },
    "inheritance": {
        "average": "fielding.coordinator.warm_start:by_average",
        "majority": "fielding.coordinator.warm_start:by_majority",
        "nearest": "fielding.coordinator.warm_start:by_nearest",
    },
    "selection": {
        "uniform": "fielding.federation.selection.selector:Uniform",
        "oort": "fielding.federation.selection.oort:Oort",
        "nearest": "fielding.federation.selection.nearest:Nearest",
        "pyramidfl": "fielding.federation.selection.pyramidfl:PyramidFL",
    },
    "aggregation": {
        "mean": "fielding.federation.aggregation.aggregator:Mean",
        "fedavgm": "fielding.federation.aggregation.aggregator:FedAvgM",
        "fedadagrad": "fielding.federation.aggregation.adaptive:FEDADAGRAD",
        "fedadam": "fielding.federation.aggregation.adaptive:FEDADAM",
        "fedyogi": "fielding.federation.aggregation.adaptive:FEDYOGI",
        "flash": "fielding.federation.aggregation.flash:Flash",
        "wiener": "fielding.federation.aggregation.wiener:Wiener",
        "q-fedavg": "fielding.federation.aggregation.fair:QFedAvg",
        "median": "fielding.federation.aggregation.robust:Median",
        "trimmed-mean": "fielding.federation.aggregation.robust:TrimmedMean",
        "multi-krum": "fielding.federation.aggregation.robust:MultiKrum",
    },
    "pace": {
        "steady": "fielding.federation.pace.pace:Steady",
        "adaptive": "fielding.federation.pace.adaptive_rate:AdaptiveRate",
        "master-fl": "fielding.federation.pace.restarts:Restarts",
    },
    "scenario": {
        "concept-swap": "fielding.traces.scenarios.concept_swap:ConceptSwap",
        "covariate": "fielding.traces.scenarios.covariate:Covariate",
        "dirichlet": "fielding.traces.scenarios.dirichlet:Dirichlet",
        "label-buckets": "fielding.traces.scenarios.label_buckets:LabelBuckets",
        "mixed": "fielding.traces.scenarios.mixed:Mixed",
        "new-label": "fielding.traces.scenarios.new_label:NewLabel",
        "places": "fielding.traces.scenarios.places:Places",
        "recurring": "fielding.traces.scenarios.dirichlet:Recurring",
        "static": "fielding.traces.scenarios.static:Static",
    },
    # Those that anyone can have first, then the paper's.
    "data set": {
        "digits": "fielding.traces.catalog.digits:ENTRY",
        "fashion_mnist": "fielding.traces.catalog.public:FASHION_MNIST",
        "cifar100": "fielding.traces.catalog.public:CIFAR100",
        "extrasensory": "fielding.traces.catalog.public:EXTRASENSORY",
        "zephyr": "fielding.traces.catalog.public:ZEPHYR",
        "fmow": "fielding.traces.catalog.fmow:ENTRY",
        "cityscapes": "fielding.traces.catalog.cityscapes:ENTRY",
        "waymo": "fielding.traces.catalog.waymo:ENTRY",
        "open_images": "fielding.traces.catalog.open_images:ENTRY",
    },
}
"""By family and name: ``module:attribute``, or the part itself once it was asked for or added by the user."""

_HIDDEN: dict[str, tuple[str, ...]] = {
    "method": ("setting",),
    "sample rule": ("test", "needs_errors"),
    "aggregation": ("rule",),
    "pace": ("seed",),
}
"""By family: what its parts take but no config sets."""
_PLAIN = (bool, int, float, str, tuple, type(None))
"""Values of options; another default is a part that this one builds on, whose options are its own."""

TRAINERS = ("numpy", "torch")
LAYOUTS = ("class/image", "client/class/image")
"""How a folder of images may be laid out: a folder per class, or one per client with a folder per class in it."""
CORRECTIONS = ("none", "prior", "predicted")
"""Where a client's label mix is taken from: nowhere, from its labels, or from what the model predicts (EM)."""


class Family(MutableMapping[str, Part]):
    """The parts of one family by name; each is imported when it is looked up. ``name``: a key of ``PLACES``.

    Examples
    --------
    >>> Family("pace")["steady"]()
    Steady()
    >>> list(Family("inheritance"))
    ['average', 'majority', 'nearest']
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._places = PLACES[name]

    def __getitem__(self, name: str) -> Part:
        place = self._places[name]
        if isinstance(place, str):
            module, _, attribute = place.partition(":")
            place = self._places[name] = getattr(import_module(module), attribute)
        found: Part = place
        return found

    def __setitem__(self, name: str, part: Part) -> None:
        self._places[name] = part

    def __delitem__(self, name: str) -> None:
        del self._places[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places  # the default would import the part

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def options(self, name: str) -> dict[str, Json]:
        """Return the options of a part with their defaults; those of a part that it builds on stand among them.

        Examples
        --------
        >>> Family("pace").options("master-fl")
        {'longest': 64, 'errors': 2.0, 'reset_model': False}
        """
        return {option: one.default for option, one in self.parameters(name).items()}

    def parameters(self, name: str) -> dict[str, Parameter]:
        """Return the options of a part as its constructor declares them."""
        found: dict[str, Parameter] = {}
        for option, one in signature(self.builder(name)).parameters.items():
            if not isinstance(one.default, _PLAIN) and one.default is not Parameter.empty:
                found |= signature(type(one.default)).parameters
            elif option not in _HIDDEN.get(self.name, ()):
                found[option] = one
        return found

    def make(self, name: str, options: Mapping[str, Json] | None = None, **given: Any) -> Any:
        """Return a part, made with its options.

        ``options``: what differs from :meth:`options`. ``given``: what no config says (the seed of the run); for parts
        that take it. OptionError if a name is unknown, or a value is not allowed; the message names the nearest known
        one.

        Examples
        --------
        >>> Family("pace").make("master-fl", {"longest": 32}, seed=7)
        Restarts(longest=32, errors=2.0, reset_model=False, seed=7)
        """
        values: dict[str, Any] = dict(options or {})
        check_options(f"{self.name} {name!r}", values, self.options(name))
        build = self.builder(name)
        for option, one in signature(build).parameters.items():
            if option in given:
                values[option] = given[option]
            elif one.default is not Parameter.empty and not isinstance(one.default, _PLAIN):
                inner: Any = type(one.default)
                values[option] = inner(**{name: values.pop(name) for name in options_of(inner) if name in values})
        return make_own(build, **values)

    def builder(self, name: str) -> Callable[..., Any]:
        """Return what makes a part: its class, a function, or the ``build`` of a description of it."""
        if name not in self and ":" in name:
            return imported_function(name, key=f"{self.name}.name", known=self)
        if name not in self:
            raise unknown_name(self.name, name, self)
        part: Any = self[name]
        found: Callable[..., Any] = part.build if self.name == "method" else part
        return found


OWN = "own"
"""Stands for the module in names of parts that a Python program brought along and that cannot be imported."""
_own_parts: dict[str, Callable[..., object]] = {}


def own_name(part: Callable[..., object], name: str | None = None) -> str:
    """Return the text that names a function or a class of the user's own in configs, and remember what it stands for.

    What can be imported is named ``module:function``, as in a config file. All else (what a notebook or a function
    defines, a partial, an object that can be called) is named ``own:NAME``, which only this program knows, and the
    processes that it starts; what had the name before is forgotten. ``name``: what it is called then, in place of the
    name that it was defined with.

    Examples
    --------
    >>> own_name(own_name), own_name(lambda: None)
    ('fielding.config.parts:own_name', 'own:lambda')
    """
    plain = getattr(part, "func", part)  # of a partial
    defined = str(getattr(plain, "__qualname__", type(plain).__qualname__))
    module = str(getattr(part, "__module__", "__main__"))
    if module != "__main__" and getattr(sys.modules.get(module), defined, None) is part:
        return f"{module}:{defined}"
    text = f"{OWN}:{name or defined.rpartition('.')[2].strip('<>')}"
    _own_parts[text] = part
    return text


def own_parts(names: Iterable[str]) -> dict[str, Callable[..., object]]:
    """Return those of some texts that name parts which cannot be imported, with the parts."""
    return {name: _own_parts[name] for name in names if name in _own_parts}


def remember_own(parts: Mapping[str, Callable[..., object]]) -> None:
    """Know parts by their names, as the process does that sent them."""
    _own_parts.update(parts)


def named_parts(value: Any, name: str | None = None) -> Any:
    """Return a table with names in place of the functions and classes in it; the table itself stays as it is.

    ``name``: what a function without a name of its own is called.

    Examples
    --------
    >>> named_parts({"model": {"factory": own_name}, "rounds": 3})
    {'model': {'factory': 'fielding.config.parts:own_name'}, 'rounds': 3}
    """
    if isinstance(value, Mapping):
        return {key: named_parts(one, str(key)) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [named_parts(one) for one in value]
    is_nameless = getattr(value, "__name__", "") == "<lambda>"
    return own_name(value, name if is_nameless else None) if callable(value) else value


def imported_function(path: str, *, key: str, known: Iterable[str] = ()) -> Callable[..., object]:
    """Return the function that a text names.

    ``path``: ``"module:function"``. OptionError if the module cannot be imported or has no such function.
    """
    if path in _own_parts:
        return _own_parts[path]
    module_name, _, function_name = path.partition(":")
    if module_name == OWN and function_name:
        raise OptionError(f"{key} is {echo(path)}, which a Python program brought along; go on from that program")
    if not module_name or not function_name:
        own = "a function of your own is written module:function"
        if not known:
            raise OptionError(f"{key} is {echo(path)}; {own}")
        raise OptionError(f"{key}: {unknown_name(key.rpartition('.')[2], path, known)}; {own}")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise OptionError(
            f"{key} is {echo(path)}, but there is no module {echo(error.name)}; start in its folder or name that "
            "folder in PYTHONPATH"
        ) from error
    except Exception as error:  # whatever the user's module does when it is imported
        words = " ".join(str(error).split()) or type(error).__name__
        raise OptionError(f"{key} is {echo(path)}, but module {module_name} fails at import: {words}") from error
    if not hasattr(module, function_name):
        there = [name for name, one in vars(module).items() if callable(one) and not name.startswith("_")]
        near = get_close_matches(function_name, there, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise OptionError(f"{key} is {echo(path)}, but module {module_name} has no {echo(function_name)}{hint}")
    function = getattr(module, function_name)
    if not callable(function):
        raise OptionError(f"{key} is {echo(path)}, which is {echo(function)}; name a function or a class")
    found: Callable[..., object] = function
    return found


def make_own(build: Callable[..., Any], *given: object, **options: Any) -> Any:
    """Return what the user's own class or function makes; OptionError with its words and its place if it refuses.

    What comes with Fielding refuses by an OptionError itself.
    """
    try:
        return build(*given, **options)
    except (TypeError, ValueError) as error:
        if isinstance(error, FieldingError) or str(getattr(build, "__module__", "")).startswith("fielding."):
            raise
        words = str(error) if type(error) is ValueError and str(error) else error_words(error)
        place = error_place(error)
        raise OptionError(f"{words}{f' ({place})' if place else ''}") from error


def check_members(part: object, protocol: type, name: str) -> None:
    """Raise unless a part of the user's own has all that its protocol asks for.

    Examples
    --------
    >>> from fielding.federation.aggregation import Aggregator
    >>> check_members(object(), Aggregator, "mine:Mode")
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: mine:Mode has no combine, memory, needs_start_loss
    """
    wanted = [one for one in vars(protocol) if not one.startswith("_")]
    if missing := sorted(one for one in wanted if not hasattr(part, one)):
        raise OptionError(f"{name} has no {', '.join(missing)}")
