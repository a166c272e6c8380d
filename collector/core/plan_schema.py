"""What a plan file may say: one declaration gives the validation, the errors and the JSON schema.

Only shapes and allowed words live here; plan.py turns a valid plan into ordered runs.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from collector.core.plan_values import (
    as_list,
    campaign_name,
    environment_value,
    flags,
    gpus,
    speculation,
    storable,
    volume,
    word_for_switch,
)
from collector.core.prompt_names import PROMPT_SETS

Item = TypeVar("Item")
ONE_OR_MANY = "one_or_many"

ENGINE_KINDS = ("process", "url", "docker", "emulated", "auto")

EngineKind = Literal[ENGINE_KINDS]  # type: ignore[valid-type]
Switch = Annotated[Literal["on", "off"], BeforeValidator(word_for_switch)]
PromptSetName = Literal[PROMPT_SETS]  # type: ignore[valid-type]  # the names stand once, in prompt_names
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Speculation = Annotated[
    Any, BeforeValidator(speculation), WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]})
]
Flags = Annotated[dict[str, Any], BeforeValidator(flags)]
Environment = dict[str, Annotated[str | int | float, BeforeValidator(environment_value)]]
SpeculativeConfig = Annotated[dict[str, Any], AfterValidator(storable)]
Gpus = Annotated[
    Any,
    BeforeValidator(gpus),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["all", "none"]},
                {"type": "array", "minItems": 1, "items": {"type": ["integer", "string"]}},
            ]
        }
    ),
]
Volume = Annotated[str, AfterValidator(volume)]
#: Bytes, with a unit as docker takes it.
Size = Annotated[str, Field(pattern=r"^[1-9][0-9]*[kmg]$")]
#: Home of the user in vLLM's own images.
CONTAINER_HOME = "/root"
#: Folders below a home in which the hub and vLLM keep what they have downloaded and compiled.
CACHES = (".cache/huggingface", ".cache/vllm", ".cache/flashinfer")
#: A single value may stand where a list may.
OneOrMany = Annotated[list[Item], BeforeValidator(as_list), Field(min_length=1, json_schema_extra={ONE_OR_MANY: True})]


class Part(BaseModel):
    """Base of every part of a plan: unknown keys are refused, values are frozen, no silent conversion."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _caches() -> list[str]:
    """Return the host's caches for the container to use: made anew, they cost minutes."""
    return [f"${{HOME}}/{name}:{CONTAINER_HOME}/{name}" for name in CACHES]


class Container(Part):
    """How a container is run, for kind docker. The defaults fit vllm/vllm-openai on all GPUs of the host."""

    gpus: Gpus = Field("all", description="all, none, or a list of GPU numbers or UUIDs, as docker run --gpus")
    ipc: Literal["host", "private"] | None = Field(
        None, description="Shared memory of the ranks: the host's, or a private one of shm_size; host if absent"
    )
    shm_size: Size | None = Field(None, description="Size of a private /dev/shm, such as 16g; makes `ipc` private")
    memory: Size | None = Field(
        None, description="Most host memory, such as 96g: a start that wants more is killed, not the host"
    )
    volumes: list[Volume] = Field(
        default_factory=_caches,
        description="SOURCE:TARGET, with :ro for reading only. A model's own folder is there without being named",
    )
    pull: Literal["missing", "never"] = Field("missing", description="Whether an image that is not here is fetched")


