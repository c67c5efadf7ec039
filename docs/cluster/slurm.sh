#!/bin/bash
# One Slurm job with scheduler, workers and client in it. In the course's folder, in an environment with autograd-er[cluster]:
#   sbatch docs/cluster/slurm.sh ASSIGNMENT
# The folder has to be on a disk that all nodes see. With a walltime too short, submit it again: --resume goes on.
#SBATCH --job-name=grading
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --mem-per-cpu=2G
#SBATCH --time=01:00:00
set -euo pipefail

assignment=$1
certificates=$(mktemp --directory --tmpdir="$PWD" .certificates-XXXX)
autograder cluster certificates "$certificates/made" >"$certificates/log"
files="--tls-ca-file $certificates/made/ca.pem --tls-cert $certificates/made/cert.pem --tls-key $certificates/made/key.pem"
address=tls://$(hostname --fqdn):8786

dask scheduler --protocol tls --port 8786 --no-dashboard $files &
scheduler=$!
srun dask worker "$address" --nthreads "$SLURM_CPUS_PER_TASK" --no-dashboard --local-directory /tmp $files &
workers=$!
trap 'kill $workers $scheduler 2>/dev/null || true; rm -rf "$certificates"' EXIT

autograder grade "$assignment" --course . --resume --cluster "$address" --certificates "$certificates/made"
