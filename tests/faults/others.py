"""Commands for the injector that end by themselves where the real ones do not: ``watch``, and a device of Flower.

- **watch**: the live page of a run is asked for all that it has, twice. What fails the first time is told as an answer;
  the second time, undisturbed, everything is there.
- **device**: the orders that one device of a deployment got, answered one after the other, each by a new
  :class:`~fielding.flower.device.device.Device`. The server is another machine: which answers it has is kept beside
  the folder that is disturbed, and an order without an answer comes again.
"""

import asyncio
import ctypes
import json
import os
import sys
from hashlib import blake2b
from pathlib import Path
from urllib.parse import urlencode

import httpx
import numpy as np

from fielding.client.privacy.ledger import LEDGER, read_ledger
from fielding.errors import FieldingError
from fielding.flower import served
from fielding.flower.device.state import STATE, folder_of
from fielding.flower.wire.messages import reply_records
from fielding.flower.wire.orders import Order
from fielding.records.container import read_contents
from fielding.watch.application import application
from fielding.watch.live_page import READ_ANEW_S, LivePage
from tests.flower.device_wire import FIRST_ADDRESS, Deployed, deployed_config, devices_of
from tests.simulation.run_cases import Table, table

CLIENT = 3
EPSILON = 4


def watch(folder: Path) -> int:
    """Ask a live page twice; write what it said the second time to standard output."""
    now = 0.0
    app = application(LivePage([folder / "out"], clock=lambda: now))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)

    async def ask() -> list[tuple[int, str]]:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as browser:
            got = [await browser.get("/record")]
            names = got[0].json()["runs"] if got[0].status_code == 200 else []
            for run in names:
                got.append(await browser.get(f"/clients?{urlencode({'run': run})}"))
                got.append(await browser.get(f"/client?{urlencode({'run': run, 'id': CLIENT})}"))
            return [(one.status_code, one.text) for one in got]

    first = asyncio.run(ask())
    ctypes.CDLL(None).fault_arm(os.fsencode(folder), 0, 0, b"")  # from now on nothing fails, or is counted
    now += READ_ANEW_S
    second = asyncio.run(ask())
    if wrong := [one for one in first if one[0] not in (200, 404)]:
        sys.stderr.write(f"it answered {wrong}\n")
        return 3
    (folder / "answers").write_text(json.dumps(second))
    return 0


# ---- a device ------------------------------------------------------------------------------------------------------


class DeviceScript:
    """What one device of a deployment was asked, and a command that does it again."""

    def __init__(self, folder: Path, *, is_private: bool) -> None:
        few: Table = {"trace": {"clients": 5}, "training": {"participants": 4}, "evaluation": {"every": 2}}
        config: Table = {**table(rounds=7, **few), "coordinator": {}}
        if is_private:
            config["privacy"] = {"mode": "record", "epsilon": EPSILON, "reports_per_window": 2}
        else:
            config["preset"] = "auto"
        deployed = Deployed(deployed_config(config), folder, on_model=_take)
        deployed.run()
        self._simulation, self._is_private = deployed.simulation, is_private
        self._address = FIRST_ADDRESS + deployed.simulation.clients.windows.n_clients - CLIENT
        pushes = deployed.wire.pushes
        self._orders: list[Order] = [order for push in pushes for at, order in push if at == self._address]

    def __call__(self, folder: Path) -> int:
        """Answer the orders that are open."""
        desk = desk_of(folder)
        replies: list[list[str]] = json.loads(desk.read_text()) if desk.exists() else []
        for order in self._orders[len(replies) :]:
            try:
                reply = devices_of(self._simulation, folder, _take)[self._address].answer(order)
            except FieldingError as error:
                sys.stderr.write(f"error: {error}\n")
                return 1
            sent = {
                name: {key: getattr(value, "data", value) for key, value in record.items()}
                for name, record in reply_records(reply).items()
            }
            report = sent.get("report", {})
            told = repr(report.get("tally", report.get("representation", b"")))
            replies.append([type(reply).__name__, blake2b(repr(sent).encode(), digest_size=8).hexdigest(), told])
            desk.write_text(json.dumps(replies))
        return 0

    def results(self, folder: Path) -> dict[str, bytes]:
        """Return what must be equal at the end: answers, samples, and what the device predicts."""
        replies = json.loads(desk_of(folder).read_text())
        if self._is_private:  # a report that was on its way when the device died is spent, and not sent
            ledger = read_ledger(next(folder.glob(f"*/*.{LEDGER}")))
            sent = {told for _, _, told in replies} - {repr(b"")}
            return {
                "all reports have their line": b"%d" % (len(sent) <= len(ledger.spendings)),
                "the budget lasts": b"%d" % (max(ledger.most_spent().values()) <= EPSILON),
            }
        own = folder / f"device-{CLIENT}"
        x = np.linspace(0, 1, 640, dtype=np.float32).reshape(10, 8, 8)
        return {
            "replies": json.dumps(replies).encode(),
            "predictions": served(own).predict(x, proba=True).tobytes(),
            "state": (folder_of(own, self._orders[0].run_id) / STATE).read_bytes(),
        }

    def newest(self, folder: Path) -> int:
        """Return the round of the device's newest samples; -1 without any."""
        path = folder_of(folder / f"device-{CLIENT}", self._orders[0].run_id) / STATE
        return int(str(read_contents(path).values["round"])) if path.exists() else -1


def desk_of(folder: Path) -> Path:
    """Return the file of the answers that the server has."""
    return folder.with_suffix(".server")


def _take(_model: object, _info: object) -> None:
    """Take a model that is delivered."""
