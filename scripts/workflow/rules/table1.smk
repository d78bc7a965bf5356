# Table 1: the sets of MoleculeNet, for each model, the first model's architecture untrained, and a random forest.
TABLE1 = f"{OUTPUT}/table1/{{name}}/{{data}}/seed-{{seed}}"


rule finetune_moleculenet:
    output:
        f"{TABLE1}/metrics.json",
    log:
        f"{OUTPUT}/table1/{{name}}/log/{{data}}-seed-{{seed}}.log",
    params:
        checkpoint=lambda wildcards: outputs.table1_models(settings)[wildcards.name],
        data=lambda wildcards: settings.moleculenet[wildcards.data],
        folder=TABLE1,
        scratch=lambda wildcards: "--scratch" if wildcards.name == outputs.UNTRAINED else "",
        epochs=f"--max-epoch {settings.max_epoch}" if settings.max_epoch else "",
    wildcard_constraints:
        data="[^/]+",
    threads: settings.threads
    resources:
        gpu=settings.gpus,
    shell:
        "{JOB} --log {log:q} -- bash {SCRIPTS}/finetune_moleculenet.sh {wildcards.data} {params.checkpoint:q} {params.data:q} {params.folder:q}"
        " --seed {wildcards.seed} {params.scratch} {params.epochs} {DEVICE} {EXTRA_FLAGS}"


rule random_forest:
    output:
        f"{OUTPUT}/table1/{outputs.FOREST}/{{data}}/seed-{{seed}}/metrics.json",
    log:
        f"{OUTPUT}/table1/{outputs.FOREST}/log/{{data}}-seed-{{seed}}.log",
    params:
        data=lambda wildcards: settings.moleculenet[wildcards.data],
        folder=f"{OUTPUT}/table1/{outputs.FOREST}/{{data}}",
    shell:
        "python -m recipes.on_gpu --gpus 0 --log {log:q} -- python {SCRIPTS}/baseline_moleculenet.py"
        " {params.data:q} {params.folder:q} --seeds {wildcards.seed}"


ruleorder: random_forest > finetune_moleculenet


rule table1:
    input:
        lambda wildcards: needed_by("table1", outputs.table1_files(settings)),
    localrule: True
    resources:
        report=1,
    shell:
        REPORT
