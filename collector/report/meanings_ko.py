"""What the columns and failure categories mean, in Korean: the other half of core/rows.py's English.

A test holds that every column and category stands here and none that has gone.
"""

from __future__ import annotations


def _percentile(metric: str, share: int) -> str:
    return f"{metric}의 {share}번째 백분위수. 구간 안은 선형으로 보간하며, 마지막 유한 경계를 넘으면 빈칸"


def _bounds(column: str) -> dict[str, str]:
    stem = column.removesuffix("_s")
    return {
        f"{stem}_low_s": f"{column} 값이 든 구간의 아래 경계",
        f"{stem}_high_s": f"{column} 값이 든 구간의 위 경계",
    }


GROUPS: dict[str, str] = {
    "identity": "식별",
    "host": "장비",
    "engine": "엔진",
    "model": "모델",
    "speculation": "추측 디코딩 설정",
    "workload": "부하",
    "stage": "단계",
    "throughput": "처리량",
    "latency": "지연",
    "speculation results": "추측 디코딩 결과",
    "kv and scheduling": "KV 캐시와 스케줄링",
    "telemetry": "장비 계측",
    "checks": "검사",
    "cause": "원인",
    "numbers": "원인 줄의 수치",
    "end": "종료",
}

#: Where a column is read, where that is not a name that stays as it is.
SOURCES: dict[str, str] = {
    "plan": "계획",
    "engine log": "엔진 로그",
    "plan, engine log": "계획, 엔진 로그",
    "engine log, exit code, phase": "엔진 로그, 종료 코드, 단계",
    "cause line": "원인 줄",
    "client": "클라이언트",
    "collector's clock": "collector의 시계",
    "collector's monotonic clock": "collector의 단조 시계",
    "histogram bounds of the scrape": "스크레이프의 히스토그램 경계",
    "usage of the responses": "응답의 usage",
    "hash of its machine id": "머신 ID의 해시",
    "operating system": "운영 체제",
    "label position + 1": "레이블 position + 1",
}

_VERSION = "이 표의 버전"
_CAMPAIGN = "계획 하나를 장비 한 대에서 실행한 것. data/ 아래의 폴더 이름"
_CONFIGURATION = "엔진을 시작할 때 정해지는 모든 것의 내용 해시"
_PROVENANCE = "measured(측정), emulated(에뮬레이션), published(공개 수치) 가운데 하나. 한 수치 안에 섞지 않음"
_MODEL = "계획에서 부르는 모델 이름"
_KV_DTYPE = "계획이 요청한 KV 캐시 자료형"
_SPECULATION = "off 또는 추측 디코딩 방식"
_K = "k: 스텝마다 제안하는 토큰 수의 상한"
_ENGINE_KIND = "docker, process, url, emulated 가운데 하나"
_DRAFTS = "추측 토큰이 제안된 요청 스텝 수"

