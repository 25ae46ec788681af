# SPDX-License-Identifier: Apache-2.0
"""Programs of other libraries on the device: each row of docs/ecosystem.md."""

import os

import pytest
import torch
import torch.multiprocessing as multiprocessing

transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

pytestmark = pytest.mark.host("aten.arange")
IDS = torch.arange(5).reshape(1, 5)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A directory with a small Llama, and its logits on the CPU."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).half().eval()
    path = str(tmp_path_factory.mktemp("model"))
    model.save_pretrained(path)
    with torch.no_grad():
        return path, model.float()(IDS).logits


def load(path, **options):
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float16, **options)


def check(model, expected):
    assert {p.device.type for p in model.parameters()} == {"spyre"}
    with torch.no_grad():
        logits = model(IDS.to("spyre")).logits
    torch.testing.assert_close(logits.float().cpu(), expected, atol=0.01, rtol=0.01)


LOADS = {
    "from_pretrained().to": lambda path: load(path).to("spyre"),
    "device_map=spyre": lambda path: load(path, device_map="spyre"),
    "device_map={'': device}": lambda path: load(path, device_map={"": torch.device("spyre", 0)}),
}


@pytest.mark.parametrize("name", LOADS)
def test_from_pretrained(saved, name):
    if "device_map" in name:
        pytest.importorskip("accelerate")  # transformers asks for it
    path, expected = saved
    check(LOADS[name](path), expected)


def test_saved_from_the_device(saved, tmp_path):
    path, expected = saved
    load(path).to("spyre").save_pretrained(tmp_path)
    check(load(str(tmp_path)).to("spyre"), expected)


def test_safetensors_refuse_the_device_themselves(saved, tmp_path):
    file = os.path.join(saved[0], "model.safetensors")
    with pytest.raises(Exception, match="device spyre is invalid"):
        safetensors.load_file(file, device="spyre")
    state = {name: value.to("spyre") for name, value in safetensors.load_file(file).items()}
    safetensors.save_file(state, tmp_path / "copy.safetensors")
    for name, value in safetensors.load_file(tmp_path / "copy.safetensors").items():
        assert value.equal(state[name].cpu())


def test_safetensors_into_a_model_of_the_device(saved):
    path, expected = saved
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig.from_pretrained(path))
    model = model.half().eval().to("spyre")
    safetensors.load_model(model, os.path.join(path, "model.safetensors"))
    check(model, expected)


@pytest.mark.host("aten.isin", "aten.bitwise_and", "aten.max")
def test_pipelines_take_the_device_by_name(saved):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(128)}, unk_token="w127"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0")
    found = transformers.pipeline(
        "text-generation", model=load(saved[0]), tokenizer=tokenizer, device="spyre"
    )
    assert found.device.type == "spyre" and found.model.device.type == "spyre"
    text = found("w3 w4 w5", max_new_tokens=2, do_sample=False)[0]["generated_text"]
    assert len(text.split()) == 5


_TRAINS = """
import torch, transformers, accelerate
found = accelerate.Accelerator()
module = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
module, optimizer = found.prepare(module, optimizer)
before = module.weight.detach().cpu().clone()
found.backward(module(torch.ones(2, 4, device=found.device)).sum())
optimizer.step()
print(found.device.type, module.weight.device.type, bool((module.weight.cpu() != before).any()))
class Data(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return {"x": torch.full((4,), float(i)), "labels": torch.zeros(4)}
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.layer = torch.nn.Linear(4, 4)
    def forward(self, x, labels):
        result = self.layer(x); return {"loss": (result - labels).square().mean(), "logits": result}
options = transformers.TrainingArguments("out", max_steps=2, per_device_train_batch_size=2,
                                         report_to=[], save_strategy="no", disable_tqdm=True)
trainer = transformers.Trainer(Model(), options, train_dataset=Data())
trainer.train()
print(options.device.type, trainer.model.layer.weight.device.type)
"""


def test_accelerate_and_trainer_take_the_device_from_the_environment(run_python, tmp_path):
    pytest.importorskip("accelerate")
    source = f"import os; os.chdir({str(tmp_path)!r})\n{_TRAINS}"
    lines = run_python(source, ACCELERATE_TORCH_DEVICE="spyre").stdout.splitlines()
    assert "spyre spyre True" in lines and "spyre spyre" in lines


# ---- processes


class OnTheHost(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((2,), float(index))


class OnTheCard(OnTheHost):
    def __getitem__(self, index):
        return super().__getitem__(index).to("spyre")


def test_data_loaders():
    wanted = [[[0, 0], [1, 1]], [[2, 2], [3, 3]]]
    loader = torch.utils.data.DataLoader
    assert [batch.tolist() for batch in loader(OnTheCard(), 2)] == wanted
    workers = loader(OnTheHost(), 2, num_workers=1, pin_memory=True)
    assert [batch.to("spyre").tolist() for batch in workers] == wanted
    torch.ones(1, device="spyre")
    with pytest.raises(RuntimeError, match="Cannot use spyre in a forked subprocess"):
        list(loader(OnTheCard(), 2, num_workers=1, multiprocessing_context="fork"))


def test_a_worker_that_returns_tensors_of_the_device_is_refused_where_they_arrive():
    """PyTorch's own error would come up in a thread of the worker, and the loader wait for ever."""
    spawned = torch.utils.data.DataLoader(
        OnTheCard(), 2, num_workers=1, multiprocessing_context="spawn"
    )
    with pytest.raises(RuntimeError, match=r"cannot be sent to another process: send \.cpu\(\)"):
        list(spawned)


def _nothing(_tensor):
    pass


def test_processes_share_no_tensor_of_the_device():
    x = torch.ones(3, device="spyre")
    assert x.share_memory_() is x
    process = multiprocessing.get_context("spawn").Process(target=_nothing, args=(x,))
    with pytest.raises(RuntimeError, match="cannot be sent to another process"):
        process.start()
