#!/usr/bin/env bash
# From nothing to a trained ExLM on a laptop's CPU, in one command; see --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'HELP'
Trains a small ExLM on this machine's CPU and shows what it learned.

    bash scripts/quickstart.sh [text | smiles] [options]

  text               the data: English from CPython's own documentation (default)
  smiles             the molecules that RDKit ships, written as SMILES; the model is then fine-tuned on a property

  --output DIR       where everything goes (default: runs/quickstart; of smiles: runs/quickstart-smiles)
  --updates N        updates of training (default: 900; of smiles: 600)
  --k N              states for each masked token (default: 4; of smiles: 2)
  --mask-prob P      share of the tokens that are masked (default: 0.15)
  --seed N           seed of the weights, the masks and the order (default: 1)
  --arch NAME        architecture (default: exlm_tiny)
  -h, --help         this text

The first run makes .venv (see scripts/setup_env.sh). A run that was interrupted goes on where it stood when the same
command is given again; a finished one shows its table. The folder then holds table.txt, curve.png, train.log, the
corpus, the tokenizer, fairseq's binarised data-bin and the checkpoints; of smiles also property.txt, property.png
and the fine-tuned models in finetune/.
HELP
}

# shellcheck source=scripts/common.sh
source scripts/common.sh

mode=text output='' updates='' k='' mask_prob=0.15 seed=1 arch=exlm_tiny

if (($#)) && [[ $1 != -* ]]; then
    mode=$1
    shift
fi
while (($#)); do
    option=${1%%=*}
    case $option in
    -h | --help)
        usage
        exit 0
        ;;
    --output | --updates | --k | --mask-prob | --seed | --arch)
        if [[ $1 == *=* ]]; then
            value=${1#*=}
        else
            (($# > 1)) || fail "$option needs a value; see --help"
            value=$2
            shift
        fi
        shift
        ;;
    *) fail "'$1' is not an option of the quickstart; see --help" ;;
    esac
    case $option in
    --output) output=$value ;;
    --updates) updates=$value ;;
    --k) k=$value ;;
    --mask-prob) mask_prob=$value ;;
    --seed) seed=$value ;;
    --arch) arch=$value ;;
    esac
done

# What each kind of data needs: the shape of its samples, how to make data-bin, and what follows the training.
case $mode in
text)
    : "${output:=runs/quickstart}" "${updates:=900}" "${k:=4}"
    tokens_per_sample=32 break_mode=none batch_size=64 learning_rate=3e-3 warmup=60
    make_data() {
        echo "Corpus: CPython's documentation topics and docstrings"
        "$python" scripts/quickstart_corpus.py "$output"
        rm -rf "$output/data-bin"
        "$python" -m fairseq_cli.preprocess --only-source --workers 1 --destdir "$output/data-bin" \
            --trainpref "$output/encoded/train.bpe" --validpref "$output/encoded/valid.bpe" >"$output/preprocess.log" 2>&1 ||
            { tail -n 20 "$output/preprocess.log" && fail "fairseq-preprocess failed: the end of its log is above"; }
    }
    apply_model() { :; }
    ;;
smiles)
    : "${output:=runs/quickstart-smiles}" "${updates:=600}" "${k:=2}"
    tokens_per_sample=256 break_mode=eos batch_size=64 learning_rate=3e-3 warmup=60
    property_epochs=8
    make_data() {
        echo "Corpus: molecules that RDKit ships"
        "$python" scripts/quickstart_molecules.py corpus "$output"
        "$python" scripts/prepare_smiles.py "$output/data-bin" --overwrite --workers 1 \
            --train "$output/corpus/train.smi" --valid "$output/corpus/valid.smi" >"$output/prepare.log" 2>&1 ||
            { tail -n 20 "$output/prepare.log" && fail "the molecules could not be prepared: see above"; }
    }
    apply_model() {
        local name flags
        if [[ ! -e $output/property/molecules.json ]]; then
            rm -rf "$output/property"
            "$python" scripts/prepare_moleculenet.py logP "$output/property.csv" "$output/property" \
                --dict "$output/data-bin/dict.txt" --kind regression --label-columns logP \
                --split given --split-column split >"$output/property.log" 2>&1 ||
                { tail -n 20 "$output/property.log" && fail "the property could not be prepared: see above"; }
        fi
        echo "Fine-tuning on Crippen's logP, $property_epochs epochs: pre-trained, and from scratch"
        for name in pretrained scratch; do
            flags=(--cpu --seeds "$seed" --epochs "$property_epochs" --batch-size 32 --lr 1e-3)
            [[ $name == pretrained ]] || flags+=(--scratch)
            EXLM_PYTHON=$python bash scripts/finetune_moleculenet.sh bbbp "$output/checkpoints/checkpoint_last.pt" \
                "$output/property" "$output/finetune/$name" "${flags[@]}" >"$output/finetune-$name.log" 2>&1 ||
                { tail -n 20 "$output/finetune-$name.log" && fail "the fine-tuning failed: see above"; }
        done
        echo
        "$python" scripts/quickstart_molecules.py table "$output"
        echo "picture: $output/property.png   table: $output/property.txt"
    }
    ;;
*) fail "'$mode': the quickstart has no such data; there are 'text' and 'smiles'. See --help" ;;
esac

