"""A case study as one HTML page: the text, its graph of states as a drawing, and the best decoding."""

from html import escape
from itertools import groupby, pairwise

from fs_plugins.inference.plots import MASK_COLOURS, shown_states
from fs_plugins.inference.text_graph import State, TextGraph

MIN_EDGE = 0.02  # share of the paths
COLUMN, ROW, WIDTH, HEIGHT = 162, 80, 134, 60  # pixels: of the grid, and of a state
GREY = "#c9c9c9"
PAGE = """\
<!doctype html>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Graph of states</title>
<style>
body {{ margin: 1rem; font: 15px/1.45 system-ui, sans-serif; }}
.graph {{ overflow-x: auto; }}
text {{ text-anchor: middle; font-size: 11px; }}
text.token {{ font-size: 15px; font-weight: 600; }}
rect {{ stroke: #777; }}
path {{ fill: none; stroke: #5b8fd6; }}
.best {{ stroke: #222; stroke-width: 2.5; }}
mark {{ border-radius: .2rem; }}
</style>
<h1>{text}</h1>
<p>{summary}</p>
<div class="graph">{drawing}</div>
<p>Edges run from left to right and, within a column, downwards; the more paths, drawn by the transitions,
take an edge, the wider it is; those that less than {least:.0%} of the paths take are not drawn. Outlined:
the path of the best decoding. Point at a state for its tokens, at an edge for its probability.</p>
<h2>Best decoding</h2>
<p>{best}</p>
"""


def page(graph: TextGraph) -> str:
    """Returns the page, which needs no other file. Edges that less than ``MIN_EDGE`` of the paths take are
    left out, but for those of the best decoding."""
    summary = [f"{graph.masks} masks, k = {graph.k}, {len(graph.states)} states"]
    summary += [
        f"{symbol!r} is not in the dictionary: the model reads <unk> there" for symbol in graph.unknown
    ]
    best = "There is none: no path has so many states."
    if graph.best is not None:
        pieces = [_piece(text, mask) for text, mask in graph.best.pieces]
        log_probs = f"{graph.best.log_prob:.2f} of the path, {graph.best.total_log_prob:.2f} of all its paths"
        best = f"{''.join(pieces)} (log P in nats: {log_probs})"
    return PAGE.format(
        text=escape(graph.text),
        summary="<br>".join(map(escape, summary)),
        drawing=_drawing(graph),
        least=MIN_EDGE,
        best=best,
    )


def _colour(mask: int) -> str:
    return MASK_COLOURS[(mask - 1) % len(MASK_COLOURS)] if mask else GREY


def _piece(text: str, mask: int) -> str:
    return f'<mark style="background: {_colour(mask)}">{escape(text)}</mark>' if mask else escape(text)


def _drawing(graph: TextGraph) -> str:
    """Returns the graph as SVG: a column for each token, a box for each of its states."""
    columns = [list(states) for _, states in groupby(shown_states(graph), lambda state: state.token)]
    tallest = max(map(len, columns))
    place = {}
    for c, column in enumerate(columns):
        shift = 0.25 * (-1) ** c if len(column) > 1 else 0.0  # edges over a column pass between its states
        for r, state in enumerate(column):
            row = tallest / 2 + r - (len(column) - 1) / 2 + shift
            place[state.index] = round((c + 0.5) * COLUMN), round((row + 0.5) * ROW)
    steps = set(pairwise(graph.best.states)) if graph.best else set()
    parts = []
    for u in place:
        for v in place:
            share = graph.states[u].visit_prob * graph.transitions[u][v]
            if (u, v) in steps or (share > 0 and share >= MIN_EDGE):
                names = f"{graph.states[u].name} → {graph.states[v].name}"
                title = f"{names}: {share:.1%} of the paths; transition {graph.transitions[u][v]:.1%}"
                parts.append(_edge(*place[u], *place[v], share, (u, v) in steps, title))
    on_path = {state for step in steps for state in step}
    parts += [_state(graph.states[u], *place[u], u in on_path) for u in place]
    size = f'width="{len(columns) * COLUMN}" height="{(tallest + 1) * ROW}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'


def _edge(x0: int, y0: int, x1: int, y1: int, share: float, is_best: bool, title: str) -> str:
    half = WIDTH // 2
    if x0 == x1:  # within a column: around its right side
        bend = half + 18 + (y1 - y0) // 8
        curve = f"M{x0 + half},{y0 + 6} C{x0 + bend},{y0 + 6} {x0 + bend},{y1 - 6} {x0 + half},{y1 - 6}"
    else:
        turn = max(14, (x1 - x0 - WIDTH) // 2)
        curve = f"M{x0 + half},{y0} C{x0 + half + turn},{y0} {x1 - half - turn},{y1} {x1 - half},{y1}"
    look = 'class="best"' if is_best else f'stroke-width="{max(0.8, 6 * share):.1f}"'
    return f'<path d="{curve}" {look}><title>{escape(title)}</title></path>'


def _state(state: State, x: int, y: int, is_best: bool) -> str:
    tokens = "\n".join(f"{token.text} {token.prob:.1%}" for token in state.tokens)
    first, *others = state.tokens
    below = " · ".join([f"{first.prob:.1%}", *(token.text[:6] for token in others[:2] if state.mask)])
    lines = (("token", -10, first.text[:12]), ("", 6, below), ("", 22, f"visited {state.visit_prob:.1%}"))
    texts = [f'<text class="{look}" x="{x}" y="{y + dy}">{escape(line)}</text>' for look, dy, line in lines]
    box = f'x="{x - WIDTH // 2}" y="{y - HEIGHT // 2}" width="{WIDTH}" height="{HEIGHT}" rx="8"'
    look = f'fill="{_colour(state.mask)}" class="{"best" if is_best else "state"}"'
    title = f"<title>{escape(state.name)}:\n{escape(tokens)}</title>"
    return f"<g>{title}<rect {box} {look}/>{''.join(texts)}</g>"
