"""The notebooks run from their first cell to their last, and show what they promise."""

import re
from pathlib import Path

import pytest

from tests.rotation import some_of

nbformat = pytest.importorskip("nbformat", reason="Jupyter is not installed")
nbclient = pytest.importorskip("nbclient", reason="Jupyter is not installed")
pytest.importorskip("ipykernel", reason="Jupyter is not installed")
pytest.importorskip("pandas", reason="pandas is not installed")

QUICK = {'"rounds": ': "24", "seeds=": "1"}
NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", some_of(NOTEBOOKS, 1), ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_a_comparison(path: Path, is_whole: bool) -> None:
    if "torch" in path.read_text():
        pytest.importorskip("torch", reason="PyTorch is not installed")
    book = nbformat.read(path, as_version=4)
    for cell in book.cells:
        if "compare(" in cell.source and not is_whole:  # with one seed, and rounds for one event
            cell.source, n_changes = re.subn(
                r'("rounds": |seeds=)\d+', lambda found: found[1] + QUICK[found[1]], cell.source
            )
            assert n_changes == 2

    nbclient.NotebookClient(book, timeout=600, kernel_name="python3").execute()

    shown = [one.get("data", {}) for cell in book.cells if cell.cell_type == "code" for one in cell.outputs]
    cells = [one["text/html"] for one in shown if "<svg" in one.get("text/html", "")]
    assert cells
    assert all("<script" not in one for one in cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_what_it_printed(path: Path) -> None:
    book = nbformat.read(path, as_version=4)

    assert all(not cell.outputs and cell.execution_count is None for cell in book.cells if cell.cell_type == "code")
