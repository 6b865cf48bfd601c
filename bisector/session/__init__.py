"""Remember and drive: the journal, the pure fold and decide, the controller and its workers."""
