#!/bin/sh
# Every check of the project. `sh tests/run.sh` runs the fast ones (minutes); `sh tests/run.sh kernel` those that
# build and boot real kernels (tens of minutes). Each gate that fails ends with its own exit code.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
. "$root/recipes/demo/setup.sh"
ensure_packages "python3-venv $LAB_PACKAGES $KERNEL_PACKAGES openssh-server openssh-client iproute2 grub-common grub2-common grub-pc-bin \
    ovmf mtools parted e2fsprogs systemd-boot-efi|systemd ccache zstd lz4 lzop kmod udev cpio klibc-utils \
    initramfs-tools-core dracut-core linux-perf|linux-tools-generic strace"
ensure_venv "$root" "[test]"
bin="$root/.venv/bin"
workers=$(nproc)

gate() {
    number=$1
    name=$2
    shift 2
    echo "== gate $number: $name" >&2
    "$@" || exit "$number"
}

if [ "${1:-}" = kernel ]; then
    # These tests use the history and the kernels of a finished demonstration; make them if nobody named any.
    if [ -z "${BISECTOR_DEMO_HOME:-}" ]; then
        BISECTOR_DEMO_HOME="${XDG_CACHE_HOME:-$HOME/.cache}/bisector-tests"
        BISECTOR_HOME="$BISECTOR_DEMO_HOME" "$bin/bisector" demo --plain
    fi
    export BISECTOR_DEMO_HOME
    # Each test has a home of its own; with the compiler's cache in it, whatever two tests build would be compiled twice.
    export CCACHE_DIR="${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ccache}"
    # The tests of a UEFI machine need two programs without their packages' hands: once installed, one would put
    # systemd-boot on this computer's own EFI system partition, the other let its reboots go through kexec.
    unpacked=$(mktemp -d)
    trap 'rm -rf "$unpacked"' EXIT
    command -v bootctl >/dev/null || unpack_packages "$unpacked" "systemd-boot-tools|systemd-boot"
    command -v kexec >/dev/null || unpack_packages "$unpacked" kexec-tools
    # The distribution's kernel is booted as one that needs its modules; to install it would touch this computer's
    # bootloader. Ubuntu's has its modules in a package beside it.
    if [ -z "${BISECTOR_KERNEL_PACKAGE:-}" ]; then
        kernel=$(pick_package "linux-image-amd64|linux-image-generic")
        image=$(apt-cache depends "$kernel" | sed -n 's/.*Depends: \(linux-image-[0-9]\)/\1/p' | head -n 1)
        modules=linux-modules-${image#linux-image-}
        mkdir "$unpacked/kernel"
        for package in "$image" $([ -z "$(apt-cache show "$modules" 2>/dev/null)" ] || echo "$modules"); do
            (cd "$unpacked" && apt-get download -q "$package" >&2 && dpkg-deb -x "$package"_*.deb kernel) || {
                echo "apt-get could not download the kernel's package: $package" >&2
                exit 2
            }
        done
        # Newer packages have /usr/lib/modules; kmod looks below /lib of the folder that it is given.
        [ -e "$unpacked/kernel/lib" ] || ln -s usr/lib "$unpacked/kernel/lib"
        BISECTOR_KERNEL_PACKAGE="$unpacked/kernel"
        export BISECTOR_KERNEL_PACKAGE
    fi
    PATH="$PATH:$unpacked/usr/bin:$unpacked/sbin:$unpacked/usr/sbin"
    export PATH
    # Each guest needs one core. Tests that share a machine or its kernels stay together (tests/conftest.py).
    gate 17 "tests on real kernels" "$bin/pytest" -m kernel -n "$workers" --dist loadfile --no-loadscope-reorder --timeout 1800 -v --durations=25
    exit 0
fi
gate 11 "format" "$bin/ruff" format --check .
gate 12 "lint" "$bin/ruff" check .
gate 13 "imports" "$bin/lint-imports"
gate 14 "types" "$bin/mypy"
# Most of these tests wait (for sshd, for a guest, for time limits): two for each core keep it busy.
# The search alone is held to every branch: nothing else can show what it would do in a lab that nobody has seen.
gate 15 "fast tests, every branch of the search" "$bin/pytest" -m "not kernel" -n $((2 * workers)) -q \
    --cov=bisector/search --cov-branch --cov-fail-under=100 --cov-report=term-missing:skip-covered
