"""What an ExLM makes of a sentence with masks (figures 7, 10 and 11 of the paper).

    python scripts/explore.py checkpoints/exlm/checkpoint_last.pt "CC(=O)<mask>c1ccccc1C(=<mask>)O"

prints the best decoding of the sentence; writes graph.json (its states with their most probable tokens, the
transition matrix, the decoding), transitions.png (the matrix as a heatmap) and index.html (the graph of
states, to look at in a browser) into --output.
"""

from pathlib import Path

from lib.command_line import argument_parser, script, visible, whole

from fs_plugins.files import atomic, check_absent, json_text

GRAPH, PICTURE, PAGE = "graph.json", "transitions.png", "index.html"


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
    html = page(graph)
    args.output.mkdir(parents=True, exist_ok=True)
    graph_file, page_file = atomic(args.output / GRAPH), atomic(args.output / PAGE)
    with graph_file as text, atomic(args.output / PICTURE, "wb") as picture, page_file as shown:
        text.write(json_text(graph.to_dict()))
        transition_heatmap(graph).savefig(picture, format="png")
        shown.write(html)
        for file in (text, picture, shown):  # all of them, or none
            file.flush()
    print(visible(graph.best.text if graph.best else "no path has as many states as there are tokens"))
    print(f"{args.output}: {GRAPH}, {PICTURE}, {PAGE}")
