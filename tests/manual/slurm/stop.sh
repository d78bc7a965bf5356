#!/usr/bin/env bash
# Stops what tests/manual/slurm/start.sh FOLDER started, and removes the configuration; munged stays.
set -euo pipefail
(($# == 1)) || { sed -n '2s/^# //p' "$0" && exit 2; }
for name in slurmd slurmctld; do
    [[ ! -e $1/run/$name.pid ]] || kill "$(<"$1/run/$name.pid")"
done
conf=/etc/slurm/slurm.conf # with it, but without a controller, Snakemake waits for an answer at each start
[[ ! -e $conf ]] || ! grep -q '^ClusterName=exlm-test$' "$conf" || rm "$conf"