ROWS: dict[str, str] = {
    "schema_version": _VERSION,
    "campaign": _CAMPAIGN,
    "row_id": "구성, 단계, 반복의 내용 해시. 캠페인 안에서 하나뿐임",
    "configuration_id": _CONFIGURATION,
    "repeat": "셀의 첫 측정이면 1. 반복할 때마다 엔진을 새로 시작함",
    "provenance": _PROVENANCE,
    "measured_at": "측정 구간이 끝난 시각. UTC, ISO 8601",
    "collector_version": "측정한 collector의 버전",
    "plan_digest": "plan.yaml의 SHA-256 앞 12자리(16진수)",
    "host_id": "장비를 가리키는 바뀌지 않는 가명",
    "cpu_model": "CPU 이름",
    "gpu_model": "GPU 이름. GPU가 없는 장비에서는 빈칸",
    "gpu_count": "엔진이 쓴 GPU 수",
    "driver_version": "GPU 드라이버 버전",
    "engine_kind": _ENGINE_KIND,
    "engine_version": "엔진이 스스로 밝힌 버전",
    "image": "계획에 적힌 컨테이너 이미지와 그 다이제스트",
    "attention_backend": "엔진이 고른 어텐션 백엔드",
    "draft_attention_backend": "드래프터의 어텐션 백엔드. 본 모델과 다를 때만",
    "cudagraph_mode": "엔진이 낮춘 뒤의 CUDA 그래프 모드",
    "all_reduce": "올리듀스 백엔드. 시도하는 순서대로",
    "tensor_parallel": "텐서 병렬 크기",
    "max_model_len": "엔진이 받는 가장 긴 시퀀스",
    "max_num_seqs": "한 스텝에서 함께 처리하는 시퀀스 수의 상한",
    "nvlink": "on, off(P2P 끔). 계획이 이를 바꾸지 않으면 빈칸",
    "extra_flags": "다른 열에 없는 서빙 플래그. 넘긴 그대로",
    "start_s": "실행부터 준비 완료까지 걸린 시간",
    "model_load_gib": "GPU마다 올린 가중치 크기. 드래프터 포함",
    "series": "함께 측정한 묶음의 이름표. 비교 쌍은 그 안에서만 만듦",
    "model": _MODEL,
    "model_path": "계획에 적힌 저장소 또는 경로",
    "model_revision": "저장소의 리비전",
    "kv_cache_dtype": _KV_DTYPE,
    "speculation": _SPECULATION,
    "num_speculative_tokens": _K,
    "drafter": "드래프터의 저장소 또는 경로",
    "speculative_config": "--speculative-config에 넘긴 객체(JSON)",
    "concurrency": "동시에 처리 중인 상태로 유지하는 요청 수",
    "requests": "한 단계의 전체 요청 수",
    "prompt_set": "프롬프트의 출처",
    "prompt_set_digest": "프롬프트 모음에 든 글의 내용 해시",
    "prompt_tokens_mean": "프롬프트 길이의 평균",
    "output_tokens": "요청마다 정확히 이만큼 출력",
    "warmup_requests": "측정 구간 전에 보내고 버린 요청 수",
    "requests_sent": "측정 구간에 보낸 요청 수",
    "requests_done": "상태 코드 200과 usage를 함께 돌려준 요청 수",
    "requests_failed": "그 밖의 모든 요청 수",
    "window_method": "whole_stage: 시작과 마무리 구간까지 모든 요청을 하나의 측정 구간에 담음. "
    "steady: 모든 레인이 요청을 처리하는 동안만 측정",
    "window_s": "두 스크레이프의 응답을 받은 시각 사이의 시간",
    "scrape_s": "마지막 스크레이프에 걸린 시간",
    "samples": "측정 구간 안에서 게이지를 읽은 횟수",
    "generation_tokens": "출력 토큰 수",
    "prompt_tokens": "프롬프트 토큰 수. 캐시에서 가져온 것 포함",
    "prompt_tokens_computed": "캐시가 아니라 실제로 계산한 프롬프트 토큰 수",
    "system_throughput_tok_s": "모든 요청을 합한 generation_tokens / window_s",
    "prefill_throughput_tok_s": "prompt_tokens_computed / window_s",
    "request_decode_rate_tok_s": "1 / tpot_mean_s: 요청 하나의 디코딩 속도",
    "ttft_mean_s": "첫 토큰까지 걸린 시간. 대기 시간 포함",
    "ttft_p50_s": _percentile("TTFT", 50),
    "ttft_p95_s": _percentile("TTFT", 95),
    "queue_mean_s": "처음 스케줄될 때까지 기다린 시간",
    "prefill_mean_s": "처음 스케줄된 뒤 첫 토큰까지 걸린 시간",
    "tpot_mean_s": "첫 토큰 뒤 출력 토큰당 시간: itl_sum / (generation_tokens - ttft_count)",
    "tpot_p50_s": _percentile("끝난 요청의 TPOT", 50),
    "tpot_p95_s": _percentile("끝난 요청의 TPOT", 95),
    "step_time_mean_s": "itl_sum / itl_count. 요청과 엔진 스텝마다 잰 시간. 추측 디코딩을 켜면 토큰당 시간이 아님",
    "e2e_mean_s": "요청 도착부터 마지막 토큰까지 걸린 시간. 엔진의 시계",
    "client_e2e_mean_s": "요청을 보낸 때부터 응답을 다 읽은 때까지 걸린 시간",
    "tokens_per_step": "(generation_tokens - ttft_count) / itl_count. 추측 디코딩을 끄면 정확히 1",
    "drafts": _DRAFTS,
    "draft_tokens": "제안된 추측 토큰 수",
    "accepted_tokens": "수용된 토큰 수. 출력 길이에서 자르기 전",
    "acceptance_rate": "accepted_tokens / draft_tokens. 제안이 없었으면 빈칸",
    "accepted_per_forward": "accepted_tokens / drafts",
    "drafted_step_share": "drafts / itl_count: 추측 토큰을 검증한 요청 스텝의 비율",
    "trimmed_tokens": "ttft_count + itl_count + accepted - generation_tokens: 출력 길이에서 잘린 토큰 수",
    "kv_cache_tokens": "엔진이 밝힌 KV 캐시 용량",
    "kv_cache_tokens_source": "kv_cache_tokens를 읽은 곳: info, log, blocks",
    "kv_usage_peak": "표본에서 가장 높았던 KV 사용률. 실제 최고치의 하한",
    "preemptions": "선점된 요청 수",
    "waiting_peak": "대기 중인 요청 수의 최고치",
    "running_mean": "표본에서 본 처리 중 요청 수의 평균",
    "decode_steps": "출력이 있었던 엔진 스텝 수. API 서버가 여럿이면 빈칸",
    "prefix_hit_rate": "프리픽스 캐시의 적중 / 조회. 토큰 기준",
    "occupancy": "(itl_sum + ttft_sum) / 부하를 준 레인 시간. 1보다 작으면 클라이언트나 프런트엔드 때문에 엔진이 쉼",
    "frontend_cpu_s": "API 서버가 쓴 CPU 시간",
    "client_cpu_s": "측정 구간 안에서 collector가 쓴 CPU 시간",
    "energy_j": "측정 구간 동안 GPU가 쓴 에너지. Ampere에서 구간이 짧으면 빈칸",
    "power_mean_w": "energy_j / window_s",
    "power_max_w": "GPU 전체 전력의 최고치. 표본 기준",
    "idle_power_w": "스윕의 첫 엔진을 띄우기 전, 같은 GPU들의 전력",
    "power_limit_w": "GPU 하나의 전력 제한. 서로 다르면 가장 낮은 값",
    "energy_per_token_j": "energy_j / generation_tokens. 유휴 전력 포함",
    "tokens_per_joule": "generation_tokens / energy_j",
    "sm_clock_mean_mhz": "가장 느린 GPU의 SM 클록 평균",
    "sm_clock_min_mhz": "부하가 걸린 동안 어느 GPU에서든 가장 낮았던 SM 클록. 표본 기준",
    "gpu_temperature_max_c": "가장 뜨거운 GPU의 온도",
    "gpu_utilisation_mean": "커널이 돌고 있던 시간 비율의 평균",
    "gpu_memory_peak_mib": "GPU 하나에서 가장 많이 쓴 메모리. 표본 기준",
    "gpu_samples": "측정 구간 안에서 GPU를 표본으로 읽은 횟수",
    "throttle_reasons": "측정 구간에 나타난 클록 제한 사유. 없었으면 none",
    "nvlink_bytes": "모든 GPU가 NVLink로 주고받은 바이트",
    "pcie_bytes": "모든 GPU가 PCIe로 주고받은 바이트. 표본 속도의 평균에 window_s를 곱한 추정치",
    "pcie_link_width_min": "부하가 걸린 동안 가장 좁았던 PCIe 링크 폭",
    "pcie_generation_min": "부하가 걸린 동안 가장 낮았던 PCIe 세대",
    "checks": "통과하지 못한 검사의 이름. 빈칸으로 구분하며, 모두 통과하면 비어 있음",
    "checks_not_run": "이 엔진이나 장비가 시계열을 내놓지 않아 하지 못한 검사",
}
for _column in ("ttft_p50_s", "ttft_p95_s", "tpot_p50_s", "tpot_p95_s"):
    ROWS |= _bounds(_column)

