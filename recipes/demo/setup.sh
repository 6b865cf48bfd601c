# What the demonstration and the tests need on a fresh Debian or Ubuntu machine. Sourced, not run.
# Idempotent; usable without root when the packages are there.

# $1: packages that must be installed, separated by spaces.
ensure_packages() {
    missing=""
    for package in $1; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
            missing="$missing $package"
    done
    [ -z "$missing" ] && return 0
    if [ "$(id -u)" -ne 0 ]; then
        echo "Missing packages:$missing" >&2
        echo "Install them, then run this again:  sudo apt-get install$missing" >&2
        exit 2
    fi
    echo "Installing:$missing" >&2
    export DEBIAN_FRONTEND=noninteractive
    # An old list names versions that are gone: refresh it only if the first try fails.
    # shellcheck disable=SC2086
    apt-get install -y --no-install-recommends $missing >/dev/null 2>&1 || {
        apt-get update -qq >&2
        apt-get install -y --no-install-recommends $missing >/dev/null || {
            echo "apt-get could not install:$missing" >&2
            exit 2
        }
    }
}

# The first Python that runs, is new enough and can make a virtual environment.
find_python() {
    for python in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$python"
            return 0
        fi
    done
    echo "No Python >= 3.11 with venv:  sudo apt-get install python3 python3-venv" >&2
    return 2
}

# $1: the project's root; $2: extras like "[test]" or "". Makes $1/.venv and installs the project there.
ensure_venv() {
    venv="$1/.venv"
    wanted=$(cksum <"$1/pyproject.toml")
    installed=$(cat "$venv/installed" 2>/dev/null || true)
    # What was installed with extras also serves whoever asks for none.
    if "$venv/bin/python" -c '' 2>/dev/null &&
        { [ "$installed" = "$wanted $2" ] || { [ -z "$2" ] && [ "${installed#"$wanted "}" != "$installed" ]; }; }; then
        return 0
    fi
    python=$(find_python) || exit 2
    echo "Making $venv ($("$python" --version))" >&2
    # Another Python than the one that made it, or a half-made one: make it anew.
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$1$2" >&2
    echo "$wanted $2" >"$venv/installed"
}

LAB_PACKAGES="qemu-system-x86 busybox-static dropbear-bin openssh-sftp-server"
KERNEL_PACKAGES="linux-source-6.1 gcc libc6-dev make flex bison bc xz-utils git"
