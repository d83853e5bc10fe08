"""Every error that Fielding raises on purpose.

::

    FieldingError
    ├── InputError (ValueError)         what was given cannot be used
    │   ├── OptionError                 an unknown name or a value out of range
    │   ├── ReportError                 a client report that cannot be accepted
    │   └── FileFormatError             a file that is not what it should be
    ├── CheckpointError (ValueError)    a checkpoint that cannot be read or does not fit
    │   └── DamagedCheckpointError      its checksum fails: it is not what was written
    ├── LostClusterError                a Ray cluster, or all that ran on it, is gone
    └── OutputError (OSError)           results that could not be written

Each message says what was got, what was wanted and what to do.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

LONGEST_ECHO = 60


class FieldingError(Exception):
    """Anything that Fielding refuses to do, with the reason as its message."""


class InputError(FieldingError, ValueError):
    """What was given cannot be used."""


class OptionError(InputError):
    """An option has an unknown name or a value out of its range."""


class ReportError(InputError):
    """A client report cannot be accepted; nothing was changed."""


class FileFormatError(InputError):
    """A file is not in the format that it should have."""


class CheckpointError(FieldingError, ValueError):
    """A checkpoint cannot be read, is of an unknown version or of another kind."""


class DamagedCheckpointError(CheckpointError):
    """A checkpoint is not what was written: its checksum fails. No other error says that."""


class LostClusterError(FieldingError):
    """A Ray cluster, or all that ran on it, is gone; what was committed is kept."""


class OutputError(FieldingError, OSError):
    """Results could not be written."""


def echo(value: object) -> str:
    """Return ``repr(value)``, cut to a length that fits into a one-line message.

    Examples
    --------
    >>> echo("zone-17")
    "'zone-17'"
    >>> len(echo("x" * 1_000_000)) < 100
    True
    """
    if isinstance(value, (str, bytes)) and len(value) > LONGEST_ECHO:
        return f"{value[: LONGEST_ECHO - 3]!r}... ({len(value)} characters)"
    try:
        text = " ".join(repr(value).split())  # arrays write themselves over several lines
    except ValueError:  # Python writes no number of more than 4300 digits
        return f"a whole number of {int(value).bit_length()} bits" if isinstance(value, int) else type(value).__name__
    return text if len(text) <= LONGEST_ECHO else f"{text[: LONGEST_ECHO - 3]}..."


def printable(text: str) -> str:
    r"""Return a text in one line, without anything that a terminal or an editor would obey.

    Examples
    --------
    >>> printable("a\x1b[31mb\nc")
    'a?[31mb c'
    """
    return "".join(one if one.isprintable() else "?" for one in " ".join(text.split()))


def error_words(error: BaseException) -> str:
    r"""Return an error that others' code raised, type and whole text, in one line.

    Examples
    --------
    >>> error_words(ValueError("shapes (2, 3)\n  and (4,)"))
    'ValueError: shapes (2, 3) and (4,)'
    >>> error_words(KeyboardInterrupt())
    'KeyboardInterrupt'
    """
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")


def error_place(error: BaseException) -> str:
    """Return file and line of the innermost frame of an error in the user's own code; nothing if it was not there.

    Own is what is neither Fielding's nor Python's nor an installed package's. The file is named from the folder that
    the program was started in, if it lies there.
    """
    from sysconfig import get_path
    from traceback import extract_tb

    of_others = [Path(__file__).parent, *(Path(get_path(name)) for name in ("stdlib", "purelib", "platlib"))]
    for frame in reversed(extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_file() and not any(path.is_relative_to(folder) for folder in of_others):
            shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
            return f"{shown}, line {frame.lineno}"
    return ""


def unknown_name(kind: str, got: object, known: Iterable[str]) -> OptionError:
    """Return the error for a name that is not in a family, with the nearest known one.

    Examples
    --------
    >>> print(unknown_name("metric", "l3", ["l1", "l2", "cosine"]))
    unknown metric 'l3'; did you mean 'l2'? Known: cosine, l1, l2
    """
    names = sorted(known)
    near = get_close_matches(got, names, n=1, cutoff=0.3) if isinstance(got, str) else []
    hint = f" did you mean {near[0]!r}?" if near else ""
    return OptionError(f"unknown {kind} {echo(got)};{hint} Known: {', '.join(names)}")
