"""Pictures of a case study: the transition matrix (figures 7, 10), and what the page draws (figure 11)."""

from matplotlib.colors import PowerNorm, to_rgb
from matplotlib.figure import Figure

from fs_plugins.inference.explorer import Filling, Node

MASK_COLOURS = ("#f2c14e", "#b5835a", "#6fae75", "#5b8fd6", "#c77dba", "#e07a5f", "#4fb3bf", "#9a9ad6")
END_COLOUR = "#a9a9a9"
LEAST_VISIT = 0.01  # other states of <s> and </s> are shown from this probability on
LONGEST_WORD = 14
WORDS = 3  # of a node


def shown_nodes(filling: Filling) -> list[Node]:
    """The first and the last node, the states of the masks, and those states of <s> and </s> that a path
    passes with a probability of at least LEAST_VISIT."""
    ends = (0, len(filling.nodes) - 1)
    return [n for n in filling.nodes if n.mask or n.index in ends or n.visit_prob >= LEAST_VISIT]


def transition_heatmap(filling: Filling, words: int = WORDS) -> Figure:
    """The transition matrix E(u, v), rows u and columns v, each node named by its most probable words."""
    nodes = shown_nodes(filling)
    n = len(nodes)
    index = [node.index for node in nodes]
    matrix = [[filling.transitions[u][v] if v > u else float("nan") for v in index] for u in index]
    side = max(0.5 * n, 4.0)  # inches
    figure = Figure(figsize=(side + 3.7, side + 3.1), dpi=130, layout="constrained")
    axes = figure.add_subplot()
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
    bar = figure.colorbar(image, shrink=0.6, ticks=[0, 0.05, 0.2, 0.5, 1])
    bar.ax.set_yticklabels(["0", "5%", "20%", "50%", "100%"], fontsize=8)
    missing = len(filling.nodes) - n
    note = "transition probabilities in %, from 1%; " + (
        f"{missing} states of <s> and </s> that a path passes with less than {LEAST_VISIT:.0%} left out"
        if missing
        else f"all {n} nodes"
    )
    figure.suptitle(filling.text, x=0.02, ha="left", fontsize=12, parse_math=False)
    axes.set_title(note, loc="left", fontsize=8, color="#505050", parse_math=False)
    return figure


def _label(node: Node, words: int) -> str:
    texts = [word.text for word in node.words[: words if node.mask else 1]]
    return " · ".join(text if len(text) <= LONGEST_WORD else text[: LONGEST_WORD - 1] + "…" for text in texts)


def _tint(node: Node, strength: float = 0.6) -> tuple[float, ...]:
    """The node's colour on white: strength 0 is white, 1 the full colour."""
    colour = MASK_COLOURS[(node.mask - 1) % len(MASK_COLOURS)] if node.mask else END_COLOUR
    return tuple(1 - strength * (1 - c) for c in to_rgb(colour))
