"""A case study as one HTML page to explore in a browser; it needs no network and no other file."""

import json
from importlib import resources

from fs_plugins.inference.explorer import Filling
from fs_plugins.inference.plots import MASK_COLOURS, shown_nodes


def page(filling: Filling, min_edge: float = 0.1) -> str:
    """The page: the sentence, its graph of states and its readings.

    Pointing at or tapping a state shows its words, its edges and the paths through it; a slider hides weak
    edges; selecting a reading lights its path; the graph can be saved as SVG. The page shows the states of
    :func:`fs_plugins.inference.plots.shown_nodes`; its figures cover all of them.

    Args:
        filling: what to show.
        min_edge: probability that the slider starts at.

    Raises:
        ValueError: if ``min_edge`` is not between 0 and 1.
    """
    if not 0.0 <= min_edge <= 1.0:
        raise ValueError(f"min_edge is a probability, 0 to 1, got {min_edge}")
    data = {
        "filling": filling.to_dict(),
        "shown": [node.index for node in shown_nodes(filling)],
        "colours": MASK_COLOURS,
        "min_edge": min_edge,
    }
    html = _template("page.html")
    for mark, text in (
        ("/*STYLE*/", _template("page.css")),
        ("/*SCRIPT*/", _template("page.js")),
        ("/*DATA*/", _embedded(data)),  # last: a word may look like a mark
    ):
        html = html.replace(mark, text)
    return html


def _template(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _embedded(data: dict) -> str:
    """JSON in which nothing ends or opens an HTML element or comment."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
