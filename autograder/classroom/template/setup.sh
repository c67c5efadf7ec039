#!/usr/bin/env bash
# Gradescope runs this once, as root, when it makes the image. It installs Python, PyTorch and the grader into /autograder/grader.
set -euo pipefail
cd /autograder
export DEBIAN_FRONTEND=noninteractive

apt-get update
apt-get install -y --no-install-recommends bubblewrap libseccomp2 util-linux ca-certificates
python=""
for version in 3.13 3.12 3.11; do
    if apt-get install -y --no-install-recommends "python$version" "python$version-venv"; then
        python="python$version"
        break
    fi
done
if [ -z "$python" ]; then
    echo "This base image has no Python 3.11 or later. Choose a newer one, such as Ubuntu 22.04 or 24.04." >&2
    exit 1
fi

"$python" -m venv grader
install() { grader/bin/pip install --no-cache-dir --disable-pip-version-check "$@"; }
# The build without CUDA, from PyTorch's own index; where that cannot be reached, the usual one.
install "{torch}" --index-url https://download.pytorch.org/whl/cpu || install "{torch}"
install --requirement source/requirements.txt
install --requirement source/more_requirements.txt

packages="$(grader/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
cp -r source/package/. "$packages"
# No submission reads the sources, or imports the search for repairs, which would find the answers to most exercises.
chmod -R go-rwx source "$packages/autograder/tape/repair"
