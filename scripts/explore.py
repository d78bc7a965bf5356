"""What an ExLM makes of a sentence with masks (figures 7, 10 and 11 of the paper).

    python scripts/explore.py checkpoints/exlm/checkpoint_last.pt "CC(=O)<mask>c1ccccc1C(=<mask>)O"

prints each state's most probable tokens, and the best decoding of the sentence; writes graph.json (all of it,
with the transition matrix), transitions.png (the matrix as a heatmap) and index.html (the graph of states, to
look at in a browser) into --output.
"""

from pathlib import Path

from lib.command_line import argument_parser, counted, proportion, script, visible, whole

from fs_plugins.files import atomic, check_absent, json_text

GRAPH, PICTURE, PAGE = "graph.json", "transitions.png", "index.html"


def percent(p: float) -> str:
    if p >= 0.9995:
        return "100%"
    if p < 1e-4:
        return "<0.01%"
    return f"{100 * p:.1f}%" if p >= 0.0995 else f"{100 * p:.2g}%"


def describe(graph) -> str:
    """Returns the text that the terminal shows."""
    exactly, masks = counted(graph.masks, "token"), counted(graph.masks, "mask")
    lines = [graph.text, f"{masks}, k = {graph.k}: {counted(len(graph.states), 'state')}"]
    for symbol in graph.unknown:
        lines.append(f"NOTE: {symbol!r} is not in the dictionary: the model reads <unk> there")
    lines += [f"NOTE: {note}" for note in graph.notes]
    lines += ["", f"{'state':<16} {'visited':>7}  most probable tokens"]
    for state in graph.states:
        tokens = "  ".join(f"{token.text} {percent(token.prob)}" for token in state.tokens)
        lines.append(f"{state.name:<16} {percent(state.visit_prob):>7}  {tokens}")
    lines += ["", f"By the transitions, {percent(graph.length_prob)} of the paths have {exactly}."]
    lines += ["", f"Best decoding of {exactly}, log P (nats) of its path and of all paths:"]
    if (best := graph.best) is None:
        return "\n".join([*lines, "there is none: no path has so many states"])
    path = " → ".join(graph.states[u].name for u in best.states[1:-1])
    return "\n".join([*lines, f"{best.log_prob:.2f} {best.total_log_prob:.2f}  {best.text}  [{path}]"])


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("model", type=Path, help="a checkpoint of an ExLM, or a folder for transformers")
    add("text", help="a sentence with <mask>s; each stands for one symbol of the dictionary")
    add("--top", type=whole(1), default=5, metavar="N", help="tokens of a state (default: %(default)s)")
    output = "folder to write into (default: %(default)s)"
    add("--output", type=Path, default=Path("outputs/explore"), metavar="DIR", help=output)
    add("--overwrite", action="store_true", help="replace what an existing DIR has")
    edge = "draw edges that at least this share of the paths take (default: 0.02)"
    add("--min-edge", type=proportion, default=0.02, metavar="P", help=edge)
    add("--data", type=Path, metavar="DIR", help="folder of dict.txt (default: the one of the training)")
    written = (
        "how the corpus was written: encoder.json and vocab.bpe (GPT-2 BPE), a tokenizer.json, smiles, or "
        "none for symbols between blanks (default: what lies beside the dictionary, else none)"
    )
    add("--bpe", nargs="+", metavar="FILE", help=written)
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU where there is one)")
    args = parser.parse_args(argv)
    check_absent(args.output / PAGE, args.overwrite)
    from fs_plugins.inference import load
    from fs_plugins.inference.page import page
    from fs_plugins.inference.plots import transition_heatmap

    model = load(args.model, data=args.data, bpe=args.bpe, device=args.device)
    graph = model.graph(args.text, top=args.top)
    print(visible(describe(graph)))
    html = page(graph, args.min_edge)
    args.output.mkdir(parents=True, exist_ok=True)
    graph_file, page_file = atomic(args.output / GRAPH), atomic(args.output / PAGE)
    with graph_file as text, atomic(args.output / PICTURE, "wb") as picture, page_file as shown:
        text.write(json_text(graph.to_dict()))
        transition_heatmap(graph).savefig(picture, format="png")
        shown.write(html)
        for file in (text, picture, shown):  # all of them, or none
            file.flush()
    print(f"\n{args.output}: {GRAPH}, {PICTURE}, {PAGE}")
