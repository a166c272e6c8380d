"""The names of the prompt sets, which a plan may use and whose texts lie in collector/measure/prompt_sets."""

PROMPT_SETS: tuple[str, ...] = (
    "synthetic",
    "general/english",
    "general/code",
    "general/reasoning",
    "general/korean",
)
