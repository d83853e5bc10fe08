"""What a device serves, from its files alone: no server, no Flower, nothing is written."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fielding._typing import Json, Matrix
from fielding.client.ranges import joined_ranges
from fielding.errors import InputError, echo
from fielding.flower.device.dataset import OpenDataset, References
from fielding.flower.device.delivered import PREFIX, SHELF, ModelInfo, model_info, read_shelf, versions_in
from fielding.flower.device.device import Device
from fielding.flower.device.own_code import ModelFactory, OwnCode
from fielding.flower.device.rule import rule_from
from fielding.flower.device.sample_files import SampleFiles
from fielding.flower.device.samples import NOTHING, Kept, checked_features
from fielding.flower.device.state import DeviceState, HeldModel, folder_of, read_held, read_state
from fielding.flower.device.store import DeviceStore
from fielding.runtime.own_code import DeviceNode, Embed, Tensors, named_tensors


class ServedModel:
    """The model that a device serves, with what the device knows of its samples now.

    Attributes
    ----------
    model
        Arrays by name, float32.
    info
        What is known of it.
    versions
        Names of the versions that the device keeps, the newest first.
    """

    def __init__(self, held: HeldModel, device: Device, node: DeviceNode, references: References) -> None:
        rule, state = device.rule, read_state(node.folder)
        self._held, self._device, self._rule, self._references = held, device, rule, references
        self._state = state or DeviceState(
            round_index=0, kept=NOTHING, files=SampleFiles(), monitor={}, report=None, n_taken=0
        )
        store = DeviceStore(self._state.kept, self._state.files, rule, first=self._state.first, references=references)
        self.model: Tensors = named_tensors(held.layout, held.model)
        self.info: ModelInfo = model_info(held, node, device.expert_weights(held, store, self._state))
        self.versions = tuple(_version_of(path) for path in versions_in(node.folder))

    def predict(self, x: npt.ArrayLike, *, proba: bool = False) -> npt.NDArray[Any]:
        """Return the class of each sample, or with ``proba`` the shares of all classes, ``(n_samples, n_classes)``.

        As the tests of this device score it: by experts, corrected, or by the model as it is. ``x``: features as
        ``load_data`` gives them, shape ``(n_samples, ...)``.
        """
        features = checked_features(x, len(np.asarray(x)))
        shares = self._shares(features) if len(features) else np.empty((0, self._rule.n_classes))
        return shares if proba else shares.argmax(axis=1)

    def _shares(self, x: npt.NDArray[np.generic]) -> Matrix:
        state, held = self._state, self._held
        n_asked, first = len(x), int(state.kept.places[-1]) + 1 if state.kept.places.size else 0
        if state.kept.y.size and x.shape[1:] != (known := self._store(state.kept, state.files).shape):
            raise InputError(f"samples have shape {x.shape[1:]}; those of this device have {known}")
        # They stand behind the samples that came, but are in no window.
        asked = Kept(
            y=np.zeros(n_asked, dtype=np.int32),
            is_test=np.ones(n_asked, dtype=np.bool_),
            rounds=np.full(n_asked, state.first - 1),
            places=first + np.arange(n_asked),
            file=np.full(n_asked, len(state.files.arrays)),
            row=np.arange(n_asked),
            key=np.zeros(n_asked, dtype="S1"),
            target=np.full(n_asked, np.nan),
            moment=np.full(n_asked, state.first - 1),
        )
        store = self._store(state.kept.join(asked), state.files.beside(x))
        runtime = self._device.runtime(held.layout, held.work, store, seed=0, state=state, served=held.served)
        row = np.zeros(1, dtype=np.int64)
        models, row = (held.model[np.newaxis], row) if held.served is None else held.served.models(held.model)
        return runtime.shares(models, row, joined_ranges([asked.places]))

    def _store(self, kept: Kept, files: SampleFiles) -> DeviceStore:
        return DeviceStore(kept, files, self._rule, first=self._state.first, references=self._references)


def served(
    folder: str | Path,
    *,
    version: str | None = None,
    run: str | None = None,
    model: ModelFactory | None = None,
    embed: Embed | None = None,
    dataset: OpenDataset | None = None,
    config: Mapping[str, Json] | None = None,
) -> ServedModel:
    """Return what a device serves, by the files in its folder: it needs no server, and no Flower.

    Parameters
    ----------
    folder
        ``state-dir`` of the device, or its folder for a run (``info.node.folder``).
    version
        One that the device keeps, in place of the one that serves.
    run
        The id of a run (``info.run``), where the device takes part in several; the one that was served last by default.
    model, embed, dataset
        Those of ``client_app``, if it has them. A model that the app's own ``train`` made is arrays alone: it predicts
        if there is an ``embed``.
    config
        What ``dataset`` finds in ``node.config``.

    Raises
    ------
    InputError
        If no model was delivered there so far, or not this version.
    """
    home = _run_folder(Path(folder).expanduser(), run)
    name = read_shelf(home).serving
    if version is not None:
        names = [path.name for path in versions_in(home) if _version_of(path) == version]
        if not names:
            known = ", ".join(_version_of(path) for path in versions_in(home)) or "none"
            raise InputError(f"there is no version {echo(version)} in {home}; there are {known}")
        name = names[0]
    held = read_held(home, name) if name else None
    if held is None:
        raise InputError(f"no model serves in {home} so far; one is delivered if client_app has on_model")
    node = DeviceNode(partition=None, config=dict(config or {}), folder=home)
    own = OwnCode(load_data=_no_data, dataset=dataset, model=model, embed=embed)
    if held.about.get("own") is True:
        own = replace(own, train=_not_here, evaluate=_not_here)
    observe = held.about.get("observe")
    rule = rule_from(observe if isinstance(observe, dict) else {})
    return ServedModel(held, Device(node, rule, own), node, References(dataset, node))


def _run_folder(folder: Path, run: str | None) -> Path:
    """Return the folder of a run on a device: the one that is named, or in which a model was served last."""
    found = [path.parent for path in (folder / SHELF, *folder.glob(f"*/{SHELF}")) if path.exists()]
    if run is not None:
        found = [one for one in found if one in (folder, folder_of(folder, run))]
    if not found:
        raise InputError(
            f"no model was delivered to {folder} so far; name the state-dir of a device whose client_app has on_model"
        )
    return max(found, key=lambda one: (one / SHELF).stat().st_mtime_ns)


def _version_of(path: Path) -> str:
    return path.name.removeprefix(PREFIX).rpartition("-")[0]


def _no_data(_node: DeviceNode, _round_index: int) -> None:
    return None


def _not_here(*_arguments: object) -> Any:
    raise InputError("nothing is trained or tested here")
