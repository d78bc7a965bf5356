# shellcheck shell=bash
# The Python that trains, and this clone's modules; to be sourced.
#
# Environment: EXLM_PYTHON is the Python to train with (default: that of EXLM_VENV, else .venv's, else python3);
# CUDA_VISIBLE_DEVICES; OMP_NUM_THREADS, for a CPU (default: all cores).
unset CDPATH # of which cd would go, and print, where it is set
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${EXLM_PYTHON:-${EXLM_VENV:-$root/.venv}/bin/python}
if ! command -v "$python" >/dev/null; then
    [[ -z ${EXLM_PYTHON:-}${EXLM_VENV:-} ]] || { echo "error: there is no $python: see EXLM_PYTHON, EXLM_VENV" >&2 && exit 2; }
    python=python3
fi
export PYTHONPATH=$root:$root/scripts${PYTHONPATH:+:$PYTHONPATH} # this clone's, whatever is installed
export PYTHONSAFEPATH=1                                          # a folder lib/ in the working directory is not ours
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}               # idle threads sleep: spinning ones slow down a shared machine
