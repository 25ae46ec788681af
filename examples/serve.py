# SPDX-License-Identifier: Apache-2.0
"""Talks to a server that `make serve` started.

build/serve/bin/python examples/serve.py [--url http://127.0.0.1:8000/v1]
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor

from openai import OpenAI

PROMPT = "w5 w6 w7 w8"


def completion(client: OpenAI, model: str) -> None:
    answer = client.completions.create(
        model=model, prompt=PROMPT, max_tokens=8, temperature=0, logprobs=2
    )
    choice = answer.choices[0]
    print("completion:", choice.text)
    print("first token:", choice.logprobs.top_logprobs[0])


def chat(client: OpenAI, model: str) -> None:
    messages = [{"role": "user", "content": PROMPT}]
    answer = client.chat.completions.create(
        model=model, messages=messages, max_tokens=8, temperature=0
    )
    print("chat:", answer.choices[0].message.content)


def stream(client: OpenAI, model: str) -> None:
    parts = client.completions.create(
        model=model, prompt=PROMPT, max_tokens=8, temperature=0, stream=True
    )
    print("stream:", *(part.choices[0].text for part in parts))


def cancelled(client: OpenAI, model: str) -> None:
    """A client that hangs up after two tokens."""
    parts = client.completions.create(
        model=model, prompt=PROMPT, max_tokens=100, temperature=0, stream=True,
        extra_body={"ignore_eos": True},
    )  # fmt: skip
    for count, _ in enumerate(parts):
        if count == 1:
            break
    parts.close()
    print("cancelled after two tokens")


def stop(client: OpenAI, model: str) -> None:
    whole = client.completions.create(model=model, prompt=PROMPT, max_tokens=8, temperature=0)
    word = whole.choices[0].text.split()[3]
    cut = client.completions.create(
        model=model, prompt=PROMPT, max_tokens=8, temperature=0, stop=[word]
    )
    print(f"stopped at {word}:", cut.choices[0].text, f"({cut.choices[0].finish_reason})")


def batch(client: OpenAI, model: str) -> None:
    """Prompts of mixed lengths at once."""

    def ask(length: int) -> int:
        prompt = " ".join(f"w{(7 * i + length) % 500}" for i in range(length))
        answer = client.completions.create(
            model=model,
            prompt=prompt,
            max_tokens=16,
            temperature=0,
            extra_body={"ignore_eos": True},
        )
        return answer.usage.completion_tokens

    with ThreadPoolExecutor(8) as threads:
        counts = list(threads.map(ask, [3, 20, 65, 100, 7, 40, 90, 12]))
    print("batch:", counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1")
    client = OpenAI(base_url=parser.parse_args().url, api_key="none", timeout=300)
    model = client.models.list().data[0].id
    for show in (completion, chat, stream, cancelled, stop, batch):
        show(client, model)


if __name__ == "__main__":
    main()