class Engine(Part):
    """How an engine is had. Kind, command, container, url and port are the host's business, not the configuration's."""

    kind: EngineKind = Field(
        "process",
        description="process runs `vllm serve`; docker runs it in a container of `image`; url measures an engine "
        "somebody else runs",
    )
    version: str | None = Field(
        None, description="What GET /version must answer; a build suffix such as +cpu may follow"
    )
    command: list[str] = Field(
        default_factory=lambda: ["vllm"],
        min_length=1,
        description="Program before `serve`, in the container for kind docker; ${NAME} is expanded",
    )
    image: str | None = Field(None, description="Container image, by digest if it is to be the same next year")
    container: Container = Field(default_factory=Container)
    url: str | None = Field(None, description="Base address of a running engine, for kind url")
    port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        None, description="Port to serve on; a free one if absent"
    )
    api_key_variable: str | None = Field(None, description="Name of the environment variable that holds the API key")
    gpu_busy: Literal["wait", "refuse", "ignore"] = Field(
        "wait",
        description="What to do where somebody else computes on the engine's GPUs before its start: wait up to "
        "limits.gpu_free_s, refuse at once, or start all the same",
    )
    profile: str = Field("dual-3090", description="What the embedded engine emulates: a shipped profile or a file")
    environment: Environment = Field(default_factory=dict, description="Environment of every engine")
    flags: Flags = Field(default_factory=dict, description="Serve flags of every engine, without the leading dashes")


class Model(Part):
    path: str = Field(description="Repository id or path; ${NAME} is expanded at launch, not in ids (${HOME}, not ~)")
    revision: str | None = Field(None, description="Revision of the repository")
    drafter: str | None = Field(None, description="Drafter's repository or path; '{drafter}' in a speculation names it")
    environment: Environment = Field(default_factory=dict)
    flags: Flags = Field(default_factory=dict)


def _p2p_off() -> Environment:
    return {"NCCL_P2P_DISABLE": "1"}


class NvlinkOff(Part):
    """What `nvlink: off` adds. NCCL's switch does not reach vLLM's own all-reduce, hence the flag."""

    environment: Environment = Field(default_factory=_p2p_off)
    flags: Flags = Field(default_factory=lambda: {"disable-custom-all-reduce": True})


class Factors(Part):
    """One value of each factor that is named; what is not named comes from `defaults`."""

    model: str | None = None
    kv_cache_dtype: str | None = Field(None, description="As --kv-cache-dtype; auto if absent")
    speculation: Speculation | None = Field(
        None, description="off, a name of `speculation`, or a --speculative-config object"
    )
    nvlink: Switch | None = Field(None, description="on or off; absent where the plan does not vary it")
    series: str | None = Field(None, description="Label of a group of runs measured together; main if absent")
    tensor_parallel: Positive | None = None
    max_model_len: Positive | None = None
    max_num_seqs: Positive | None = None
    attention_backend: str | None = None
    image: str | None = None
    version: str | None = None
    flags: Flags | None = None
    environment: Environment | None = None


class Matrix(Part):
    """Lists of values; every combination becomes a configuration. A single value may stand without a list."""

    model: OneOrMany[str] | None = None
    kv_cache_dtype: OneOrMany[str] | None = None
    speculation: OneOrMany[Speculation] | None = None
    nvlink: OneOrMany[Switch] | None = None
    series: OneOrMany[str] | None = None
    tensor_parallel: OneOrMany[Positive] | None = None
    max_model_len: OneOrMany[Positive] | None = None
    max_num_seqs: OneOrMany[Positive] | None = None
    attention_backend: OneOrMany[str] | None = None
    image: OneOrMany[str] | None = None
    version: OneOrMany[str] | None = None
    flags: OneOrMany[Flags] | None = None
    environment: OneOrMany[Environment] | None = None


class WarmUp(Part):
    rounds: Annotated[int, Field(ge=0)] = Field(
        1, description="Discarded rounds of `concurrency` requests before a stage"
    )
    output_tokens: Positive = Field(32, description="Output length of a warm-up request")