FAILURES: dict[str, str] = {
    "schema_version": _VERSION,
    "campaign": _CAMPAIGN,
    "failure_id": "구성, 반복, 시도의 내용 해시. 캠페인 안에서 하나뿐임",
    "configuration_id": _CONFIGURATION,
    "repeat": "측정하던 반복의 번호",
    "attempt": "이 구성과 반복을 처음 시작한 것이면 1",
    "provenance": _PROVENANCE,
    "failed_at": "실패를 알아챈 시각. UTC, ISO 8601",
    "series": "함께 측정한 묶음의 이름표",
    "model": _MODEL,
    "kv_cache_dtype": _KV_DTYPE,
    "speculation": _SPECULATION,
    "num_speculative_tokens": _K,
    "nvlink": "on, off. 계획이 이를 바꾸지 않으면 빈칸",
    "engine_kind": _ENGINE_KIND,
    "engine_version": "계획이 요청했거나 엔진이 밝힌 버전",
    "category": "실패 분류 가운데 한 단어",
    "phase": "엔진이 하고 있던 일",
    "cause": "엔진이 남긴 줄 그대로. 비밀값은 지움",
    "row_id": "엔진이 준비된 뒤였다면, 측정하던 셀",
    "kv_gib_needed": "요청 하나에 필요한 KV 메모리",
    "kv_gib_available": "쓸 수 있던 KV 메모리",
    "gib_tried": "실패한 할당의 크기",
    "gib_free": "그때 비어 있던 GPU 메모리",
    "max_model_len_estimate": "이만큼이면 들어간다고 엔진이 어림한 길이",
    "exit_code": "엔진의 종료 코드. 아직 돌고 있었으면 빈칸",
    "exit_signal": "엔진을 끝낸 시그널",
    "oom_killed": "호스트가 메모리 때문에 강제로 끝냈다고 컨테이너 런타임이 밝혔는지 여부",
    "alive_s": "실행부터 종료 또는 판정까지 걸린 시간",
    "retryable": "그때만의 문제여서 `sweep --retry-failed`로 다시 해 볼 만한지 여부",
    "log": "보관한 엔진 로그. 캠페인 폴더 기준 경로",
}

