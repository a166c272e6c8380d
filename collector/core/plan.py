"""A plan (YAML) to ordered engine starts; what cannot be run as written is an error with its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from collector.core.configuration import (
    DEFAULT_SERIES,
    Configuration,
    Plan,
    Stage,
    content_id,
    plan_digest,
    row_id,
)
from collector.core.errors import PlanError, close_words
from collector.core.order import Repeated, ordered
from collector.core.plan_schema import (
    Factors,
    Matrix,
    Model,
    NvlinkOff,
    PlanFile,
    Stages,
)
from collector.core.plan_text import Path, place, read_plan_text
from collector.core.secrets import is_secret_name, stated_secrets
from collector.core.speculative import check_speculation, tokens_of, with_drafter

DEFAULT_KV_CACHE_DTYPE = "auto"
#: What a factor is that no part of a plan names; the others are then left to the engine.
DEFAULTS: dict[str, Any] = {
    "series": DEFAULT_SERIES,
    "kv_cache_dtype": DEFAULT_KV_CACHE_DTYPE,
    "speculation": "off",
    "tensor_parallel": 1,
}


def parse_plan(text: str, name: str) -> Plan:
    """Read a plan's text. Raises PlanError with file, line and key path."""
    file, tree = read_plan_text(text, name)
    builder = _Builder(file=file, tree=tree, name=name)
    runs = tuple(ordered(tuple(builder.configurations_with_stages()), file.repeats))
    return Plan(
        campaign=file.campaign,
        about=file.about,
        digest=plan_digest(text),
        continues=file.continues,
        engine=file.engine,
        limits=file.limits,
        runs=runs,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Builder:
    """A validated file with the tree that knows its lines: makes configurations and says where it cannot."""

    file: PlanFile
    tree: Any
    name: str

    def configurations_with_stages(self) -> Iterator[tuple[Configuration, tuple[Repeated, ...]]]:
        self._check_sources()
        seen: dict[str, Path] = {}
        for path, factors in self._entries():
            configuration = self._configuration(factors, path)
            if configuration.configuration_id in seen:
                first = place(self.tree, seen[configuration.configuration_id], self.name).split(": ")[-1]
                raise self._error(path, f"the configuration {configuration.label!r} is already given by {first}")
            seen[configuration.configuration_id] = path
            yield configuration, self._stages(factors, configuration)
        if not seen:
            raise self._error((), "no configuration: give `matrix` or `extra` (or exclude less)")
        self._check_filters_used()

    def _error(self, path: Path, message: str) -> PlanError:
        return PlanError(f"{place(self.tree, path, self.name)}: {message}")

    # --- entries -------------------------------------------------------------------------------------

    def _entries(self) -> Iterator[tuple[Path, Factors]]:
        for index, matrix in enumerate(self.file.matrix):
            path: Path = ("matrix", index) if isinstance(self.tree.get("matrix"), list) else ("matrix",)
            for factors in self._combinations(matrix):
                if not any(self._matches(factors, one) for one in self.file.exclude):
                    yield path, factors
        for index, factors in enumerate(self.file.extra):
            yield ("extra", index), self._with_defaults(factors)

    def _combinations(self, matrix: Matrix) -> Iterator[Factors]:
        lists = {name: value for name in Matrix.model_fields if (value := getattr(matrix, name)) is not None}
        for values in product(*lists.values()):
            yield self._with_defaults(Factors(**dict(zip(lists, values, strict=True))))

    def _with_defaults(self, factors: Factors) -> Factors:
        """Fill in what a configuration does not state; of flags and environment, each name on its own."""
        defaults, own = _stated(self.file.defaults), _stated(factors)
        merged = {
            name: defaults[name] | own[name] for name in ("flags", "environment") if {name} <= {*defaults} & {*own}
        }
        return Factors(**(defaults | own | merged))

    def _matches(self, factors: Factors, pattern: Factors) -> bool:
        ours = DEFAULTS | _stated(factors)
        return all(ours.get(key) == value for key, value in _stated(pattern).items())

    # --- one configuration ---------------------------------------------------------------------------

    def _configuration(self, factors: Factors, path: Path) -> Configuration:
        file = self.file
        if factors.model is None:
            raise self._error(path, f"no model: name one of {', '.join(file.models)} here or in `defaults`")
        if factors.model not in file.models:
            raise self._error(
                (*path, "model"),
                f"found {factors.model!r}, allowed: {', '.join(file.models)}{close_words(factors.model, file.models)}",
            )
        model = file.models[factors.model]
        method, k, speculative_config, drafter = self._speculation(factors, model, path)
        off = file.nvlink_off if factors.nvlink == "off" else NvlinkOff(environment={}, flags={})
        flags = file.engine.flags | model.flags | off.flags | (factors.flags or {})
        environment = file.engine.environment | model.environment | off.environment | (factors.environment or {})
        content: dict[str, Any] = {
            "series": factors.series or DEFAULT_SERIES,
            "model": factors.model,
            "model_path": model.path,
            "model_revision": model.revision,
            "drafter": drafter,
            "kv_cache_dtype": factors.kv_cache_dtype or DEFAULT_KV_CACHE_DTYPE,
            "speculation": method,
            "num_speculative_tokens": k,
            "speculative_config": speculative_config,
            "nvlink": factors.nvlink,
            "tensor_parallel": factors.tensor_parallel or DEFAULTS["tensor_parallel"],
            "max_model_len": factors.max_model_len,
            "max_num_seqs": factors.max_num_seqs,
            "attention_backend": factors.attention_backend,
            "image": factors.image or file.engine.image,
            "version": factors.version or file.engine.version,
            "flags": tuple(sorted(flags.items())),
            "environment": tuple(sorted((key, str(value)) for key, value in environment.items())),
        }
        # A token says who downloads a model, not what is measured.
        hashed = content | {"environment": [pair for pair in content["environment"] if not is_secret_name(pair[0])]}
        return Configuration(configuration_id=content_id(hashed), **content)

    def _speculation(
        self, factors: Factors, model: Model, path: Path
    ) -> tuple[str, int | None, str | None, str | None]:
        """Return the method, k, the object as canonical JSON and the drafter that it names."""
        wanted = factors.speculation
        if wanted in (None, "off"):
            return "off", None, None, None
        where: Path = (*path, "speculation")
        if isinstance(wanted, str):
            if wanted not in self.file.speculation:
                allowed = ["off", *self.file.speculation]
                near = close_words(wanted, allowed)
                raise self._error(where, f"found {wanted!r}, allowed: {', '.join(allowed)}{near}")
            where, wanted = ("speculation", wanted), self.file.speculation[wanted]
        problem = check_speculation(wanted)
        if problem:
            raise self._error(where, problem)
        try:
            config = with_drafter(wanted, model.drafter)
        except ValueError as error:
            raise self._error(where, f"{error}; model {factors.model!r} names no drafter") from None
        text = json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        drafter = config.get("model")
        return config.get("method", "draft_model"), tokens_of(config), text, str(drafter) if drafter else None

    # --- stages --------------------------------------------------------------------------------------

    def _stages(self, factors: Factors, configuration: Configuration) -> tuple[Repeated, ...]:
        stages = [
            (stage, block.repeats or self.file.repeats.count)
            for index, block in enumerate(self.file.stages)
            if block.only is None or any(self._matches(factors, one) for one in block.only)
            for stage in self._block(block, index, configuration)
        ]
        if not stages:
            raise self._error(("stages",), f"no stage applies to the configuration {configuration.label!r}")
        cells = [row_id(configuration, stage, 1) for stage, _ in stages]
        for index, (stage, _) in enumerate(stages):
            if cells.index(cells[index]) < index:
                raise self._error(("stages",), f"{configuration.label!r} gets twice: {stage.label}")
        return tuple(stages)

    def _block(self, block: Stages, index: int, configuration: Configuration) -> Iterator[Stage]:
        path: Path = ("stages", index) if isinstance(self.tree.get("stages"), list) else ("stages",)
        longest = configuration.max_model_len
        # The length of other prompt sets is known only to the engine's tokenizer; one token is the least.
        prompt = block.prompt_tokens if "synthetic" in block.prompt_set else 1
        if longest and prompt + block.output_tokens > longest:
            raise self._error(
                path,
                f"{prompt} prompt tokens + {block.output_tokens} output tokens do not fit "
                f"max_model_len {longest} of {configuration.label!r}",
            )
        for prompt_set, (concurrency, requests) in product(block.prompt_set, block.concurrency.items()):
            if requests < concurrency:
                raise self._error(
                    (*path, "concurrency", concurrency),
                    f"{requests} requests cannot keep {concurrency} in flight; give at least {concurrency}",
                )
            yield Stage(
                concurrency=concurrency,
                requests=requests,
                prompt_set=prompt_set,
                prompt_tokens=block.prompt_tokens if prompt_set == "synthetic" else None,
                output_tokens=block.output_tokens,
                warmup_requests=block.warm_up.rounds * concurrency,
                warmup_output_tokens=block.warm_up.output_tokens,
                window=block.window,
            )

    # --- the file as a whole ---------------------------------------------------------------------------

    def _check_sources(self) -> None:
        engine = self.file.engine
        if engine.kind == "url" and not engine.url:
            raise self._error(("engine",), "kind url needs `url`, such as http://127.0.0.1:8000")
        if engine.container.shm_size and engine.container.ipc == "host":
            raise self._error(
                ("engine", "container", "shm_size"),
                "has no effect with ipc: host, which is the host's own /dev/shm; leave out one of the two",
            )
        if "off" in self.file.speculation:
            raise self._error(("speculation", "off"), "off means no speculation; choose another name")
        for path in stated_secrets(self.tree):
            name = path[-1] if "environment" in path else "NAME"
            message = f"a secret may not stand in a plan, which is stored with the rows; write ${{{name}}}"
            raise self._error(path, message)

    def _check_filters_used(self) -> None:
        """A filter that matches nothing is a typing error that would otherwise cost a sweep."""
        combinations = [factors for matrix in self.file.matrix for factors in self._combinations(matrix)]
        for index, pattern in enumerate(self.file.exclude):
            if not any(self._matches(factors, pattern) for factors in combinations):
                raise self._error(("exclude", index), "matches no combination of the matrix")
        entries = [factors for _, factors in self._entries()]
        for number, block in enumerate(self.file.stages):
            for index, pattern in enumerate(block.only or []):
                if not any(self._matches(factors, pattern) for factors in entries):
                    raise self._error(("stages", number, "only", index), "matches no configuration")


def _stated(factors: Factors) -> dict[str, Any]:
    return {name: value for name in Factors.model_fields if (value := getattr(factors, name)) is not None}
