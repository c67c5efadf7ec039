#!/bin/bash
# One Slurm job that contains the scheduler, the workers and the client. Submit it in the course's folder, in an environment with
# autograd-er[cluster]:
#   sbatch docs/cluster/slurm.sh ASSIGNMENT
# All nodes have to see the folder. If the walltime was too short, submit it again: --resume goes on.
#SBATCH --job-name=grading
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --mem-per-cpu=2G
#SBATCH --time=01:00:00
set -euo pipefail

assignment=$1
certificates=$(mktemp --directory --tmpdir="$PWD" .certificates-XXXX)
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=dask -keyout "$certificates/key.pem" -out "$certificates/cert.pem" 2>/dev/null
cp "$certificates/cert.pem" "$certificates/ca.pem"
files="--tls-ca-file $certificates/ca.pem --tls-cert $certificates/cert.pem --tls-key $certificates/key.pem"
address=tls://$(hostname --fqdn):8786

dask scheduler --protocol tls --port 8786 --no-dashboard $files &
scheduler=$!
srun dask worker "$address" --nthreads "$SLURM_CPUS_PER_TASK" --no-dashboard --local-directory /tmp $files &
workers=$!
trap 'kill $workers $scheduler 2>/dev/null || true; rm -rf "$certificates"' EXIT

autograder grade "$assignment" --course . --resume --cluster "$address" --certificates "$certificates"
