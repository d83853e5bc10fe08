"""Keep a run going: submit an app, wait for its end, and submit it again whenever the server of the run was lost.

    python keep_running.py APP SUPERLINK NOTE [options of flwr run]

APP and SUPERLINK are as for ``flwr run``; give the same ``out`` every time, as ``-c 'out="/absolute/path"'``. NOTE is a
file with the id of the run in hand: a keeper that was killed itself follows that run instead of beginning another.
Ends with 0 when the run is complete, with 1 when the app failed or somebody stopped it; ended by SIGTERM or Ctrl-C it
stops the run. It needs Flower's command line alone.
"""

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

LOOK_S = 10.0
"""Seconds between two looks, and before the next try when the SuperLink does not answer."""
OWN_FAILURE = "ServerApp failed with exception:"


def main() -> int:
    """Keep the run of the command line going."""
    app, link, note, *options = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    noted = Path(note)
    run = noted.read_text() if noted.exists() else ""
    try:
        while True:
            run = run or submitted(app, link, options)
            noted.write_text(run)
            status, details = state_of(run, link)
            if status.startswith("finished:") or status == "unknown":
                print(f"run {run}: {status} {details}".rstrip(), flush=True)
                noted.unlink()
                if status == "finished:completed":
                    return 0
                if status == "finished:stopped" or details.startswith(OWN_FAILURE):
                    return 1
                run = ""
                continue
            time.sleep(LOOK_S)
    except (KeyboardInterrupt, SystemExit):
        if run and flwr("stop", run, link):
            noted.unlink(missing_ok=True)  # the next keeper submits the app again
        raise


def submitted(app: str, link: str, options: list[str]) -> str:
    """Submit the app, as often as it takes until the SuperLink is there, and return the id of the run."""
    while True:
        answer = flwr("run", app, link, *options)
        if answer and "run-id" in answer:
            print(f"run {answer['run-id']}: submitted", flush=True)
            return str(answer["run-id"])
        time.sleep(LOOK_S)


def state_of(run: str, link: str) -> tuple[str, str]:
    """Return the status of a run and its details; a SuperLink that does not answer is waited for."""
    while True:
        answer = flwr("list", link)
        if answer and "runs" in answer:
            found = [one for one in answer["runs"] if one["run-id"] == run]
            return (found[0]["status"], found[0]["status-details"]) if found else ("unknown", "to the SuperLink")
        time.sleep(LOOK_S)


def flwr(*words: str) -> dict[str, Any] | None:
    """Return what Flower's command line answers; None if it fails, which is told."""
    done = subprocess.run(["flwr", *words, "--format", "json"], capture_output=True, text=True, check=False)
    with contextlib.suppress(ValueError):
        answer = json.loads(done.stdout[done.stdout.index("{") :])
        if isinstance(answer, dict) and answer.get("success"):
            return answer
    print(f"flwr {words[0]}: {' '.join((done.stdout + done.stderr).split())[-300:]}", file=sys.stderr, flush=True)
    return None


if __name__ == "__main__":
    sys.exit(main())
