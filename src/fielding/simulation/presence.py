"""Whether the files of a known data set are there, asked before anything is read."""

from fielding.engine.config import TraceSection
from fielding.errors import InputError
from fielding.traces.catalog import FOLDER_VARIABLE, data_folder, entry_named


def check_present(section: TraceSection) -> None:
    """Raise if a section names a known data set of which a file is missing; costs nothing.

    Raises
    ------
    InputError
        The message names the file, the folder, and how to get it.
    """
    if section.file is not None:
        return
    entry, folder = entry_named(section.name), data_folder(section.data)
    missing = entry.missing(folder)
    if missing is not None:
        raise InputError(
            f"{entry.name} needs {missing}, which is not in {folder}; {entry.how_to_get}; if it is elsewhere, name its "
            f"folder in trace.data or in the environment variable {FOLDER_VARIABLE}"
        )
