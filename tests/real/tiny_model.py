"""Save a tiny random Llama with its own tokenizer and chat template: `tiny_model.py FOLDER SEED`.

Runs inside the vLLM environment (torch, transformers and tokenizers are there, not in the project's).
The weights are random, so the text means nothing; counters, speculation and failures are real.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 512
LINES = [
    "The engine counts every token that it hands to the frontend.",
    "A window is the time between two scrapes of the same counters.",
    "def add(a, b):\n    return a + b\n",
    "for item in items:\n    total += item.price * item.count\n",
    "요청이 늘어나면 한 단계에 걸리는 시간도 늘어난다.",
    "Speculation pays when the drafts are accepted and the step stays cheap.",
]
CHAT_TEMPLATE = (
    "{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE(unk_token=None))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    bpe.train_from_iterator(LINES * 4, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<s>", eos_token="</s>")
    fast.chat_template = CHAT_TEMPLATE
    return fast


def main(folder: Path, seed: int) -> None:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=4096,
        bos_token_id=0,
        eos_token_id=1,
        torch_dtype="bfloat16",
    )
    folder.mkdir(parents=True, exist_ok=True)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    tokenizer().save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
