"""The names of the prompt sets, which a plan may use and whose texts lie in collector/measure/prompt_sets."""

PROMPT_SETS: tuple[str, ...] = (
    "synthetic",
    "general/english",
    "general/code",
    "general/reasoning",
    "general/korean",
)
#: Real text, of kinds on which drafters differ.
GENERAL_SETS = tuple(name for name in PROMPT_SETS if name.startswith("general/"))
