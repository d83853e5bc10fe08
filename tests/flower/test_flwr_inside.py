"""What Fielding takes for granted of Flower is so in the release that is installed; each test says what broke."""

import ast
import inspect
import re
from importlib import metadata
from pathlib import Path

import pytest

from fielding.flower import flwr_inside as inside

flwr = pytest.importorskip("flwr", reason="flwr is not installed; run: pip install 'fielding[flower]'")

FOLDER, OURS = Path(flwr.__file__).parent, Path(inside.__file__).parent
RELEASE = metadata.version("flwr")
SOURCES = {path.relative_to(FOLDER): path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.py")}
TEXTS = {
    "the log of a SuperNode that was accepted": inside.NODE_ONLINE,
    "the log of a SuperNode that was refused": inside.NODE_REFUSED,
    "the details of a run whose ServerApp raised": inside.RAISED_BY_SERVER,
    "the status of a run that ended": inside.RUN_ENDED.removesuffix(":"),
    "a run without details": inside.NO_DETAILS,
    "the health of a SuperLink": inside.HEALTH,
}


@pytest.mark.parametrize("what", TEXTS)
def test_flower_still_says_it_so(what: str) -> None:
    found = [path for path, text in SOURCES.items() if TEXTS[what] in text]

    assert found, f"flwr {RELEASE} no longer says {TEXTS[what]!r}: {what} would not be recognised; mend flwr_inside.py"


def test_a_key_that_is_registered_twice_is_still_told_so() -> None:
    assert any(inside.KEY_KNOWN in text.lower() for text in SOURCES.values()), (
        f"flwr {RELEASE} no longer says that a key is {inside.KEY_KNOWN!r}: deploy --local could not start again"
    )


def test_error_codes_mean_what_they_did() -> None:
    from flwr.common.constant import ErrorCode

    names = {
        "MESSAGE_UNAVAILABLE": "straggler",
        "REPLY_MESSAGE_UNAVAILABLE": "straggler",
        "NODE_UNAVAILABLE": "offline",
    }
    found = {getattr(ErrorCode, name): reason for name, reason in names.items()}

    assert found == inside.REASONS, f"flwr {RELEASE} numbers its errors otherwise: {found}; mend flwr_inside.REASONS"


def test_an_exception_of_a_client_is_told_by_class_and_message() -> None:
    forms = [re.findall(r"^ *reason = (.*type\(ex\).*)$", text, re.MULTILINE) for text in SOURCES.values()]
    told = {eval(form, {"ex": ValueError("bad\nthing")}) for found in forms for form in found}

    assert told, f"flwr {RELEASE} tells of exceptions otherwise; mend flwr_inside.RAISED_BY_CLIENT"
    for one in told:
        found = inside.RAISED_BY_CLIENT.fullmatch(one)
        assert found is not None, f"flwr {RELEASE} tells of exceptions as {one!r}; mend flwr_inside.RAISED_BY_CLIENT"
        assert found.groups() == ("ValueError", "bad\nthing")


def test_what_is_used_of_messages_and_grids_is_there() -> None:
    from flwr.app import Metadata
    from flwr.proto.node_pb2 import NodeInfo
    from flwr.serverapp import Grid

    wanted = {"message_id", "src_node_id", "reply_to_message_id", "created_at", "ttl"}
    missing = {name for name in wanted if not isinstance(inspect.getattr_static(Metadata, name, None), property)}
    missing |= {name for name in ("get_nodes", "push_messages", "pull_messages") if not hasattr(Grid, name)}
    fields = {field.name for field in NodeInfo.DESCRIPTOR.fields}
    missing |= {"node_id", "public_key", "last_activated_at", "heartbeat_interval", "name"} - fields

    assert not missing, f"flwr {RELEASE} has no {sorted(missing)} any more; mend flower/server/grid_wire.py"


def test_nothing_else_of_ours_knows_the_inside_of_flower() -> None:
    public = {"flwr.app", "flwr.clientapp", "flwr.clientapp.typing", "flwr.serverapp", "flwr.serverapp.strategy"}
    found = []
    for path in OURS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [(path.name, name) for name in names if name.split(".")[0] == "flwr" and name not in public]
        text = path.read_text(encoding="utf-8")
        if path.name != "flwr_inside.py":
            found += [
                (path.name, words) for words in TEXTS.values() if words in text and words != inside.RUN_ENDED[:-1]
            ]

    assert not [one for one in found if one[1] not in (inside.HEALTH, inside.NO_DETAILS)]
