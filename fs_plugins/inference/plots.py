"""Pictures of a case study: the transition matrix (figures 7, 10), and the states that the page draws (figure
11)."""

from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fs_plugins.inference.text_graph import State, TextGraph

MASK_COLOURS = ("#f2c14e", "#b5835a", "#6fae75", "#5b8fd6", "#c77dba", "#e07a5f", "#4fb3bf", "#9a9ad6")
LEAST_VISIT = 0.01  # other states of <s> and </s> are shown from this probability on
LONGEST = 14  # letters of a token
LARGEST = 5000  # pixels of a side of the matrix
TOKENS = 3  # most tokens shown of a state


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


def _label(state: State) -> str:
    texts = [token.text for token in state.tokens[: TOKENS if state.mask else 1]]
    return " · ".join(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…" for text in texts)
