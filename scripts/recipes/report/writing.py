"""Writing a report: Markdown with the pictures beside it, and one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path

from recipes.files import atomic
from recipes.report import html, markdown
from recipes.report.page import Section


def write(page: Section, folder: Path) -> list[Path]:
    """Writes report.md, its pictures and report.html; returns the paths of the two reports.

    Raises:
        RecipeError: if they cannot be written.
    """
    pictures = {picture.name: picture for picture in page.pictures()}
    if pictures:
        (folder / markdown.PICTURES).mkdir(exist_ok=True)
    for name, picture in pictures.items():
        with atomic(folder / markdown.PICTURES / f"{name}.png", "wb") as file:
            file.write(picture.content)
    paths = []
    for name, render in (("report.md", markdown.render), ("report.html", html.render)):
        with atomic(folder / name) as file:
            file.write(render(page))
        paths.append(folder / name)
    return paths
