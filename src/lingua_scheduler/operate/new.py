"""`lingua new`: a file to begin with. What is there already is left alone."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_node(file: Path) -> str:
    """A node that runs as it is. Why it could not be written; "": it was."""
    text = files("lingua_scheduler.operate.templates").joinpath("node.py").read_text(encoding="utf-8")
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(text.replace("my_node.py", file.name))
    except FileExistsError:
        return f"{file} is there already; nothing was written"
    except OSError as error:
        return f"{file} cannot be written: {error.strerror}"
    return ""
