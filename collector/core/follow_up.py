"""Some more cells of a campaign as a plan that continues it: same models, engine and flags, so the same ids."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML

from collector.core.configuration import DEFAULT_SERIES, Configuration, Stage, content_id, plan_digest, row_id
from collector.core.errors import PlanError
from collector.core.plan import parse_plan
from collector.core.plan_schema import NvlinkOff, PlanFile
from collector.core.plan_text import read_plan_text
from collector.core.speculative import with_drafter
from collector.core.window import WHOLE_STAGE

#: What a plan that continues another one takes over as it stands.
KEPT = ("plan", "campaign", "about", "engine", "models", "speculation", "nvlink_off", "limits")
#: Columns of a configuration that a plan states by the same name.
STATED = ("series", "nvlink", "tensor_parallel", "max_model_len", "max_num_seqs", "attention_backend")
LINE = 110


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """A stage of a configuration, to be measured until it has this many repeats."""

    configuration: Configuration
    stage: Stage
    repeats: int = 1


def configuration_with(configuration: Configuration, speculative: Mapping[str, Any] | None) -> Configuration:
    """Return what a plan would make of the same entry with another way of speculating; None for off."""
    content = {name: getattr(configuration, name) for name in configuration.__slots__ if name != "configuration_id"}
    text = None if speculative is None else canonical(speculative)
    content |= {
        "speculation": "off" if speculative is None else speculative.get("method", "draft_model"),
        "num_speculative_tokens": None if speculative is None else speculative.get("num_speculative_tokens"),
        "speculative_config": text,
        "drafter": None if speculative is None else speculative.get("model"),
    }
    return Configuration(configuration_id=content_id(content), **content)


def canonical(speculative: Mapping[str, Any]) -> str:
    return json.dumps(speculative, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def follow_up_plan(stored: str, wanted: Sequence[Wanted], why: Sequence[str] = ()) -> str:
    """Return the text of a plan for these cells; `why` becomes its comment.

    Raises PlanError where one plan file cannot tell these configurations apart.
    """
    file, tree = read_plan_text(stored, "plan.yaml")
    entries = {one.configuration.configuration_id: _entry(file, one.configuration) for one in wanted}
    plan: dict[str, Any] = {name: tree[name] for name in KEPT if name in tree}
    common = {name: value for name, value in next(iter(entries.values())).items() if _everywhere(name, value, entries)}
    varying = {
        identity: {name: value for name, value in entry.items() if name not in common}
        for identity, entry in entries.items()
    }
    plan |= {"continues": plan_digest(stored), "defaults": common, "extra": list(varying.values())}
    if len(entries) == 1:
        plan |= {"defaults": {}, "extra": list(entries.values())}
    plan["stages"] = list(_blocks(wanted, varying if len(entries) > 1 else {}))
    text = "".join(f"# {line}\n" for line in why) + _dumped(plan)
    _see_that_it_says(text, wanted)
    return text


def _entry(file: PlanFile, configuration: Configuration) -> dict[str, Any]:
    """Return a configuration as an entry of `extra`, without what engine and model give it already."""
    c, model = configuration, file.models[configuration.model]
    off = file.nvlink_off if c.nvlink == "off" else NvlinkOff(environment={}, flags={})
    flags = file.engine.flags | model.flags | off.flags
    environment = {
        name: str(value) for name, value in (file.engine.environment | model.environment | off.environment).items()
    }
    entry: dict[str, Any] = {"model": c.model, "kv_cache_dtype": c.kv_cache_dtype, "speculation": _way(file, c)}
    entry |= {name: value for name in STATED if (value := getattr(c, name)) is not None}
    if c.series == DEFAULT_SERIES:
        del entry["series"]
    entry |= {
        name: value
        for name, value in (("image", c.image), ("version", c.version))
        if value is not None and value != getattr(file.engine, name)
    }
    own_flags = {name: value for name, value in c.flags if flags.get(name) != value}
    own_environment = {name: value for name, value in c.environment if environment.get(name) != value}
    return (
        entry
        | ({"flags": own_flags} if own_flags else {})
        | ({"environment": own_environment} if own_environment else {})
    )


def _way(file: PlanFile, configuration: Configuration) -> Any:
    """Return the name that the plan has for this way of speculating, or the object itself."""
    if configuration.speculative_config is None:
        return "off"
    config = json.loads(configuration.speculative_config)
    drafter = file.models[configuration.model].drafter
    for name, given in file.speculation.items():
        try:
            if with_drafter(given, drafter) == config:
                return name
        except ValueError:  # needs a drafter that this model has not
            continue
    return config


def _everywhere(name: str, value: Any, entries: Mapping[str, Mapping[str, Any]]) -> bool:
    return all(name in entry and entry[name] == value for entry in entries.values())


def _blocks(wanted: Iterable[Wanted], entries: Mapping[str, Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    """Yield blocks of stages: what differs in its concurrency alone stands in one."""
    loads: dict[str, dict[str, Any]] = {}
    for one in wanted:
        load = _load(one) | {"only": entries.get(one.configuration.configuration_id)}
        block = loads.setdefault(_key(load), {"concurrency": {}} | load)
        block["concurrency"][one.stage.concurrency] = one.stage.requests
    for names in ("only", "prompt_set"):
        loads = _merged(loads.values(), names)
    for block in loads.values():
        only = [deepcopy(entry) for entry in block.pop("only") if entry]  # copies, or YAML would write anchors
        yield block if len(only) == len(entries) else block | {"only": only}


def _merged(blocks: Iterable[Mapping[str, Any]], name: str) -> dict[str, dict[str, Any]]:
    """Put the blocks together that differ in one key alone; its values become a list."""
    found: dict[str, dict[str, Any]] = {}
    for block in blocks:
        rest = {key: value for key, value in block.items() if key != name}
        found.setdefault(_key(rest), {**block, name: []})[name].append(block[name])
    return found


def _key(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, default=str)


def _load(one: Wanted) -> dict[str, Any]:
    stage = one.stage
    load: dict[str, Any] = {"prompt_set": stage.prompt_set, "output_tokens": stage.output_tokens}
    if stage.prompt_tokens is not None:
        load["prompt_tokens"] = stage.prompt_tokens
    rounds = stage.warmup_requests // stage.concurrency
    if stage.window != WHOLE_STAGE:
        load["window"] = stage.window
    load["warm_up"] = {"rounds": rounds, "output_tokens": stage.warmup_output_tokens}
    return load | ({"repeats": one.repeats} if one.repeats > 1 else {})


def _dumped(plan: Mapping[str, Any]) -> str:
    yaml = YAML(typ="rt", pure=True)
    yaml.width = LINE
    yaml.default_flow_style = None  # what holds no mapping itself stands on one line
    stream = io.StringIO()
    yaml.dump(dict(plan), stream)
    return stream.getvalue()


def _see_that_it_says(text: str, wanted: Iterable[Wanted]) -> None:
    """Hold the plan that was written against what it is to say."""
    cells = {
        row_id(run.configuration, stage, run.repeat)
        for run in parse_plan(text, "the plan").runs
        for stage in run.stages
    }
    meant = {row_id(one.configuration, one.stage, repeat) for one in wanted for repeat in range(1, one.repeats + 1)}
    if cells != meant:
        raise PlanError("these configurations cannot be told apart in one plan file; ask for fewer with --most 1")
