#!/usr/bin/env bash
# Training on a GPU: exlm_base for some updates by the authors' command with --fp16, then with --bf16, and fairseq's own
# roberta_base with masked_lm at the same settings; prints sentences without a finite likelihood, first and last loss,
# and the time of an update over RoBERTa's.
#
#   bash scripts/benchmarks/gpu_train_check.sh DATA [UPDATES]     DATA: text binarised by fairseq-preprocess --only-source
#
# Environment variables: PYTHON (default: .venv/bin/python if it is there, else python3), OUT (default:
# runs/gpu_train_check), BATCH_SIZE (64), UPDATE_FREQ (1), MODEL_FLAGS (for both models, such as "--encoder-layers 2"),
# DEVICE_FLAGS (default --fp16 and --bf16 in turn; "--cpu" tries the script without a GPU).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

data=${1:-} updates=${2:-200}
[[ -n $data && -f $data/dict.txt ]] || {
    echo "error: give a folder of binarised text: there is no '$data/dict.txt'" >&2
    exit 2
}
[[ $updates =~ ^[1-9][0-9]*$ ]] && ((updates >= 20)) || {
    echo "error: UPDATES '$updates': a whole number, 20 or more" >&2
    exit 2
}
python=${PYTHON:-}
if [[ -z $python ]]; then
    python=python3
    [[ -x .venv/bin/python ]] && python=.venv/bin/python
fi
out=${OUT:-runs/gpu_train_check}
mkdir -p "$out"
read -r -a model_flags <<<"${MODEL_FLAGS:-}"
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0} # one GPU, unless told otherwise
precisions=(${DEVICE_FLAGS:---fp16 --bf16})

# The authors' settings, but for what is saved, validated and the length of the run.
common=(
    --task masked_lm --max-positions 2048 --mask-prob 0.15 --leave-unmasked-prob 0 --random-token-prob 0
    --sample-break-mode none --tokens-per-sample 128
    --optimizer adam --adam-betas '(0.9,0.98)' --adam-eps 1e-6 --clip-norm 0.0 --weight-decay 0.01
    --lr-scheduler polynomial_decay --lr 2e-3 --warmup-updates 1380 --total-num-update 23000 --max-update "$updates"
    --batch-size "${BATCH_SIZE:-64}" --update-freq "${UPDATE_FREQ:-1}" --dropout 0.1 --attention-dropout 0.1
    --no-save --disable-validation --num-workers 4 --seed 1 --log-format json --log-interval 10
)

train() { # train NAME FLAGS...
    local name=$1
    shift
    echo "training $name (log: $out/$name.log)"
    "$python" -m fairseq_cli.train "$data" --user-dir fs_plugins "${common[@]}" "$@" >"$out/$name.log" 2>&1 || {
        tail -n 15 "$out/$name.log" >&2
        echo "error: training $name failed: the end of its log is above" >&2
        exit 1
    }
}

for precision in "${precisions[@]}"; do
    scale=()
    [[ $precision == --fp16 ]] && scale=(--fp16-scale-tolerance 0.1 --fp16-scale-window 50)
    train "exlm${precision/--/_}" --arch p_roberta_ext_denselink_base --encoder-normalize-before --ext-state-num 4 \
        --criterion nat_dag_loss_mlm "$precision" "${scale[@]}" "${model_flags[@]}"
    train "roberta${precision/--/_}" --arch roberta_base --criterion masked_lm "$precision" "${scale[@]}" \
        "${model_flags[@]}"
done

"$python" - "$out" "${precisions[@]}" <<'PYTHON'
import json, statistics, sys

out, *precisions = sys.argv[1:]

def lines(name):
    with open(f"{out}/{name}.log", encoding="utf-8") as log:
        for line in log:
            if "train_inner" in line and "{" in line:
                yield json.loads(line[line.index("{"):])

print("\n| model | precision | updates | first loss | last loss | non-finite | ms/update (median) | over RoBERTa |")
print("|---|---|---|---|---|---|---|---|")
bad = 0
for precision in precisions:
    seconds = {}
    for model in ("roberta", "exlm"):
        logs = list(lines(f"{model}{precision.replace('--', '_')}"))
        seconds[model] = statistics.median(1 / float(log["ups"]) for log in logs[1:])
        nonfinite = sum(int(log.get("nonfinite", 0)) for log in logs)
        bad += nonfinite
        ratio = seconds[model] / seconds["roberta"]
        print(f"| {model}_base | {precision[2:]} | {logs[-1]['num_updates']} | {logs[0]['loss']} | {logs[-1]['loss']} "
              f"| {nonfinite if model == 'exlm' else ''} | {1000 * seconds[model]:.1f} | {ratio:.2f} |")
sys.exit(bad > 0)
PYTHON
