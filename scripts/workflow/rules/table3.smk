# Table 3: GLUE, a grid search with one seed and the best point with the others; SQuAD 2.0 with every seed.
from lib.glue.tasks import FROM_MNLI

TABLE3 = f"{OUTPUT}/table3/{{name}}"


rule finetune_glue:
    output:
        f"{TABLE3}/glue/{{task}}/{{point}}/seed-{{seed}}/result.json",
    log:
        f"{TABLE3}/log/{{task}}-{{point}}-seed-{{seed}}.log",
    params:
        checkpoint=lambda wildcards: settings.models[wildcards.name],
        folder=subpath(output[0], parent=True),
        point=lambda wildcards: next(
            point.flags.words()
            for point in outputs.table3_points(settings, wildcards.task)
            if point.key == wildcards.point
        ),
        start=lambda wildcards: (
            f"--init-from {shlex.quote(str(settings.init_from[wildcards.name]))}"
            if wildcards.name in settings.init_from and wildcards.task in FROM_MNLI
            else ""
        ),
    threads: settings.threads
    resources:
        gpu=ONE,
    shell:
        "{JOB_ON_ONE} --log {log:q} -- bash {SCRIPTS}/finetune_glue.sh {wildcards.task} {params.checkpoint:q} {settings.glue:q} {params.folder:q}"
        " {params.point} --seed {wildcards.seed} {params.start} {ONE_DEVICE} {EXTRA_FLAGS}"


checkpoint best_point:
    input:
        lambda wildcards: ancient(outputs.table3_grid(settings, wildcards.name, wildcards.task)),
    output:
        f"{TABLE3}/glue/{{task}}/best.json",
    localrule: True
    shell:
        "python -m lib.glue.best {output:q} {input:q}"


rule finetune_squad:
    output:
        f"{TABLE3}/squad/seed-{{seed}}/scores.json",
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


def seeds_of_best_point(name, task):
    """A function each, so that no grid waits for another's best point."""

    def files(wildcards):
        best = checkpoints.best_point.get(name=name, task=task).output[0]
        return ancient(outputs.table3_seeds(settings, Path(best)))

    return files


rule table3:
    input:
        lambda wildcards: needed_by("table3", outputs.squad_files(settings)),
        *[seeds_of_best_point(*grid) for grid in outputs.table3_grids(settings)],
    localrule: True
    resources:
        report=1,
    shell:
        REPORT
