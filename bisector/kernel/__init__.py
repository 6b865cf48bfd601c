"""A commit becomes a bootable image: configure, build, store."""
