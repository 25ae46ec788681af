# SPDX-License-Identifier: Apache-2.0
"""vLLM's server in a process of its own, for tests and for soak.py."""

import json
import os
import subprocess
import time
import urllib.request

from environment import PYTHON, free_port


class Server:
    """Of a model, whose folder is its name. `options` are vLLM's, `variables` of the environment;
    what it says goes into the file `log`."""

    def __init__(self, model, log, *options, **variables):
        self.model, self.log, self.port = str(model), log, free_port()
        with log.open("w") as file:
            self.process = subprocess.Popen(
                [PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", self.model,
                 "--port", str(self.port), "--max-model-len", "256",
                 "--max-num-batched-tokens", "128", *options],
                stdout=file, stderr=file,
                env={**os.environ, "HF_HUB_OFFLINE": "1", "MASTER_ADDR": "127.0.0.1",
                     "SENDNN_INFERENCE_DYNAMO_BACKEND": "sendnn",
                     "MASTER_PORT": str(free_port()), **variables},
            )  # fmt: skip

    def wait(self):
        """Until it has warmed up."""
        for _ in range(1200):  # a busy host takes minutes
            time.sleep(0.5)
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            try:
                self.get("/health")
                return self
            except OSError:
                continue
        raise TimeoutError(self.log.read_text()[-4000:])

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return answer.read().decode()

    def post(self, path, seconds=300, **body):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )  # fmt: skip
        return urllib.request.urlopen(request, timeout=seconds)

    def open(self, words, tokens, seconds=300, **options):
        body = {"model": self.model, "prompt": words, "max_tokens": tokens, "temperature": 0,
                "ignore_eos": True, **options}  # fmt: skip
        return self.post("/v1/completions", seconds, **body)

    def ask(self, words, tokens, seconds=300):
        with self.open(words, tokens, seconds) as answer:
            return json.load(answer)

    def complete(self, words, tokens, seconds=300):
        return self.ask(words, tokens, seconds)["choices"][0]["text"]

    def metric(self, name, **labels):
        """The sum of all values of a metric with these labels."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        lines = [line for line in self.get("/metrics").splitlines() if line.startswith(name)]
        found = [line for line in lines if all(text in line for text in wanted)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in found)

    def until_idle(self):
        for _ in range(120):
            if self.metric("vllm:num_requests_running") == 0:
                return
            time.sleep(0.5)
        raise TimeoutError("requests still run")

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(120)
