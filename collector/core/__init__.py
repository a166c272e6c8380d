"""Pure: what a row is and what its numbers mean. No I/O, no clock, no network."""
