# SPDX-License-Identifier: Apache-2.0
"""Mixed load on vLLM's server on the card for as long as one likes: `make soak-serving`.

    build/serve/bin/python tests/serving/soak.py MODEL [--seconds 3600] [--in-flight 20]

Requests of all KINDS run at once, each with one of CASES, whose greedy answers were got once, one
by one. Every answer must be that one, or part from it where two log-probabilities are within NEAR.
Once a minute a line says what was answered and what the server takes. The program ends with status
1 if an answer was wrong, a program was compiled after warm-up, or memory of the card or of the host
grew from the first third of the time to the last.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import pathlib
import random
import statistics
import sys
import tempfile
import time

import psutil
from openai import AsyncOpenAI, BadRequestError
from server import Server

NEAR = 0.05  # of log-probabilities: a tie
MOST_GROWTH, MOST_MORE_MB = 0.03, 1  # of memory
SAMPLE_SECONDS = 5
CASES = 40
GREEDY = {"temperature": 0, "extra_body": {"ignore_eos": True}}


class Case:
    """A prompt with its greedy answer: text, and by token the likeliest two."""

    def __init__(self, chosen):
        # A third of the prompts begin alike, for the prefix cache.
        length = chosen.randrange(1, 180)
        self.words = [f"w{chosen.randrange(900)}" for _ in range(length)]
        if chosen.random() < 0.3:
            self.words[:80] = [f"w{i}" for i in range(min(80, length))]
        self.prompt = " ".join(self.words)
        self.tokens = chosen.randrange(1, min(70, 250 - length))
        self.text, self.likeliest = "", []

    async def learn(self, client, model):
        answer = await client.completions.create(
            model=model, prompt=self.prompt, max_tokens=self.tokens, logprobs=2, **GREEDY
        )
        self.text = answer.choices[0].text
        self.likeliest = answer.choices[0].logprobs.top_logprobs

    def check(self, text, whole=None):
        """ "" for the right answer, "tie", or what is wrong. `whole`: what it should be of text."""
        whole = self.text if whole is None else whole
        if text == whole:
            return ""
        pairs = zip(text.split(), self.text.split(), strict=False)
        place = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if place is not None:
            ours, best = text.split()[place], self.likeliest[place]
            values = sorted(best.values())
            if ours in best and values[-1] - best[ours] < NEAR:
                return "tie"
        return f"{self.prompt!r}: {text!r} is not {whole!r}"


# ---- kinds of request: what is wrong with the answer, "" or "tie"


async def completion(client, model, case):
    answer = await client.completions.create(
        model=model, prompt=case.prompt, max_tokens=case.tokens, **GREEDY
    )
    return case.check(answer.choices[0].text)


async def chat(client, model, case):
    messages = [{"role": "user", "content": case.prompt}]
    answer = await client.chat.completions.create(
        model=model, messages=messages, max_tokens=case.tokens, **GREEDY
    )
    return case.check(answer.choices[0].message.content)


async def stream(client, model, case):
    parts = await client.completions.create(
        model=model, prompt=case.prompt, max_tokens=case.tokens, stream=True, **GREEDY
    )
    return case.check("".join([part.choices[0].text async for part in parts]))


async def likeliest(client, model, case):
    """Log-probabilities of the first token are those of the answer got once."""
    answer = await client.completions.create(
        model=model, prompt=case.prompt, max_tokens=case.tokens, logprobs=2, **GREEDY
    )
    found = answer.choices[0].logprobs.top_logprobs[0]
    for token in found.keys() & case.likeliest[0].keys():
        if abs(found[token] - case.likeliest[0][token]) > NEAR:
            return f"{case.prompt!r}: {found} is not {case.likeliest[0]}"
    return case.check(answer.choices[0].text)


async def stop(client, model, case):
    words = case.text.split()
    word = words[len(words) // 2] + " "
    answer = await client.completions.create(
        model=model, prompt=case.prompt, max_tokens=case.tokens, stop=[word], **GREEDY
    )
    return case.check(answer.choices[0].text, case.text.partition(word)[0])


async def sampled(client, model, case):
    """Two answers by chance, as long as the greedy one."""
    answer = await client.completions.create(
        model=model, prompt=case.prompt, max_tokens=case.tokens, temperature=0.9, top_p=0.9, n=2,
        extra_body={"ignore_eos": True},
    )  # fmt: skip
    count, expected = answer.usage.completion_tokens, 2 * len(case.likeliest)
    return "" if count == expected else f"{count} tokens, not {expected}"


async def cancel(client, model, case):
    """A client that hangs up: what has come is the beginning of the answer."""
    parts = await client.completions.create(
        model=model, prompt=case.prompt, max_tokens=case.tokens, stream=True, **GREEDY
    )
    text = ""
    async for part in parts:
        text += part.choices[0].text
        if random.random() < 0.2:
            break
    await parts.close()
    return "" if case.text.startswith(text) else case.check(text)


async def too_long(client, model, case):
    """A prompt beyond the model's length is refused."""
    try:
        await client.completions.create(model=model, prompt=case.prompt + " w1" * 256, max_tokens=4)
    except BadRequestError:
        return ""
    return "a prompt that is too long was answered"


