# Table 3: GLUE, a grid search with one seed and the best point with the others; SQuAD 2.0 with every seed.
from lib.glue.tasks import FROM_MNLI

TABLE3 = f"{OUTPUT}/table3/{{name}}"


def point_flags(wildcards):
    """Of finetune_glue.sh; those of the best point are known when it was chosen."""
    points = results.glue_points(settings, wildcards.task) if wildcards.point != "best" else []
    return next((point.flags.words() for point in points if point.key == wildcards.point), [])


rule finetune_glue:
    input:
        best=lambda wildcards: ancient(
            f"{TABLE3}/glue/{{task}}/best.flags".format(**wildcards) if wildcards.point == "best" else []
        ),
    output:
        f"{TABLE3}/glue/{{task}}/{{point}}/seed-{{seed}}/result.json",
    log:
        f"{TABLE3}/log/{{task}}-{{point}}-seed-{{seed}}.log",
    params:
        checkpoint=lambda wildcards: settings.models[wildcards.name],
        folder=subpath(output[0], parent=True),
        point=point_flags,
        start=lambda wildcards: (
            f"--init-from {shlex.quote(settings.init_from[wildcards.name])}"
            if wildcards.name in settings.init_from and wildcards.task in FROM_MNLI
            else ""
        ),
    threads: settings.threads
    resources:
        gpu=ONE,
    shell:
        "{JOB_ON_ONE} --log {log:q} -- bash {SCRIPTS}/finetune_glue.sh {wildcards.task} {params.checkpoint:q} {settings.glue:q} {params.folder:q}"
        " {params.point} $(cat /dev/null {input.best:q}) --seed {wildcards.seed} {params.start} {ONE_DEVICE} {EXTRA_FLAGS}"


rule best_point:
    input:
        lambda wildcards: ancient(results.grid_files(settings, wildcards.name, wildcards.task)),
    output:
        f"{TABLE3}/glue/{{task}}/best.json",
        f"{TABLE3}/glue/{{task}}/best.flags",
    localrule: True
    shell:
        "python -m lib.study.best {output[0]:q} {input:q}"


rule finetune_squad:
    output:
        f"{TABLE3}/squad/seed-{{seed}}/result.json",
    log:
        f"{TABLE3}/log/squad-seed-{{seed}}.log",
    params:
        checkpoint=lambda wildcards: settings.models[wildcards.name],
        folder=subpath(output[0], parent=True),
        epochs=f"--max-epoch {settings.max_epoch}" if settings.max_epoch else "",
    threads: settings.threads
    resources:
        gpu=settings.gpus,
    shell:
        "{JOB} --log {log:q} -- bash {SCRIPTS}/finetune_squad.sh {params.checkpoint:q} {settings.squad:q} {params.folder:q}"
        " --seed {wildcards.seed} {params.epochs} {DEVICE} {EXTRA_FLAGS}"
