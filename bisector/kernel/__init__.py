"""A commit becomes a bootable image: configure, build, prove, store. Knows neither git nor sessions."""