[[ -n $output && $output != *:* ]] || fail "--output '$output': fairseq takes a folder without ':' in its name"
[[ $updates =~ ^[1-9][0-9]*$ ]] || fail "--updates '$updates': give a whole number, 1 or more"
[[ $k =~ ^[1-9][0-9]*$ ]] || fail "--k '$k': give a whole number, 1 or more"
[[ $seed =~ ^[0-9]+$ ]] || fail "--seed '$seed': give a whole number, 0 or more"
[[ $mask_prob =~ ^0?\.[0-9]*[1-9][0-9]*$ ]] || fail "--mask-prob '$mask_prob': give a share between 0 and 1, such as 0.15"
[[ $arch =~ ^(exlm|p_roberta_ext_denselink)_ ]] || fail "--arch '$arch': give an ExLM, such as exlm_tiny or exlm_base"

bash scripts/setup_env.sh
python=${EXLM_VENV:-.venv}/bin/python
hold_folder "$output" --output

# A folder holds one run: never go on with a run of other settings, never show its figures as this one's.
settings="mode=$mode
arch=$arch
k=$k
mask_prob=$mask_prob
seed=$seed
updates=$updates
tokens_per_sample=$tokens_per_sample
sample_break_mode=$break_mode"
if [[ ! -e $output/settings ]] || ! holds_files "$output/checkpoints" '*.pt'; then
    [[ ! -e $output/settings || $(<"$output/settings") == "$settings" ]] || rm -f "$output"/{before,train}.{log,complete} "$output/data-bin/complete"
    printf '%s\n' "$settings" >"$output/settings"
elif [[ $(<"$output/settings") != "$settings" ]]; then
    { diff "$output/settings" <(printf '%s\n' "$settings") || true; } | sed -n 's/^< /  there: /p; s/^> /  asked: /p' >&2
    fail "$output holds a run with other settings: choose another --output, or remove that folder"
fi

if [[ ! -e $output/data-bin/complete ]]; then
    make_data
    touch "$output/data-bin/complete"
fi

model=(
    --user-dir fs_plugins --cpu --seed "$seed"
    --task masked_lm --tokens-per-sample "$tokens_per_sample" --sample-break-mode "$break_mode" --mask-prob "$mask_prob"
    --arch "$arch" --ext-state-num "$k" --criterion nat_dag_loss_mlm
    --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-6 --clip-norm 1.0 --weight-decay 0.01
    --batch-size "$batch_size" --num-workers 0 --log-format json --log-interval 10
)
schedule=(
    --lr "$learning_rate" --lr-scheduler polynomial_decay
    --warmup-updates "$((updates < 10 * warmup ? (updates + 9) / 10 : warmup))"
    --total-num-update "$updates" --max-update "$updates"
    --save-dir "$output/checkpoints" --no-epoch-checkpoints --keep-interval-updates 1
    --save-interval-updates 100 --validate-interval-updates 100 --save-interval 1000000 --validate-interval 1000000
)

train() { # train UPDATES LOG FLAGS...
    local total=$1 log=$2
    shift 2
    set -m # a process group of its own, which can be ended as a whole
    { "$python" -m fairseq_cli.train "$output/data-bin" "${model[@]}" "$@" 2>&1 |
        "$python" scripts/quickstart_report.py progress --updates "$total" --log "$log"; } &
    training=$!
    set +m
    wait "$training" || {
        tail -n 20 "$log" >&2
        fail "fairseq-train failed: the end of $log is above"
    }
    training=
}

training=
interrupted() {
    trap '' INT TERM HUP
    [[ -z $training ]] || { kill -TERM -- "-$training" && wait "$training"; } 2>/dev/null || true
    echo
    echo "interrupted: the same command goes on from the last checkpoint"
    exit 130
}
trap interrupted INT TERM HUP

newest_checkpoint() { # newest_checkpoint TARGET: copies the newest numbered checkpoint there
    local candidate newest=
    for candidate in "$output"/checkpoints/checkpoint_*_*.pt; do
        [[ ! -e $candidate || $candidate -ot $newest ]] || newest=$candidate
    done
    rm -f "$1"
    [[ -z $newest ]] || cp "$newest" "$1"
}

# The same weights as the training starts from, validated after one update with a learning rate of 0.
if [[ ! -e $output/before.complete ]]; then
    echo "Validation before training"
    rm -f "$output/before.log"
    train 1 "$output/before.log" --lr 0 --max-update 1 --no-save >/dev/null
    touch "$output/before.complete"
fi

if [[ ! -e $output/train.complete ]]; then
    echo "Training $arch, $updates updates of $batch_size samples of up to $tokens_per_sample tokens (log: $output/train.log)"
    last=$output/checkpoints/checkpoint_last.pt
    if [[ -e $last ]]; then
        echo "  going on from the last checkpoint"
        # fairseq copies it from the newest numbered one; killed in between, it is cut short.
        "$python" -m zipfile -l "$last" >/dev/null 2>&1 || newest_checkpoint "$last"
    fi
    train "$updates" "$output/train.log" "${schedule[@]}"
    touch "$output/train.complete"
fi

echo
"$python" scripts/quickstart_report.py table "$output" 2>"$output/table.log" ||
    { tail -n 20 "$output/table.log" >&2 && fail "the table could not be made: the end of its log is above"; }
echo "curve: $output/curve.png   table: $output/table.txt   log: $output/train.log"
apply_model
