"""The notebook of the documentation runs from its first cell to its last."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
CANDIDATES = [HERE.parent / "python.ipynb", HERE.parent.parent / "docs" / "python.ipynb"]


def test_the_notebook_runs(tmp_path):
    notebook = nbformat.read(next(path for path in CANDIDATES if path.exists()), as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs), "it draws something"
