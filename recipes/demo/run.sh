#!/bin/sh
# The demonstration from nothing: packages, a virtual environment, a kernel history with a planted slowdown, the hunt.
# Everything after the options of this script goes to `bisector demo`; see: sh recipes/demo/run.sh --help
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/recipes/demo/setup.sh"
ensure_packages "python3-venv $LAB_PACKAGES $KERNEL_PACKAGES"
ensure_venv "$root" ""
exec "$root/.venv/bin/bisector" demo "$@"
