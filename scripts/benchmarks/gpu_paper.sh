#!/usr/bin/env bash
# Do the states of the paper's ExLM at the paper's size stay apart? In nine minutes of one GPU: trains exlm_base with k = 2
# (two seeds) and k = 4, and p_roberta_base, for 2,000 updates of 64 x 128 tokens in bf16, the rest as in table 5;
# after each prints the validation's states and divergence, the entropies of a mask's states and, last, the joint bits of
# masked words at p = 15%. Results as gpu_check.sh's; the measures' JSON files are in OUT.
#
#   bash scripts/benchmarks/gpu_paper.sh DATA     DATA: made by prepare_text.py, such as WikiText-103
#
# Environment variables, besides those of parts.sh (OUT, LIMIT, PARTS): EXLM_PYTHON; TRAIN_FLAGS of all trainings (default:
# one GPU, bf16, 64 x 128 tokens, 2,000 updates); TRAIN_LIMIT, seconds of a training (default: 150).
if [[ $# != 1 || $1 == -* ]]; then
    sed -n '2,/^if/{/^#/s/^# \{0,1\}//p}' "$0"
    exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/environment.sh
source scripts/environment.sh
# shellcheck source=scripts/benchmarks/parts.sh
source scripts/benchmarks/parts.sh
measure=("$python" -m fs_plugins.measures)

train() { # train DATA NAME MODEL [FLAGS...]
    local folder=$out/$2 flags
    read -ra flags <<<"${TRAIN_FLAGS:---gpus 1 --bf16 --batch-size 64 --update-freq 1 --tokens-per-sample 128 --num-workers 4 --updates 2000}"
    bash scripts/pretrain_text.sh "$3" paper "$1" "$folder" "${@:4}" "${flags[@]}" \
        --validate-interval-updates 500 --max-valid-steps 20 --no-epoch-checkpoints || return
    echo "| $2 | $(grep -o '"valid_\(loss\|states\|divergence\)": "[^"]*"' "$folder/train.log" | tail -n 3 | tr '\n' ' ')|"
    measured entropy "$folder/checkpoint_last.pt"
}

measured() { # measured MEASURE CHECKPOINT...: a row for each
    local json=$out/$1-$(basename "$(dirname "$2")").json
    "${measure[@]}" "$@" --mask-prob 0.15 --max-sentences 200 --output "$json" --overwrite || return
    "$python" - "$json" <<'PYTHON'
import json
import sys

for row in json.load(open(sys.argv[1]))["rows"]:
    [result] = row["results"]
    means = {name: value["mean"] for name, value in result.items() if isinstance(value, dict)}
    cells = [f"{name} {mean:.4f}" for name, mean in means.items()]
    print("|", " | ".join([row["checkpoint"].split("/")[-2], *cells]), "|")
PYTHON
}

part exlm-k2-1 "${TRAIN_LIMIT:-150}" train "$1" exlm-k2-1 exlm --k 2 --seed 1
part mlm-1 "${TRAIN_LIMIT:-150}" train "$1" mlm-1 mlm --seed 1
part exlm-k4-1 "${TRAIN_LIMIT:-150}" train "$1" exlm-k4-1 exlm --k 4 --seed 1
part exlm-k2-2 "${TRAIN_LIMIT:-150}" train "$1" exlm-k2-2 exlm --k 2 --seed 2
part joint 60 measured joint "$out"/*/checkpoint_last.pt
