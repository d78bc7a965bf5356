# The runs of runs.csv: a folder for each pre-training, OUTPUT/study/NAME/lr-RATE/seed-N.
import json
from dataclasses import asdict, replace

from lib.glue.grids import points_of
from lib.glue.tasks import TASKS

STUDY = f"{OUTPUT}/study/{{name}}/lr-{{lr}}/seed-{{seed}}"
CHECKPOINT = f"{STUDY}/checkpoint_last.pt"
DATA = settings.data or f"{OUTPUT}/data-bin"


# The data of size smoke, if none are given: CPython's documentation, as in scripts/quickstart.sh.
rule quickstart_corpus:
    output:
        f"{OUTPUT}/corpus.txt",
    shell:
        "python -m lib.quickstart.english {output:q}"


rule quickstart_bpe:
    input:
        ancient(rules.quickstart_corpus.output),
    output:
        f"{OUTPUT}/bpe/tokenizer.json",
    params:
        folder=f"{OUTPUT}/bpe",
    shell:
        "python {SCRIPTS}/train_bpe.py {params.folder:q} {input:q} --vocabulary 1000"


rule quickstart_data:
    input:
        corpus=ancient(rules.quickstart_corpus.output),
        bpe=ancient(rules.quickstart_bpe.output),
    output:
        touch(f"{DATA}.done"),
    params:
        bpe=f"{OUTPUT}/bpe",
    shell:
        "python {SCRIPTS}/prepare_text.py {DATA:q} --train {input.corpus:q} --bpe {params.bpe:q} --valid-share 0.08"


def run_of(wildcards):
    return replace(results.run_named(settings, wildcards.name), lr=wildcards.lr, seed=int(wildcards.seed))


def run_as_json(wildcards):
    run = run_of(wildcards)
    return json.dumps({**asdict(run), "own_mask_prob": run.own_mask_prob})


rule pretrain:
    input:
        ancient([] if settings.data else rules.quickstart_data.output),
        rate=lambda wildcards: ancient(f"{OUTPUT}/rates/{wildcards.name}.flags" if wildcards.lr == "best" else []),
    output:
        f"{STUDY}/train.json",
    log:
        f"{STUDY}/log/pretrain.log",
    params:
        model=lambda wildcards: run_of(wildcards).model,
        folder=STUDY,
        options=lambda wildcards: results.pretrain_options(settings, run_of(wildcards)),
        row=run_as_json,
    threads: settings.threads
    resources:
        gpu=settings.gpus,
    shell:
        "{JOB} --log {log:q} -- bash {SCRIPTS}/pretrain_text.sh {params.model} {settings.size} {DATA:q}"
        " {params.folder:q} {DEVICE} {params.options:q} $(cat /dev/null {input.rate:q}) && "
        "python -m lib.study.finish {params.folder:q} {params.row:q}"


rule best_rate:
    input:
        lambda wildcards: ancient(results.rate_files(settings, wildcards.name)),
    output:
        f"{OUTPUT}/rates/{{name}}.json",
        f"{OUTPUT}/rates/{{name}}.flags",
    localrule: True
    shell:
        "python -m lib.study.best {output[0]:q} {input:q}"


for measure in results.MEASURES.index:

    rule:
        name:
            f"measure_{measure}"
        input:
            ancient(rules.pretrain.output),
        output:
            f"{STUDY}/{measure}.json",
        log:
            f"{STUDY}/log/{measure}.log",
        params:
            command=lambda wildcards, measure=measure: results.measure_command(settings, measure, run_of(wildcards)),
        resources:
            gpu=ONE,
        shell:
            "{JOB_ON_ONE} --log {log:q} -- python -m {params.command} --data {DATA:q} --output {output:q}"


# Table 6, from the last checkpoint of the pre-training.
rule finetune:
    input:
        ancient(rules.pretrain.output),
    output:
        f"{STUDY}/glue/{{task}}/seed-{{tuning_seed}}/result.json",
    log:
        f"{STUDY}/log/glue-{{task}}-seed-{{tuning_seed}}.log",
    params:
        checkpoint=CHECKPOINT,
        folder=subpath(output[0], parent=True),
        point=lambda wildcards: points_of(TASKS[wildcards.task], "table6")[0].flags.words(),
    resources:
        gpu=ONE,
    shell:
        "{JOB_ON_ONE} --log {log:q} -- bash {SCRIPTS}/finetune_glue.sh {wildcards.task} {params.checkpoint:q} {settings.glue:q} {params.folder:q}"
        " {params.point} --seed {wildcards.tuning_seed} {ONE_DEVICE}"
