# SPDX-License-Identifier: Apache-2.0
"""The program that pipeline.py leaves, as bytes, and its runtime: neither knows PyTorch.

    python examples/pipeline_runtime.py program.bin input.npy output.npy

The bytes: "SPYREPIP", version and CRC-32 of the rest (little-endian, 4 bytes each), the length of a
JSON text (8), the text, then kernels and weights at the offsets that the text gives.
"""

import json
import pathlib
import struct
import sys
import zlib

import kernel_lib
import numpy as np

MAGIC, VERSION = b"SPYREPIP", 1
HEADER = struct.Struct("<8sII")
LENGTH = struct.Struct("<Q")


def pack(instructions, blocks):
    """Instructions (JSON) and blocks {name: bytes} as one blob."""
    places, data = {}, b""
    for name, block in blocks.items():
        places[name] = [len(data), len(block)]
        data += block
    text = json.dumps({"instructions": instructions, "blocks": places}).encode()
    body = LENGTH.pack(len(text)) + text + data
    return HEADER.pack(MAGIC, VERSION, zlib.crc32(body)) + body


def unpack(blob):
    """(instructions, blocks); ValueError for bytes that pack() did not write."""
    if len(blob) < HEADER.size + LENGTH.size:
        raise ValueError("a program is longer")
    magic, version, checksum = HEADER.unpack_from(blob)
    if magic != MAGIC:
        raise ValueError("no program of the pipeline")
    if version != VERSION:
        raise ValueError(f"version {version}, this runtime reads {VERSION}")
    body = blob[HEADER.size :]
    if zlib.crc32(body) != checksum:
        raise ValueError("the checksum is wrong")
    start = LENGTH.size + LENGTH.unpack_from(body)[0]
    content = json.loads(body[LENGTH.size : start])
    places = content["blocks"].items()
    blocks = {name: body[start + at : start + at + size] for name, (at, size) in places}
    return content["instructions"], blocks


class Program:
    """A program, loaded: kernels are ready to run."""

    def __init__(self, blob):
        self.instructions, blocks = unpack(blob)
        self.values = {}
        self.kernels = {}
        for i in self.instructions:
            if i["op"] == "kernel":
                self.kernels[i["name"]] = kernel_lib.Kernel(blocks[i["name"]], i["shape"])
            for name, shape in i.get("weights", {}).items():
                self.values[name] = np.frombuffer(blocks[name], np.float16).reshape(shape)

    def __call__(self, *inputs):
        values, given = dict(self.values), iter(inputs)
        for i in self.instructions:
            if i["op"] == "input":
                values[i["name"]] = next(given)
                continue
            args = [values[a] for a in i["args"]]
            if i["op"] == "output":
                return args[0]
            if i["op"] == "kernel":
                print(f"  kernel {i['kernel']}: {[list(a.shape) for a in args]} -> {i['shape']}")
                values[i["name"]] = self.kernels[i["name"]](*args)
            else:
                print(f"  fallback {i['function']}: NumPy")
                values[i["name"]] = getattr(np, i["function"])(*args)


def main(program, source, target):
    try:
        run = Program(pathlib.Path(program).read_bytes())
    except (ValueError, kernel_lib.SpyreError) as error:
        sys.exit(f"{program}: {error}")
    print("--- RUNTIME EXECUTION ---")
    np.save(target, run(np.load(source)))
    assert "torch" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
