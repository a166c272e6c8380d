"""Pure: data frames to findings, each with the rows that prove it."""
