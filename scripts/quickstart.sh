#!/usr/bin/env bash
# Trains the vanilla MLM and ExLM (k = 2, p = 15%) side by side on this machine's CPU, and shows what each has learned:
#
#   bash scripts/quickstart.sh [smiles | text] [options]
#
#   smiles        the molecules that RDKit ships (default)
#   text          English from CPython's documentation
#   --output DIR  where everything goes (default: runs/quickstart-smiles or runs/quickstart-text)
#   --updates N   of each pre-training (default: 1200; smiles: 600)
#   --seed N      random seed (default: 1)
#
# It takes about 3 minutes on two cores; the first call also makes .venv. If interrupted, rerun the same command to
# resume. Each step is a script that you can call yourself; DIR holds what they write, table.txt and two pictures.
set -euo pipefail
((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 403)) || { echo "error: needs bash 4.3; this is $BASH_VERSION" >&2 && exit 2; }
here=$PWD
for name in EXLM_VENV EXLM_PYTHON; do # may be relative
    [[ ${!name:-/} == /* || ${!name} != */* ]] || export "$name=$PWD/${!name}"
done
CDPATH="" cd "$(dirname "${BASH_SOURCE[0]}")/.."

kind='' output='' updates='' p=0.15 seed=1
while (($#)); do
    case $1 in
    text | smiles) [[ -z $kind ]] || { echo "error: give $kind or $1" >&2 && exit 2; } && kind=$1 && shift ;;
    --output | --updates | --seed) declare "${1#--}=${2?error: $1 needs a value; see --help}" && shift 2 ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' scripts/quickstart.sh && exit ;;
    *) echo "error: unknown option '$1'; see --help" >&2 && exit 2 ;;
    esac
done
for number in "${updates:-1}" "$seed"; do
    [[ $number =~ ^[1-9][0-9]{0,8}$ ]] || { echo "error: '$number': --updates and --seed take a whole number of at least 1" >&2 && exit 2; }
done
: "${kind:=smiles}"
[[ -z $output || $output == /* ]] || output=$here/$output
out=${output:-runs/quickstart-$kind}

[[ -n ${EXLM_PYTHON:-} ]] || bash scripts/setup_env.sh
# shellcheck source=scripts/environment.sh
source scripts/environment.sh
export OMP_NUM_THREADS=1 # for each training; models this small gain little from more
mkdir -p "$out"

# train MODEL FLAG...: trains $out/MODEL in the background; shows its progress
trainings=()
train() {
    set -m # in a process group of its own, to be ended as a whole
    bash "scripts/pretrain_$kind.sh" "$1" quickstart "$out/data-bin" "$out/$1" --cpu --seed "$seed" "${@:2}" |
        sed -un 's#.*| valid | .*"valid_loss": "\([^"]*\)".*"valid_num_updates": "\([^"]*\)".*#'"  $1: update \2, valid loss \1#p; /^error/p" ||
        { echo "error: $1 failed: see above, or the end of $out/$1/train.log" >&2 && exit 1; } &
    trainings+=($!)
    set +m
}
stop() { while kill -- ${trainings[@]+"${trainings[@]/#/-}"} 2>/dev/null; do sleep 0.2; done; }
trap stop EXIT # also if one of them fails
trap 'echo "interrupted: rerun the same command to resume" >&2; exit 130' INT TERM HUP

if [[ $kind == text ]]; then
    : "${updates:=1200}"
    sentence='Return the number of <mask> in the <mask>.'
    [[ -e $out/corpus.txt ]] || "$python" -m lib.data.python_docs "$out/corpus.txt"
    [[ -e $out/bpe/tokenizer.json ]] || "$python" scripts/train_bpe.py "$out/bpe" "$out/corpus.txt" --vocabulary 400
    [[ -e $out/data-bin ]] || "$python" scripts/prepare_text.py "$out/data-bin" --train "$out/corpus.txt" --bpe "$out/bpe" --valid-share 0.08
else
    : "${updates:=600}"
    sentence='CC(=O)<mask>c1ccccc1C(=<mask>)O' # aspirin
    if [[ ! -e $out/data-bin ]]; then
        rdkit=$("$python" -c 'from rdkit.RDConfig import RDDataDir; print(RDDataDir)')
        "$python" scripts/prepare_smiles.py "$out/data-bin" --no-header --max-tokens 80 --valid-share 0.02 \
            --train "$rdkit/NCI/first_5K.smi" "$rdkit/Pains/test_data/wehi_mols.csv"
    fi
fi

echo "Pre-training two models, some 2 minutes on two cores; each has a loss of its own"
flags=(--updates "$updates" --p "$p" --log-interval "$(((updates + 29) / 30))" --save-interval-updates "$(((updates + 5) / 6))" --keep-interval-updates -1)
train mlm "${flags[@]}"
train exlm "${flags[@]}" --k 2
for _ in "${trainings[@]}"; do wait -n; done # the first that fails ends all
trainings=()

shopt -s nullglob # a checkpoint of an interval is kept within an epoch, not where it ends
echo "Scoring the checkpoints on the same masked tokens: a minute"
"$python" -m fs_plugins.measures joint "$out"/{mlm,exlm}/checkpoint_{*_*,last}.pt --mask-prob "$p" \
    --max-sentences 500 --device cpu --output "$out/joint.json" --overwrite
"$python" -m lib.report.quickstart "$out" "$sentence"
quoted=$(printf %q "$out")
cat <<END
Next: source ${EXLM_VENV:-.venv}/bin/activate
      python scripts/explore.py $quoted/exlm/checkpoint_last.pt '$sentence' --output $quoted/explore    # its graph of states, as a page
README.md goes on with models and data of your own.
END
