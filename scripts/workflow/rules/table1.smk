# Table 1: the sets of MoleculeNet, for each model, the first model's architecture untrained, and the baselines.
BASELINES = ("forest", "dmpnn")
TABLE1 = f"{OUTPUT}/table1/{{name}}/{{data}}/seed-{{seed}}"


rule finetune_moleculenet:
    output:
        f"{TABLE1}/result.json",
    log:
        f"{OUTPUT}/table1/{{name}}/log/{{data}}-seed-{{seed}}.log",
    params:
        checkpoint=lambda wildcards: results.table1_models(settings)[wildcards.name],
        data=lambda wildcards: settings.moleculenet[wildcards.data],
        folder=TABLE1,
        scratch=lambda wildcards: "--scratch" if wildcards.name == results.UNTRAINED else "",
        epochs=f"--max-epoch {settings.max_epoch}" if settings.max_epoch else "",
    threads: settings.threads
    resources:
        gpu=ONE,
    shell:
        "{JOB_ON_ONE} --log {log:q} -- bash {SCRIPTS}/finetune_moleculenet.sh {wildcards.data} {params.checkpoint:q} {params.data:q} {params.folder:q}"
        " --seed {wildcards.seed} {params.scratch} {params.epochs} {ONE_DEVICE} {EXTRA_FLAGS}"


rule baseline:
    output:
        f"{TABLE1}/result.json",
    log:
        f"{OUTPUT}/table1/{{name}}/log/{{data}}-seed-{{seed}}.log",
    params:
        data=lambda wildcards: settings.moleculenet[wildcards.data],
        folder=TABLE1,
        job=lambda wildcards: on(ONE if wildcards.name == "dmpnn" else 0),
    wildcard_constraints:
        name="|".join(BASELINES),
    resources:
        gpu=lambda wildcards: ONE if wildcards.name == "dmpnn" else 0,
    shell:
        "{params.job} --log {log:q} -- python {SCRIPTS}/baseline_moleculenet.py"
        " {wildcards.name} {params.data:q} {params.folder:q} --seed {wildcards.seed}"


ruleorder: baseline > finetune_moleculenet