POSITIONS: dict[str, str] = {
    "schema_version": _VERSION,
    "campaign": _CAMPAIGN,
    "row_id": "rows.csv의 해당 행",
    "configuration_id": _CONFIGURATION,
    "position": "첫 번째로 제안된 토큰이면 1",
    "drafts": _DRAFTS,
    "accepted_tokens": "이 위치까지 수용된 제안 수",
    "acceptance_rate": "accepted_tokens / drafts(조건 없음)",
    "conditional_rate": "여기까지 수용된 수 / 바로 앞 위치까지 수용된 수",
}

MEANINGS: dict[str, dict[str, str]] = {"rows": ROWS, "failures": FAILURES, "positions": POSITIONS}

CATEGORIES: dict[str, str] = {
    "cli": "엔진의 명령줄 해석기가 거부한 플래그, 선택지, JSON 값, 환경 변수",
    "speculation": "추측 디코딩 설정이 거부되었거나, 이 모델 또는 백엔드에서 쓸 수 없음",
    "max_model_len": "모델이 지원하는 것보다 긴 컨텍스트 길이",
    "kv_cache": "KV 블록이나 상태 블록에 쓸 메모리가 없거나 모자람",
    "kv_dtype": "백엔드, 체크포인트, GPU 가운데 하나가 지원하지 않는 KV 캐시 자료형",
    "attention_backend": "맞는 어텐션 백엔드가 없거나, 고른 백엔드가 맞지 않음",
    "quantization": "알 수 없는 양자화 방식이거나, 이 GPU가 거부했거나, 커널이 없음",
    "architecture": "이 엔진 버전이 모르는 모델 구조",
    "model_unavailable": "모델이 없거나, 접근이 거부되었거나, 모델 허브에 닿지 않음",
    "model_files": "가중치나 토크나이저가 없거나, 잘렸거나, 읽을 수 없음",
    "trust_remote_code": "모델에 딸린 코드의 실행을 허용하지 않음",
    "tensor_parallel": "GPU보다 랭크가 많거나, 랭크 수로 나누어떨어지지 않는 차원이 있음",
    "oom_weights": "가중치를 읽거나 다시 배치하다가 GPU 메모리가 모자람",
    "oom_activation": "프로파일링, 워밍업 또는 요청을 처리하다가 GPU 메모리가 모자람",
    "oom_graph": "CUDA 그래프를 만들다가 GPU 메모리가 모자람",
    "oom_unknown": "GPU 메모리가 모자람. 로그로는 어느 단계인지 알 수 없음",
    "oom_host": "호스트 메모리가 모자람",
    "gpu_busy": "다른 프로세스가 GPU 메모리를 차지했거나, 재는 동안 사용량이 바뀜",
    "nccl_p2p": "NCCL, 피어 접근, 커스텀 올리듀스의 실패. 먼저 실패한 다른 랭크가 없을 때",
    "cuda_driver": "드라이버, CUDA 런타임, 커널 이미지의 문제 또는 잘못된 메모리 접근",
    "jit": "컴파일러나 도구의 문제, GPU에 너무 큰 커널, 오래된 컴파일 캐시",
    "shm": "/dev/shm이 너무 작음",  # noqa: S108  # a meaning, not a path that is opened
    "port_in_use": "포트가 이미 쓰이고 있음",
    "container": "Docker API, 이미지, 컨테이너 런타임의 문제",
    "environment": "라이브러리, 디스크, 호스트 제한의 문제",
    "timeout": "제한 시간 안에 진전이 없음",
    "worker_died": "엔진이 준비되기 전에 프로세스가 자기 오류를 남기지 않고 끝남",
    "crashed_serving": "엔진이 준비된 뒤에 죽었거나 오류로만 응답함",
    "host_down": "시도하는 동안 호스트가 꺼짐",
    "other": "어느 것도 아님. 가장 그럴듯한 줄만 남기고 짐작하지 않음",
}
