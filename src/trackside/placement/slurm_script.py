"""The batch script of a group: it starts a supervisor on each node of its allocation, and keeps it.

Supervisors are steps with the names of their hosts, so that Slurm shows which of them run. One that
is killed is started again; the step, and with it the node, is given back when it has ended.
"""

import base64
import shlex
from collections.abc import Mapping, Sequence

from trackside.placement.placement import Group

NO_PYTHON = 78
"""The exit code of a node that has no interpreter with Trackside."""
MOST_BUNDLE = 120_000
"""Linux takes at most 128 KiB in one variable."""
_WIDTH = 100

_SCRIPT = """\
#!/bin/bash
# Trackside's supervisors of the job {job}, group {epoch}.
umask 077
ends() {{ date -d "$(squeue -h -j "$SLURM_JOB_ID" -o %e)" +%s 2>/dev/null; }}
[ -n "$SLURM_JOB_END_TIME" ] || exec 7< <(ends) # older versions do not set it; answered meanwhile
export TRACKSIDE_GROUP="$(base64 -d <<'END_OF_BUNDLE'
{bundle}
END_OF_BUNDLE
)"
hosts=({hosts})
nodes=("$SLURM_JOB_NODELIST")
if [ ${{#hosts[@]}} -gt 1 ]; then # one host needs no address
  if command -v scontrol >/dev/null; then
    nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
    known=$(scontrol show node --oneliner "$SLURM_JOB_NODELIST")
  else
    nodes=($(srun --ntasks-per-node=1 sh -c 'echo "$SLURM_PROCID $SLURMD_NODENAME"' | sort -n |
      cut -d' ' -f2))
    known=
  fi
  addresses=
  for node in "${{nodes[@]}}"; do
    found=$(sed -n "s/^NodeName=$node .* NodeAddr=\\([^ ]*\\).*/\\1/p" <<<"$known")
    addresses+=,${{found:-$node}}
  done
  export TRACKSIDE_GROUP_ADDRESSES=${{addresses#,}}
fi
supervise() {{ # PYTHON NAME: until it ends by itself
  for ((try = 0; try < {tries}; try++)); do
    {supervisor} "$2"
    code=$?
    [ $code -gt 128 ] || return $code
  done
  return $code
}}
host() {{ # NAME: on its node
{prolog}
  folder=${{SLURM_TMPDIR:-${{TMPDIR:-/tmp}}}}/trackside-$UID
  export TRACKSIDE_HOME=$folder/$SLURM_JOB_ID.$1
  mkdir -p "$TRACKSIDE_HOME" || exit
  trap : TERM  # of the whole step: the supervisor has got it as well
  for python in {pythons}; do
    command -v "$python" >/dev/null || continue
    supervise "$python" "$1"
    code=$?
    if [ $code = 0 ]; then
      "$python" -P -m trackside.supervisor --leave
      exit 0
    fi
    "$python" -P -c 'import trackside' 2>/dev/null && exit $code
  done
  echo "no interpreter with Trackside on $SLURMD_NODENAME; tried: {pythons}" >&2
  exit {no_python}
}}
export -f host supervise
ended=$(mktemp)
[ -n "$SLURM_JOB_END_TIME" ] || read -r SLURM_JOB_END_TIME <&7
exec 7<&-
export TRACKSIDE_GROUP_ENDS=$SLURM_JOB_END_TIME
step() {{ # NUMBER: the comment of the job says which hosts have ended, until all have
  srun --job-name="${{hosts[$1]}}" --nodelist="${{nodes[$1]}}" --nodes=1 --ntasks=1 {step} \\
    --kill-on-bad-exit=0 bash -c 'host "$1"' trackside "${{hosts[$1]}}" </dev/null
  local code=$?
  (
    flock 9
    echo "${{hosts[$1]}}=$code" >&9
    scontrol update job="$SLURM_JOB_ID" comment="$(tr '\\n' ' ' <"$ended")"
  ) 9>>"$ended" 2>/dev/null
  return $code
}}
trap : TERM
steps=()
for number in "${{!hosts[@]}}"; do
  step "$number" &
  steps+=($!)
done
status=0
for step in "${{steps[@]}}"; do
  until wait "$step"; code=$?; ! kill -0 "$step" 2>/dev/null; do :; done
  [ $code = 0 ] || status=$code
done
rm -f "$ended"
exit $status
"""
_TRIES = 20


def batch_script(group: Group, pythons: Sequence[str], step: Sequence[str], prolog: str) -> str:
    """`step` are further options of `srun`."""
    if len(group.bundle) > MOST_BUNDLE:
        raise ValueError(
            f"the job's request has {len(group.bundle)} bytes with its variables, and Slurm's "
            f"hosts take at most {MOST_BUNDLE}; put long values into a file of its source"
        )
    text = base64.b64encode(group.bundle.encode()).decode()
    lines = [text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH)]
    _, *supervisor = group.command
    return _SCRIPT.format(
        job=group.job,
        epoch=group.epoch,
        prolog=prolog or "  :",
        bundle="\n".join(lines),
        hosts=shlex.join(host.name for host in group.hosts),
        pythons=shlex.join(pythons),
        no_python=NO_PYTHON,
        tries=_TRIES,
        supervisor=f'"$1" {shlex.join(supervisor)} --group',
        step=shlex.join(step),
    )


_PASSED = (
    "CONDA_",
    "HOME",
    "LANG",
    "LC_",
    "LD_LIBRARY_PATH",
    "LMOD_",
    "LOADEDMODULES",
    "LOGNAME",
    "MODULE",
    "MUNGE_",
    "PATH",
    "PYTHONPATH",
    "SBATCH_",
    "SHELL",
    "SLURM_",
    "TMPDIR",
    "USER",
    "VIRTUAL_ENV",
    "_LMFILES_",
)


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """What `sbatch` takes along from a login node: where programs are, as modules and conda set it.
    Nothing else of the submitter's; what the job needs is in its bundle."""
    return {name: value for name, value in environ.items() if name.startswith(_PASSED)}
