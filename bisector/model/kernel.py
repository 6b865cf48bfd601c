"""A built kernel, as the builder hands it to the machines."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelModules:
    """An image's modules: `path` is a gzipped tar of what belongs into /lib/modules/RELEASE, `sha256` that file's.

    `unpacked_bytes` is the space that they take there.
    """

    path: str
    sha256: str
    unpacked_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelImage:
    """A bootable image of one commit.

    `key` names it in the cache (tree, final configuration, compiler); `build_id` is vmlinux's GNU build id in hex;
    `signature` is a digest of code and data with release and build id blanked: two commits with one signature
    behave the same. `path` is the bzImage. `config_changes` are lines like "CONFIG_X: y -> n" against the good end.
    `modules` is None for a kernel that has none. `fixups` name the recipe's changes to the commit that it was built
    with, in order.
    """

    commit: str
    key: str
    release: str
    build_id: str
    signature: str
    path: str
    compiler: str
    config_digest: str
    config_changes: tuple[str, ...]
    duration_s: float
    from_cache: bool
    modules: KernelModules | None = None
    fixups: tuple[str, ...] = ()
