"""Time of features: exported models against transformers' RobertaModel of the same size.

    python scripts/benchmarks/bench_features.py pretrained/mlm-molecules pretrained/exlm-molecules

AutoModel encodes the first molecules that RDKit ships, padded to one batch; each model takes turns with a
RobertaModel of its layers, sizes and vocabulary, on one thread. The ratio is the median of those of the
pairs, by the processor time of the process.
"""

import argparse
import statistics
import sys
import time

import torch
import transformers
from lib.data.rdkit_molecules import NCI, read_molecules
from step_costs import print_head

SHARED = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")


def roberta(config, longest: int):
    settings = {name: getattr(config, name) for name in SHARED}
    settings |= {"max_position_embeddings": longest + 2, "type_vocab_size": 1, "pad_token_id": 1}
    return transformers.RobertaModel(transformers.RobertaConfig(**settings), add_pooling_layer=False)


def seconds(model, batch) -> float:
    start = time.process_time()
    model(**batch)
    return time.process_time() - start


@torch.inference_mode()
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", help="exported models")
    parser.add_argument("--molecules", type=int, default=64, help="of a batch (default: 64)")
    parser.add_argument("--pairs", type=int, default=9, help="of runs (default: 9)")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    smiles = list(read_molecules(NCI))[: args.molecules]
    print_head("bench_features.py", argv, "cpu", f"{args.molecules} molecules, median of {args.pairs} pairs")
    print("| model | ms | RobertaModel, ms | ratio |\n|---|---|---|---|")
    for folder in args.folders:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
        model = transformers.AutoModel.from_pretrained(folder, trust_remote_code=True).eval()
        batch = tokenizer(smiles, return_tensors="pt", padding=True)
        other = roberta(model.config, batch["input_ids"].shape[1]).eval()
        pairs = [(seconds(model, batch), seconds(other, batch)) for _ in range(args.pairs + 2)][2:]
        ours, theirs = (statistics.median(times) * 1e3 for times in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"| {folder} | {ours:.1f} | {theirs:.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