KINDS = (completion, completion, chat, stream, likeliest, stop, sampled, cancel, too_long)


# ---- the load


class Watch:
    """Memory and programs of the server, over time."""

    def __init__(self, server, metrics):
        self.process = psutil.Process(server.process.pid)
        self.metrics = metrics
        self.begin = time.monotonic()
        self.samples = collections.defaultdict(list)  # [(seconds, value)]

    async def sample(self):
        now = time.monotonic() - self.begin
        for process in [self.process, *self.process.children(recursive=True)]:
            name = process.name()
            if "VLLM" in name or process == self.process:
                key = "engine" if "Engine" in name else "server"
                self.samples[f"{key} MB"].append((now, process.memory_info().rss / 1e6))
        text = await self.metrics()
        for use in ("parameters", "kv_cache", "other"):
            size = metric(text, "spyre:memory_bytes", f'use="{use}"')
            self.samples[f"card {use} MB"].append((now, size / 1e6))
        self.samples["programs"].append((now, metric(text, "spyre:programs{", "")))

    def thirds(self, name):
        """Medians of the first third and of the last one."""
        pairs = self.samples[name]
        end = pairs[-1][0]
        first = [value for at, value in pairs if at <= end / 3]
        last = [value for at, value in pairs if at >= 2 * end / 3]
        return statistics.median(first), statistics.median(last)


def metric(text, name, label):
    lines = [line for line in text.splitlines() if line.startswith(name) and label in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


class Load:
    def __init__(self, client, model, cases, seconds):
        self.client, self.model, self.cases = client, model, cases
        self.until = time.monotonic() + seconds
        self.counts = collections.Counter()  # of answers, by kind
        self.ties = 0
        self.wrong = []

    async def work(self):
        while time.monotonic() < self.until:
            kind, case = random.choice(KINDS), random.choice(self.cases)
            try:
                said = await kind(self.client, self.model, case)
            except Exception as error:  # noqa: BLE001  (whatever it is, the load goes on)
                said = f"{type(error).__name__}: {error}"
            self.counts[kind.__name__] += 1
            self.ties += said == "tie"
            if said not in ("", "tie"):
                self.wrong.append(f"{kind.__name__}: {said}")
                print("wrong:", self.wrong[-1], flush=True)

    async def watch(self, watch):
        line = time.monotonic()
        while time.monotonic() < self.until:
            await asyncio.sleep(SAMPLE_SECONDS)
            await watch.sample()
            if time.monotonic() - line >= 60:
                line = time.monotonic()
                self.say(watch)

    def say(self, watch):
        now = {name: pairs[-1][1] for name, pairs in watch.samples.items()}
        values = ", ".join(f"{name} {value:.1f}" for name, value in now.items())
        print(f"{watch.samples['programs'][-1][0]:6.0f} s: {sum(self.counts.values())} answers, "
              f"{len(self.wrong)} wrong; {values}", flush=True)  # fmt: skip


async def soak(server, options):
    url = f"http://127.0.0.1:{server.port}"
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none", timeout=300, max_retries=0)
    model = server.model
    cases = [Case(random.Random(seed)) for seed in range(CASES)]
    for case in cases:
        await case.learn(client, model)

    async def metrics():
        return await asyncio.to_thread(server.get, "/metrics")

    watch = Watch(server, metrics)
    await watch.sample()
    load = Load(client, model, cases, options.seconds)
    await asyncio.gather(load.watch(watch), *(load.work() for _ in range(options.in_flight)))
    server.until_idle()
    return report(load, watch, await metrics())


def report(load, watch, text):
    """Prints what came of it; whether all was well."""
    print(dict(load.counts), f"{load.ties} ties, {len(load.wrong)} wrong")
    for name in ("steps_total", "card_seconds_total", "host_seconds_total"):
        kinds = ("prompt", "decode", "rows")
        by_kind = {k: metric(text, f"spyre:{name}", f'kind="{k}"') for k in kinds}
        print(name, by_kind)
    fine = not load.wrong
    for name in watch.samples:
        first, last = watch.thirds(name)
        is_memory = name.endswith("MB")
        fine &= last <= first * (1 + MOST_GROWTH) + MOST_MORE_MB if is_memory else last == first
        print(f"{name}: {first:.1f} in the first third, {last:.1f} in the last")
    fine &= metric(text, "vllm:kv_cache_usage_perc", "") == 0
    print("all well" if fine else "NOT WELL")
    return fine


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--in-flight", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # Blocks for five whole sequences, so that some of the sixteen wait for others.
        server = Server(
            options.model, pathlib.Path(folder) / "log", "--max-num-seqs", "16",
            "--num-gpu-blocks-override", "48", VLLM_DT_MAX_BATCH_TKV_LIMIT="2048",
            OMP_WAIT_POLICY="passive",
        ).wait()  # fmt: skip
        try:
            return 0 if asyncio.run(soak(server, options)) else 1
        finally:
            server.end()


if __name__ == "__main__":
    sys.exit(main())
