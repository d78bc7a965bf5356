#!/usr/bin/env bash
# A real SLURM of one node on this machine, for tests: controller, node and authentication, without systemd.
#
#   sudo bash tests/manual/slurm/start.sh FOLDER     # state and logs go there, the configuration to /etc/slurm/slurm.conf
#   python -m pytest tests/manual/slurm
#   sudo bash tests/manual/slurm/stop.sh FOLDER
#
# Needs Debian's packages: apt-get install --no-install-recommends slurm-wlm munge
set -euo pipefail
(($# == 1)) || { sed -n '2,8s/^# \?//p' "$0" && exit 2; }
conf=/etc/slurm/slurm.conf # where srun looks for it within a job
[[ ! -e $conf ]] || grep -q '^ClusterName=exlm-test$' "$conf" || { echo "error: $conf is another cluster's" >&2 && exit 2; }
mkdir -p "$1"/{state,spool,run} /etc/slurm
folder=$(cd "$1" && pwd)
node=$(hostname -s) cpus=$(env -u OMP_NUM_THREADS nproc) memory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo)

# munge insists on folders that only it can write to.
mkdir -p /run/munge /var/lib/munge /var/log/munge
chown munge: /run/munge /var/lib/munge /var/log/munge /etc/munge
[[ -e /etc/munge/munge.key ]] || mungekey
chown munge: /etc/munge/munge.key
pgrep -x munged >/dev/null || runuser -u munge -- munged

cat >"$conf" <<CONF
ClusterName=exlm-test
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,batch_sched_delay=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
MinJobAge=600
KillWait=10
NodeName=$node NodeAddr=127.0.0.1 CPUs=$cpus RealMemory=$memory State=UNKNOWN
PartitionName=all Nodes=$node Default=YES MaxTime=INFINITE State=UP
CONF

slurmctld
slurmd
for _ in $(seq 30); do
    [[ $(sinfo -h -o %T 2>/dev/null) != idle ]] || { sinfo && exit 0; }
    sleep 1
done
sinfo || true
tail -n 20 "$folder"/slurmctld.log "$folder"/slurmd.log >&2
echo "error: the node did not become idle within 30 s; see the logs above" >&2
exit 1
