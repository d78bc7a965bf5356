"""What an ExLM makes of a sentence with masks (figures 7, 10 and 11 of the paper).

    python scripts/explore.py pretrained/exlm-molecules "CC(=O)<mask>c1ccccc1C(=<mask>)O"

prints each state's most probable tokens, and the best and some sampled decodings of the sentence; writes
filling.json (all of it, with the transition matrix), transitions.png (the matrix as a heatmap; with one word
a state: transitions_one_word.png) and index.html (the graph of states and the decodings, to explore in a
browser or save as SVG) into --output.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lib.command_line import argument_parser, script, visible

PAGE = "index.html"


def percent(p: float) -> str:
    return f"{100 * p:.1f}%" if p >= 0.0995 else f"{100 * p:.2g}%"


def describe(filling) -> str:
    """The text that the terminal shows."""
    lines = [
        filling.text,
        f"{filling.masks} mask{'s' * (filling.masks > 1)}, k = {filling.k}: {len(filling.nodes)} nodes",
    ]
    for symbol in filling.unknown:
        lines.append(f"NOTE: {symbol!r} is not in the dictionary: the model reads <unk> there")
    lines += [f"NOTE: {note}" for note in filling.notes]
    lines += ["", f"node  {'state':<10} {'passed':>7}  most probable words"]
    for node in filling.nodes:
        words = "  ".join(f"{word.text} {percent(word.prob)}" for word in node.words)
        state = f"{node.group}.{node.copy}"
        lines.append(f"{node.index:>4}  {state:<10} {percent(node.visit_prob):>7}  {words}")
    exactly = f"{filling.masks} word{'s' * (filling.masks > 1)}"
    lines += ["", f"By the transitions, {percent(filling.length_prob)} of the paths have {exactly}."]
    lines += ["", "  log P (nats) of", "    path all paths  reading [path]"]
    for title, readings in (
        (f"Best decoding of {exactly}", [filling.best]),
        ("Best decoding of any number of words", [filling.best_free]),
        (f"Sampled decodings of {exactly}", filling.samples),
        ("Sampled decodings of any number of words", filling.samples_free),
    ):
        lines += [title] if readings else []
        lines += [describe_reading(reading) for reading in readings]
    return "\n".join(lines)


def describe_reading(reading) -> str:
    if reading is None:
        return "    there is none: no path has so many nodes"
    path = " ".join(map(str, reading.nodes))
    return f"{reading.log_prob:8.2f} {reading.total_log_prob:9.2f}  {reading.text}  [{path}]"


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("model", type=Path, help="a checkpoint of an ExLM, or a folder that export_huggingface.py wrote")
    add("text", help="a sentence with <mask>s; each stands for one symbol of the dictionary")
    add("--top", type=int, default=5, metavar="N", help="words to show for each state (default: %(default)s)")
    sampled = "sampled decodings to show, of each kind (default: %(default)s)"
    add("--samples", type=int, default=5, metavar="N", help=sampled)
    add("--seed", type=int, default=1, help="random seed of the samples (default: %(default)s)")
    output = "folder to write into (default: %(default)s)"
    add("--output", type=Path, default=Path("outputs/explore"), metavar="DIR", help=output)
    edge = "minimum transition probability to draw; index.html has a slider for it (default: %(default)s)"
    add("--min-edge", type=float, default=0.1, metavar="P", help=edge)
    add("--data", type=Path, metavar="DIR", help="folder of dict.txt (default: the one of the training)")
    written = (
        "how the corpus was written: encoder.json and vocab.bpe (GPT-2 BPE), a tokenizer.json, smiles, or "
        "none for symbols between blanks (default: what lies beside the dictionary, else none)"
    )
    add("--bpe", nargs="+", metavar="FILE", help=written)
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU where there is one)")
    args = parser.parse_args(argv)
    from fs_plugins.inference.loading import load_explorer
    from fs_plugins.inference.page import page
    from fs_plugins.inference.plots import transition_heatmap

    args.output.mkdir(parents=True, exist_ok=True)
    explorer = load_explorer(args.model, data=args.data, bpe=args.bpe, device=args.device)
    filling = explorer.fill(args.text, top=args.top, samples=args.samples, seed=args.seed)
    print(visible(describe(filling)))
    pictures = {
        "transitions.png": transition_heatmap(filling),
        "transitions_one_word.png": transition_heatmap(filling, words=1),
    }
    text = json.dumps(filling.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
    (args.output / "filling.json").write_text(text + "\n", encoding="utf-8")
    for name, picture in pictures.items():
        picture.savefig(args.output / name)
    (args.output / PAGE).write_text(page(filling, args.min_edge), encoding="utf-8")
    print(f"\n{args.output}: filling.json, {', '.join(pictures)}, {PAGE}")


if __name__ == "__main__":
    sys.exit(main())
