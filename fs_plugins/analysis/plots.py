"""Pictures of a case study: the transition matrix (figures 7, 10) and the graph of states (figure 11).

Figures are built without pyplot, so that they need no display and leave no state behind.
"""

from collections.abc import Sequence

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import PowerNorm, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from fs_plugins.analysis.explorer import Filling, Node

MASK_COLOURS = ("#f2c14e", "#b5835a", "#6fae75", "#5b8fd6", "#c77dba", "#e07a5f", "#4fb3bf", "#9a9ad6")
END_COLOUR = "#a9a9a9"
LEAST_VISIT = 0.01  # other states of <s> and </s> are shown from this probability on
LONGEST_WORD = 14
WORDS = 3  # of a node
COLUMN, ROW, BOX = 2.8, 0.95, (1.4, 0.54)  # inches: the graph's columns, its rows, a node


def shown_nodes(filling: Filling) -> list[Node]:
    """The first and the last node, the states of the masks, and those states of <s> and </s> that a path
    passes with a probability of at least LEAST_VISIT."""
    ends = (0, len(filling.nodes) - 1)
    return [n for n in filling.nodes if n.mask or n.index in ends or n.visit_prob >= LEAST_VISIT]


def check_min_edge(min_edge: float) -> None:
    """Raises ValueError if the minimum transition probability is not a probability."""
    if not 0.0 <= min_edge <= 1.0:
        raise ValueError(f"min_edge is a probability, 0 to 1, got {min_edge}")


def transition_heatmap(filling: Filling, words: int = WORDS) -> Figure:
    """The transition matrix E(u, v), rows u and columns v, each node named by its most probable words."""
    nodes = shown_nodes(filling)
    n = len(nodes)
    index = [node.index for node in nodes]
    matrix = [[filling.transitions[u][v] if v > u else float("nan") for v in index] for u in index]
    cells, left, below, above = max(0.5 * n, 4.0), 2.6, 2.3, 0.8  # inches
    width, height = left + cells + 1.1, below + cells + above
    figure = _figure(width, height)
    axes = figure.add_axes((left / width, below / height, cells / width, cells / height))
    image = axes.imshow(matrix, cmap="Blues", norm=PowerNorm(0.5, vmin=0, vmax=1))
    axes.set_facecolor("#f3f3f3")  # no edge goes back
    for i, u in enumerate(nodes):
        for j, v in enumerate(nodes):
            p = filling.transitions[u.index][v.index]
            if v.index > u.index and p >= 0.01:
                colour = "white" if p > 0.4 else "black"
                axes.text(j, i, f"{100 * p:.0f}", ha="center", va="center", fontsize=8, color=colour)
    labels = [_label(node, words) for node in nodes]
    axes.set_xticks(range(n), labels, rotation=60, ha="right", rotation_mode="anchor", fontsize=9)
    axes.set_yticks(range(n), labels, fontsize=9)
    for ticks in (axes.get_xticklabels(), axes.get_yticklabels()):
        for tick, node in zip(ticks, nodes, strict=True):
            tick.set_parse_math(False)
            tick.set_bbox({"facecolor": _tint(node), "edgecolor": "none", "pad": 1.5})
    for i in range(1, n):
        if nodes[i].group != nodes[i - 1].group:
            axes.axhline(i - 0.5, color="#808080", linewidth=0.8)
            axes.axvline(i - 0.5, color="#808080", linewidth=0.8)
    axes.tick_params(length=0)
    axes.set_xlabel("to")
    axes.set_ylabel("from")
    place = figure.add_axes(
        ((left + cells + 0.2) / width, (below + 0.2 * cells) / height, 0.15 / width, 0.6 * cells / height)
    )
    bar = figure.colorbar(image, cax=place, ticks=[0, 0.05, 0.2, 0.5, 1])
    bar.ax.set_yticklabels(["0", "5%", "20%", "50%", "100%"], fontsize=8)
    _title(figure, filling, "transition probabilities in %, from 1%; " + _left_out(filling, nodes))
    return figure


