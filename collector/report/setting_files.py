"""The settings of a study as files to paste, by path: a shell script, a compose file, a config file of vLLM each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from collector.analysis.settings import Load, Setting
from collector.core.rows import Row
from collector.core.serving import BY_DIGEST, Serving, command_text, compose_text, config_text, variables
from collector.report.setting_words import notes, when
from collector.report.words import Words, plain

ENGLISH = Words("en")
COMMAND, COMPOSE, CONFIG = ".sh", ".compose.yaml", ".config.yaml"
_KINDS: dict[str, Callable[[Serving, Iterable[str]], str]] = {
    COMMAND: command_text,
    COMPOSE: compose_text,
    CONFIG: config_text,
}


def setting_files(found: Iterable[Load]) -> dict[str, str]:
    """Return the text of each file. A configuration that several loads choose is one file that names them all."""
    grouped: dict[str, list[tuple[Load, Setting]]] = defaultdict(list)
    for load in found:
        for one in load.settings:
            grouped[path_of(one)].append((load, one))
    return {
        f"{path}{kind}": text(own[0][1].serving, [*_about(own), *_hints(own[0][1], kind)])
        for path, own in sorted(grouped.items())
        for kind, text in _KINDS.items()
    }


def path_of(setting: Setting) -> str:
    """Return the path of a setting's files without what they end with: ids, which no model's name can bend."""
    return setting.file


def command_of(setting: Setting) -> str:
    """Return what a page and the command line show of a setting."""
    return command_text(setting.serving)


def _about(own: list[tuple[Load, Setting]]) -> Iterator[str]:
    """Yield where a file comes from and what it holds for."""
    _, first = own[0]
    row = first.row
    yield f"{row.model}: campaign {row.campaign}, {row.provenance}, configuration {row.configuration_id}"
    link = f", NVLink {row.nvlink}" if row.nvlink else ""
    yield f"holds for {hardware(row)}{link}, vLLM {row.engine_version}, weights {row.model_path}"
    for load, one in own:
        chosen = f"for prompts {load['prompt_set']}, {plain(when(load, one, ENGLISH))}"
        yield f"{chosen}; rows {' '.join(name for each in one.choices for name in each.throughput.ids)}"
        yield from (plain(note) for note in notes(one, ENGLISH))
    if first.suggested:
        yield "PREDICTION"
    if row.provenance == "emulated":
        yield "EMULATED: no hardware was measured"


def _hints(setting: Setting, kind: str) -> Iterator[str]:
    serving = setting.serving
    if kind == CONFIG:
        yield "vllm serve --config FILE"
        for name, value in serving.environment:
            yield f"needs the environment variable {name}={value}"
        for name in variables(serving):
            yield f"vLLM expands no variables in this file: put the value of ${{{name}}} in its place"
    if kind == COMPOSE and BY_DIGEST not in serving.image:
        yield "pin the image by its digest (IMAGE@sha256:...) to get the same one next year"


def hardware(row: Row) -> str:
    name = row.gpu_model or row.cpu_model or "unknown hardware"
    return f"{row.gpu_count} x {name}" if row.gpu_model and row.gpu_count else name