class Stages(Part):
    """Stages measured one after another in one engine: concurrency to number of requests."""

    concurrency: dict[Positive, Positive] = Field(
        min_length=1,
        description="Concurrency to number of requests",
        json_schema_extra={"propertyNames": {"pattern": "^[1-9][0-9]*$"}},
    )
    prompt_set: OneOrMany[PromptSetName] = Field(["synthetic"], description="One prompt set, or several in turn")
    prompt_tokens: Positive = Field(700, description="Target length of a synthetic prompt, by the engine's tokenizer")
    output_tokens: Positive = Field(256, description="Exact output length of each request")
    warm_up: WarmUp = Field(default_factory=WarmUp)
    window: Literal["whole_stage", "steady"] = Field(
        "whole_stage",
        description="whole_stage: from before the first request to after the last response; steady: inside a running "
        "load with every lane busy, so that ramp and drain are not in it",
    )
    only: OneOrMany[Factors] | None = Field(
        None, description="Run these stages only in configurations that match one of these"
    )
    repeats: Positive | None = Field(None, description="How often these stages are measured; repeats.count if absent")


class Repeats(Part):
    count: Positive = Field(1, description="How often each cell is measured, each time in an engine of its own")
    order: Literal["listed", "interleaved", "shuffled", "paired"] = Field(
        "interleaved",
        description="listed: a configuration's repeats in a row; interleaved: all configurations, then all again; "
        "shuffled: as interleaved, each round in a seeded order; paired: as interleaved, the arms of each pair next to "
        "each other and another one first in the next round",
    )
    seed: int = 1


class Limits(Part):
    ready_s: Seconds = Field(1800, description="Longest time from launch to ready")
    start_stall_s: Seconds = Field(600, description="Longest time without a new log line while starting")
    request_s: Seconds = Field(900, description="Longest time for one response")
    stage_stall_s: Seconds = Field(120, description="Longest time without a new token while a stage runs")
    stop_s: Seconds = Field(30, description="Time to end by itself before it is killed")
    gpu_free_s: Seconds = Field(300, description="Longest time until the GPUs are free for the next engine")
    attempts: Positive = Field(
        3, description="Starts that may fail by a fault of the moment, one a sweep, before it is left alone"
    )
    host_down_attempts: Positive = Field(
        2, description="Attempts in which the host may go down before the configuration is left alone"
    )


class PlanFile(Part):
    plan: Literal[1] = Field(description="Version of this format")
    campaign: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$"), AfterValidator(campaign_name)] = Field(
        description="Name of the folder under data/: lower-case letters, digits, dots and hyphens"
    )
    about: str = Field("", description="One sentence on what is asked")
    continues: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")] | None = Field(
        None, description="Digest of the plan that began this campaign: these cells are added to it"
    )
    engine: Engine = Field(default_factory=Engine)
    models: dict[str, Model] = Field(min_length=1, description="Name to model")
    speculation: dict[str, SpeculativeConfig] = Field(
        default_factory=dict, description="Name to --speculative-config object"
    )
    nvlink_off: NvlinkOff = Field(default_factory=NvlinkOff)
    defaults: Factors = Field(default_factory=Factors)
    matrix: OneOrMany[Matrix] = Field([], description="One block of factor lists, or several in order")
    exclude: list[Factors] = Field(default_factory=list, description="Combinations of the matrix to leave out")
    extra: list[Factors] = Field(default_factory=list, description="Configurations beside the matrix")
    stages: OneOrMany[Stages]
    repeats: Repeats = Field(default_factory=Repeats)
    limits: Limits = Field(default_factory=Limits)


def _loosen(node: Any) -> Any:
    """Say in the schema, too, that a single value may stand for a list of one."""
    if isinstance(node, list):
        return [_loosen(one) for one in node]
    if not isinstance(node, dict):
        return node
    node = {key: _loosen(value) for key, value in node.items()}
    if not node.pop(ONE_OR_MANY, False):
        return node
    about = {key: node.pop(key) for key in ("title", "description", "default") if key in node}
    return about | {"anyOf": [node["items"], node]}


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a plan file, for editors."""
    schema: dict[str, Any] = _loosen(PlanFile.model_json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema | {"title": "collector plan"}
