# What the demonstration and the tests need on a fresh Debian or Ubuntu machine. Sourced, not run.
# Idempotent; usable without root when the packages are there.

# Distributions give some things other names: a wish is one package, or several with | between them, of which the first
# is meant that a distribution has.

# $1: a package.
is_installed() {
    dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'
}

# $1: a wish. Prints the first that is installed or that apt knows; nothing if there is none.
pick_package() {
    for package in $(echo "$1" | tr '|' ' '); do
        if is_installed "$package" || [ -n "$(apt-cache show "$package" 2>/dev/null)" ]; then
            echo "$package"
            return 0
        fi
    done
}

# $1: wishes, separated by spaces. Sets `missing` to the packages to install, `unknown` to the wishes that apt has not.
look_for_packages() {
    missing="" unknown="" other=""
    for wish in $1; do
        picked=$(pick_package "$wish")
        if [ -z "$picked" ]; then
            unknown="$unknown $wish"
        elif ! is_installed "$picked"; then
            missing="$missing $picked"
        elif [ "$picked" != "${wish%%|*}" ]; then
            other="$other $picked"
        fi
    done
    # On a new machine apt may have no lists yet, and know of nothing but what is installed.
    if [ -n "$unknown" ] || { [ -n "$other" ] && [ -z "$(apt-cache madison dpkg 2>/dev/null)" ]; }; then
        if [ -z "${refreshed:-}" ] && [ "$(id -u)" -eq 0 ]; then
            refreshed=yes
            apt-get update -qq >&2 && look_for_packages "$1"
        fi
    fi
    return 0
}

# Ends the script where `unknown` is not empty.
end_if_unknown() {
    [ -z "$unknown" ] && return 0
    echo "This distribution ($(. /etc/os-release && echo "$PRETTY_NAME")) has no package of this name:" >&2
    for wish in $unknown; do
        echo "    $wish" | sed 's/|/, nor /g' >&2
    done
    echo "Made for Debian 12 and 13, Ubuntu 22.04 and 24.04. If its lists are old:  sudo apt-get update" >&2
    exit 2
}

# $1: wishes for packages that must be installed, separated by spaces.
ensure_packages() {
    look_for_packages "$1"
    end_if_unknown
    [ -z "$missing" ] && return 0
    if [ "$(id -u)" -ne 0 ]; then
        echo "Missing packages:$missing" >&2
        echo "Install them, then run this again:  sudo apt-get install$missing" >&2
        exit 2
    fi
    export DEBIAN_FRONTEND=noninteractive
    echo "Installing:$missing" >&2
    # An old list names versions that are gone: refresh it only if the first try fails.
    # shellcheck disable=SC2086
    apt-get install -y --no-install-recommends $missing >/dev/null 2>&1 || {
        apt-get update -qq >&2
        apt-get install -y --no-install-recommends $missing >/dev/null || {
            look_for_packages "$1"
            echo "apt-get could not install:$missing" >&2
            exit 2
        }
    }
}

# $1: a folder, $2: wishes. Unpacks packages there that must not be installed; what they link to is installed.
unpack_packages() {
    look_for_packages "$2"
    end_if_unknown
    libraries=""
    for package in $missing; do
        (cd "$1" && apt-get download -q "$package" >&2) || {
            apt-get update -qq >&2
            (cd "$1" && apt-get download -q "$package" >&2) || {
                echo "apt-get could not download: $package" >&2
                exit 2
            }
        }
        for archive in "$1/$package"_*.deb; do
            dpkg-deb -x "$archive" "$1"
            libraries="$libraries $(libraries_of "$archive")"
        done
    done
    ensure_packages "$libraries"
}

# $1: a package's file. Prints the libraries that it depends on, as wishes; their names change with each release.
libraries_of() {
    dpkg-deb -f "$1" Depends Pre-Depends | sed 's/^[A-Za-z-]*: //; s/ *([^)]*)//g' | tr -d ' ' | tr ',' '\n' | grep '^lib' |
        tr '\n' ' '
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
    # A distribution's own may be too old (Ubuntu 22.04: 3.10), and have a newer one beside it.
    find_python >/dev/null 2>&1 || ensure_packages "python3.14-venv|python3.13-venv|python3.12-venv|python3.11-venv"
    python=$(find_python) || exit 2
    echo "Making $venv ($("$python" --version))" >&2
    # Another Python than the one that made it, or a half-made one: make it anew.
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$1$2" >&2
    echo "$wanted $2" >"$venv/installed"
}

LAB_PACKAGES="qemu-system-x86 busybox-static dropbear-bin openssh-sftp-server"
KERNEL_PACKAGES="linux-source-6.1|linux-source-6.12|linux-source gcc libc6-dev make flex bison bc xz-utils git"
