#!/usr/bin/env bash
# Runs the study, table 3 and table 1 at size smoke, each once whole and once killed three times, and compares them.
#
#   bash tests/workflow/interrupt_smoke.sh DATA OUTPUT [study] [table3] [table1]
#
# DATA has glue/, squad2/, text/ (wiki_*.txt.gz), moleculenet/ and smiles/. Needs Snakemake; takes the best part of an
# hour on two cores. Rerun the same command to resume. STUDY holds more settings of the study, such as
# STUDY='only=k=4 updates=40'.
set -euo pipefail
(($# >= 2)) || { sed -n '2,8s/^# \?//p' "$0" && exit 2; }
data=$(realpath "$1")
mkdir -p "$2"
output=$(realpath "$2")
shift 2
targets=${*:-study table3 table1}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export OMP_NUM_THREADS=1 PYTHONPATH=$PWD:$PWD/scripts

interrupt() { # interrupt TARGET SETTING...
    python tests/workflow/interrupt.py "$output/$1" "$1" -- --cores 2 --config size=smoke "${@:2}"
}

first() { # first N FILE.gz OUTPUT: the lines of its first N bytes, once, as prepare_*.py look at the time of a change
    [[ ! -e $3 ]] || return 0
    (gzip -dc "$2" 2>/dev/null || true) | head -c "$1" | sed '$d' >"$3.partial"
    mv "$3.partial" "$3"
}

squad() { # squad FILE N: three paragraphs of each of the first N articles
    python -c 'import gzip, json, sys
content = json.load(gzip.open(sys.argv[1]))
articles = content["data"][:int(sys.argv[2])]
content["data"] = [article | {"paragraphs": article["paragraphs"][:3]} for article in articles]
json.dump(content, sys.stdout)' "$@"
}

if [[ $targets == *study* ]]; then
    # shellcheck disable=SC2086
    interrupt study ${STUDY:-}
fi

if [[ $targets == *table3* ]]; then
    if [[ ! -e $output/text.done ]]; then
        first 3000000 "$data/text/wiki_train.txt.gz" "$output/train.txt"
        first 100000 "$data/text/wiki_valid.txt.gz" "$output/valid.txt"
        python scripts/train_bpe.py "$output/bpe" "$output/train.txt" --vocabulary 600
        python scripts/prepare_text.py "$output/text" --bpe "$output/bpe" --workers 1 \
            --train "$output/train.txt" --valid "$output/valid.txt"
        python scripts/prepare_glue.py "$data/glue" "$output/glue" --data "$output/text" --tasks RTE --train-rows 200
        squad "$data/squad2/devsplit-train-v2.0.json.gz" 20 >"$output/squad-train.json"
        squad "$data/squad2/devsplit-dev-v2.0.json.gz" 4 >"$output/squad-dev.json"
        python scripts/prepare_squad.py "$output/squad" --data "$output/text" \
            --train "$output/squad-train.json" --valid "$output/squad-dev.json"
        for model in exlm mlm; do
            bash scripts/pretrain_text.sh $model smoke "$output/text" "$output/text-$model" --cpu --updates 60 \
                --tokens-per-sample 128 >/dev/null
        done
        touch "$output/text.done"
    fi
    interrupt table3 "models=exlm=$output/text-exlm/checkpoint_last.pt,mlm=$output/text-mlm/checkpoint_last.pt" \
        "glue=$output/glue" "squad=$output/squad" only=batch=16,epochs=2,warmup=0.06 finetune_seeds=1,2 \
        "finetune_flags=--max-update 30 --save-interval-updates 10"
fi

if [[ $targets == *table1* ]]; then
    if [[ ! -e $output/smiles.done ]]; then
        first 1000000 "$data/smiles/moses_train.txt.gz" "$output/molecules.smi"
        python scripts/prepare_smiles.py "$output/smiles" --train "$output/molecules.smi"
        for set in BACE BBBP; do
            python scripts/prepare_moleculenet.py "${set,,}" "$data/moleculenet/$set.csv.gz" "$output/${set,,}" \
                --dictionary "$output/smiles" --max-unknown 1
        done
        for model in exlm mlm; do
            bash scripts/pretrain_smiles.sh $model smoke "$output/smiles" "$output/smiles-$model" --cpu \
                --updates 60 >/dev/null
        done
        touch "$output/smiles.done"
    fi
    interrupt table1 "models=exlm=$output/smiles-exlm/checkpoint_last.pt,mlm=$output/smiles-mlm/checkpoint_last.pt" \
        "moleculenet=bace=$output/bace,bbbp=$output/bbbp" finetune_seeds=1 max_epoch=2
fi