def state_graph(filling: Filling, min_edge: float = 0.1) -> Figure:
    """The graph of states, from left to right by mask.

    Nodes have the colour of their mask, stronger the more probably a path passes them, and a black frame if
    they are on the best reading. Edges are as wide and as dark as the transition is probable; those below
    ``min_edge`` are left out, but for the strongest of each node and those of the best reading.
    """
    check_min_edge(min_edge)
    nodes = shown_nodes(filling)
    groups = list(dict.fromkeys((node.token, node.group) for node in nodes))
    columns = {token: [n for n in nodes if n.token == token] for token, _ in groups}
    tallest = max(len(column) for column in columns.values())
    place = {}
    for c, column in enumerate(columns.values()):
        shift = 0.25 if c % 2 else -0.25  # so that edges over a column pass between its nodes
        for r, node in enumerate(column):
            row = (len(column) - 1) / 2 - r + shift * (len(column) > 1)
            place[node.index] = (c * COLUMN, row * ROW)
    width = (len(columns) - 1) * COLUMN + BOX[0] + 1.2  # inches, as are all coordinates
    height, above = (tallest + 1.0) * ROW, 0.8
    figure = _figure(width, height + above)
    axes = figure.add_axes((0, 0, 1, height / (height + above)))
    axes.set_xlim(-BOX[0] / 2 - 0.4, width - BOX[0] / 2 - 0.4)
    axes.set_ylim(-height / 2 - 0.15, height / 2 - 0.15)
    axes.axis("off")
    best = filling.best.nodes if filling.best else []
    steps = set(zip(best, best[1:], strict=False))
    boxes = {n.index: _draw_node(axes, n, place[n.index], n.index in best) for n in nodes}
    for c, (token, group) in enumerate(groups):
        top = max(place[n.index][1] for n in columns[token])
        axes.text(c * COLUMN, top + 0.42, group, ha="center", fontsize=10, color="#404040", parse_math=False)
    for u in nodes:
        after = [v for v in nodes if v.index > u.index]
        strongest = max(after, key=lambda v: filling.transitions[u.index][v.index], default=None)
        for v in after:
            p = filling.transitions[u.index][v.index]
            on_best = (u.index, v.index) in steps
            if p >= min_edge or v is strongest or on_best:
                _draw_edge(axes, u, v, place, boxes, p, on_best)
    _title(
        figure,
        filling,
        f"edges: transition probabilities from {100 * min_edge:g}%, and each node's strongest; wider: "
        "more probable; black: the best decoding; darker boxes: visited more often;\n"
        + _left_out(filling, nodes),
    )
    return figure


def _draw_node(axes, node: Node, at: tuple[float, float], on_best: bool):
    """The node's box: its top word, and below that word's probability and the next words."""
    strength = 0.3 + 0.7 * node.visit_prob**0.5
    x, y = at
    box = FancyBboxPatch(
        (x - BOX[0] / 2, y - BOX[1] / 2),
        *BOX,
        boxstyle="round,pad=0,rounding_size=0.1",
        facecolor=_tint(node, strength),
        edgecolor="black" if on_best else "#707070",
        linewidth=2.2 if on_best else 0.6,
        zorder=3,
    )
    axes.add_patch(box)
    style = {"ha": "center", "va": "center", "zorder": 4, "parse_math": False}
    axes.text(x, y + 0.1, _cut(node.words[0].text, LONGEST_WORD), fontsize=11, fontweight="bold", **style)
    line = f"{100 * node.words[0].prob:.0f}%"
    if not _is_end(node):
        line = " · ".join([line, *(_cut(word.text, 9) for word in node.words[1:WORDS])])
    axes.text(x, y - 0.15, line, fontsize=7, color="#202020", **style)
    return box


def _draw_edge(axes, u: Node, v: Node, place, boxes, p: float, on_best: bool) -> None:
    (x0, y0), (x1, y1) = place[u.index], place[v.index]
    if u.token == v.token:  # beside the column
        start, end, ends = (x0 + BOX[0] / 2, y0), (x1 + BOX[0] / 2, y1), {"shrinkA": 0, "shrinkB": 1}
    else:
        start, end, ends = (x0, y0), (x1, y1), {"patchA": boxes[u.index], "patchB": boxes[v.index]}
    axes.add_patch(
        FancyArrowPatch(
            *(start, end),
            **ends,
            connectionstyle=f"arc3,rad={-0.45 if u.token == v.token else 0.0}",
            arrowstyle="-|>",
            mutation_scale=8 + 6 * p,
            linewidth=max(1.2 if on_best else 0.5, 4 * p),
            color="black" if on_best else _dark(u),
            alpha=1 if on_best else 0.2 + 0.75 * p**0.7,
            zorder=2 if on_best else 1,
        )
    )


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), dpi=130, layout=None)
    FigureCanvasAgg(figure)
    return figure


def _title(figure: Figure, filling: Filling, note: str) -> None:
    height = figure.get_figheight()
    figure.text(0.02, 1 - 0.12 / height, filling.text, fontsize=12, va="top", parse_math=False)
    figure.text(0.02, 1 - 0.42 / height, note, fontsize=8, va="top", color="#505050", parse_math=False)


def _left_out(filling: Filling, nodes: Sequence[Node]) -> str:
    missing = len(filling.nodes) - len(nodes)
    if not missing:
        return f"all {len(nodes)} nodes"
    return f"{missing} states of <s> and </s> that a path passes with less than {LEAST_VISIT:.0%} left out"


def _label(node: Node, words: int) -> str:
    return " · ".join(_cut(word.text, LONGEST_WORD) for word in node.words[: 1 if _is_end(node) else words])


def _is_end(node: Node) -> bool:
    return node.mask == 0


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _colour(node: Node) -> str:
    return END_COLOUR if _is_end(node) else MASK_COLOURS[(node.mask - 1) % len(MASK_COLOURS)]


def _tint(node: Node, strength: float = 0.6) -> tuple[float, ...]:
    """The node's colour on white: strength 0 is white, 1 the full colour."""
    return tuple(1 - strength * (1 - c) for c in to_rgb(_colour(node)))


def _dark(node: Node) -> tuple[float, ...]:
    return tuple(0.7 * c for c in to_rgb(_colour(node)))
