#!/usr/bin/env bash
# Stops what tests/slurm/start.sh FOLDER started; munged stays.
set -euo pipefail
(($# == 1)) || { sed -n '2s/^# //p' "$0" && exit 2; }
for name in slurmd slurmctld; do
    [[ ! -e $1/run/$name.pid ]] || kill "$(<"$1/run/$name.pid")"
done
