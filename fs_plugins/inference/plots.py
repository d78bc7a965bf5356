"""Pictures of a case study: the transition matrix (figures 7, 10) and the graph of states (figure 11)."""

from itertools import combinations, pairwise

from matplotlib.colors import PowerNorm, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.ticker import PercentFormatter

from fs_plugins.inference.graph import State, TextGraph

MASK_COLOURS = ("#f2c14e", "#b5835a", "#6fae75", "#5b8fd6", "#c77dba", "#e07a5f", "#4fb3bf", "#9a9ad6")
ENDS = "#a9a9a9"
MIN_EDGE = 0.02
LEAST_VISIT = 0.01  # other states of <s> and </s> are shown from this probability on
LONGEST = 14  # letters of a token
LARGEST = 5000  # pixels of a side
TOKENS = 3  # most tokens shown of a state
HALF = 0.36  # of the side of a state's box; the next one is 1 away


def shown_states(graph: TextGraph) -> list[State]:
    """Returns the first and the last state, those of the masks, and those of <s> and </s> that a path visits
    with a probability of at least LEAST_VISIT."""
    ends = (0, len(graph.states) - 1)
    return [s for s in graph.states if s.mask or s.index in ends or s.visit_prob >= LEAST_VISIT]


def transition_heatmap(graph: TextGraph) -> Figure:
    """Draws the transition matrix E(u, v), rows u and columns v, each state named by its most probable
    tokens."""
    states = shown_states(graph)
    n = len(states)
    matrix = [[graph.transitions[u.index][v.index] or float("nan") for v in states] for u in states]
    side = max(0.5 * n, 4.0)  # inches
    dpi = min(130, LARGEST / (side + 3.7))
    figure = Figure(figsize=(side + 3.7, side + 3.1), dpi=dpi, layout="constrained")
    axes = figure.add_subplot(xlabel="to", ylabel="from", facecolor="#e4e4e4")
    image = axes.imshow(matrix, cmap="Blues", norm=PowerNorm(0.5, vmin=0, vmax=1))
    for i, row in enumerate(matrix):
        for j, p in enumerate(row):
            if p >= 0.01:
                colour = "white" if p > 0.4 else "black"
                axes.text(j, i, f"{100 * p:.0f}", ha="center", va="center", fontsize=8, color=colour)
    labels = [_label(state) for state in states]
    axes.set_xticks(range(n), labels, rotation=60, ha="right", rotation_mode="anchor", fontsize=9)
    axes.set_yticks(range(n), labels, fontsize=9)
    for tick in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        tick.set_parse_math(False)
    for i in range(1, n):
        if states[i].token != states[i - 1].token:
            axes.axhline(i - 0.5, color="#808080", linewidth=0.8)
            axes.axvline(i - 0.5, color="#808080", linewidth=0.8)
    figure.colorbar(image, shrink=0.6, ticks=[0, 0.05, 0.2, 0.5, 1], format=PercentFormatter(1, 0))
    note = f"transition probabilities in %, from 1%; grey: no edge; {n} of {len(graph.states)} states"
    if n < len(graph.states):
        note += f": without those of <s> and </s> that a path visits with less than {LEAST_VISIT:.0%}"
    figure.suptitle(graph.text, x=0.02, ha="left", fontsize=12, parse_math=False)
    axes.set_title(note, loc="left", fontsize=8, color="#505050")
    return figure


def state_graph(graph: TextGraph, min_edge: float = MIN_EDGE) -> Figure:
    """Draws the states of each token in a column, darker the more paths visit them; edges, of the colour of
    their state, that at least ``min_edge`` of the paths take, wider the more these are; and in black the path
    of the best decoding. Edges run to the right, and in a column downwards."""
    columns: dict[int, list[State]] = {}
    for state in shown_states(graph):
        columns.setdefault(state.token, []).append(state)
    rows, path = max(map(len, columns.values())), graph.best.states if graph.best else []
    size = 1.9 * len(columns), 0.8 * rows + 1.2  # inches
    figure = Figure(figsize=size, dpi=min(130, LARGEST / max(size)), layout="constrained")
    limits = {"xlim": (-0.5, len(columns) - 0.5), "ylim": (-0.8, rows - 0.2)}
    axes = figure.add_subplot(**limits)
    axes.set_axis_off()
    places = {}
    for x, column in enumerate(columns.values()):
        for row, state in enumerate(column):
            places[state.index] = x, (rows + len(column)) / 2 - row - 1
            _draw_state(axes, state, *places[state.index], state.index in path)
        y = (rows + len(column)) / 2 - 0.5
        axes.text(x, y, column[0].name.split(",")[0], ha="center", fontsize=8, parse_math=False)
    for u, v in combinations(places, 2):
        share = graph.states[u].visit_prob * graph.transitions[u][v]  # of the paths
        if (chosen := (u, v) in pairwise(path)) or (share > 0 and share >= min_edge):
            (x, y), (to_x, to_y) = places[u], places[v]
            ends = (x + HALF, y), (to_x + (HALF if x == to_x else -HALF), to_y)
            bend = f"arc3,rad={-0.3 if x == to_x else 0.1}"
            width, colour = max(0.5, 5 * share), "black" if chosen else _colour(graph.states[u], 1)
            edge = FancyArrowPatch(*ends, arrowstyle="-", connectionstyle=bend, lw=width, color=colour)
            axes.add_patch(edge)
    figure.suptitle(graph.text, fontsize=12, parse_math=False)
    return figure


def _draw_state(axes, state: State, x: float, y: float, chosen: bool) -> None:
    fill, edge = _colour(state, 0.15 + 0.85 * state.visit_prob**0.5), "black" if chosen else "#777777"
    style = {"boxstyle": "round,pad=0,rounding_size=0.05", "fc": fill, "ec": edge, "lw": 2 if chosen else 0.8}
    axes.add_patch(FancyBboxPatch((x - HALF, y - HALF), 2 * HALF, 2 * HALF, zorder=2, **style))
    about = f"{_label(state)}\n{state.tokens[0].prob:.1%}, visited {state.visit_prob:.1%}"
    axes.text(x, y, about, ha="center", va="center", fontsize=8, zorder=3, parse_math=False)


def _colour(state: State, strength: float) -> tuple[float, ...]:
    """Returns the colour of a state's mask, on white; strength 0 is white."""
    colour = MASK_COLOURS[(state.mask - 1) % len(MASK_COLOURS)] if state.mask else ENDS
    return tuple(1 + strength * (part - 1) for part in to_rgb(colour))


def _label(state: State) -> str:
    texts = [token.text for token in state.tokens[: TOKENS if state.mask else 1]]
    return " · ".join(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…" for text in texts)
