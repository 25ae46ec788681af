# SPDX-License-Identifier: Apache-2.0
"""torch_spyre.logging_config: what the environment asks of the loggers, and what they say."""

import logging
import math
import re
import warnings

import pytest
import torch
from torch_spyre import config, logging_config
from torch_spyre._inductor import logging_utils
from torch_spyre.logging_config import LogLevel

OLD = ("TORCH_SPYRE_DEBUG", "SPYRE_INDUCTOR_LOG", "SPYRE_INDUCTOR_LOG_LEVEL", "SPYRE_LOG_FILE")


@pytest.fixture
def environment(monkeypatch):
    """Sets variables and reads them; all is as before behind the test."""

    def read(**variables):
        for name in (*OLD, "TORCH_LOGS"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        logging_config.reset()

    monkeypatch.setenv("SPYRE_LOG", "warn")
    yield read
    monkeypatch.undo()
    logging_config.reset()


def levels(*names):
    return [logging_config.get_log_level(name) for name in names]


def test_all_is_quiet_by_default(environment):
    environment()
    assert set(logging_config.get_effective_config().values()) == {"WARNING"}
    assert logging_config.get_config_source("spyre.inductor") == "default"
    assert len(logging_config.get_effective_config()) == 12


@pytest.mark.parametrize(
    ("entry", "level"),
    [
        ("spyre.inductor", LogLevel.INFO),
        ("+spyre.inductor", LogLevel.DEBUG),
        ("-spyre.inductor", LogLevel.ERROR),
        ("spyre.inductor:critical", LogLevel.CRITICAL),
        ("+torch_spyre.inductor", LogLevel.DEBUG),
    ],
)
def test_spellings_of_torch_logs(environment, entry, level):
    environment(TORCH_LOGS=f"dynamo, {entry}")
    assert levels("spyre.inductor", "spyre.inductor.passes") == [level, level]
    assert levels("spyre.runtime", "spyre") == [LogLevel.WARNING] * 2
    assert logging.getLogger("spyre.inductor.passes").getEffectiveLevel() == level
    assert logging_config.get_config_source("spyre.inductor.passes") == "TORCH_LOGS"


def test_a_level_that_is_none(environment):
    with pytest.raises(ValueError, match="log level loud: expected one of NOTSET, DEBUG"):
        environment(TORCH_LOGS="spyre.inductor:loud")
    for logger in ("spyre.nothing", "torch_spyre.nothing", "inductor"):
        with pytest.raises(ValueError, match=f"no logger {logger}: expected one of spyre, "):
            logging_config.set_log_level(logger, "INFO")
    with pytest.raises(ValueError, match="no logger spyre.passes: expected one of spyre, spyre.i"):
        environment(TORCH_LOGS="+spyre.passes")
    with pytest.raises(ValueError, match="expected one of"):
        logging_config.set_log_level("spyre", "loud")
    with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="log level loud"):
        environment(SPYRE_INDUCTOR_LOG_LEVEL="loud")


def test_old_variables_work_and_say_that_they_are_old(environment, tmp_path):
    file = tmp_path / "log"
    cases = {
        "TORCH_SPYRE_DEBUG": ("1", "spyre.device", LogLevel.DEBUG),
        "SPYRE_INDUCTOR_LOG": ("True", "spyre.inductor", LogLevel.INFO),
        "SPYRE_LOG_FILE": (file, "spyre", LogLevel.WARNING),
    }
    for name, (value, component, level) in cases.items():
        with pytest.warns(DeprecationWarning, match=f"{name} is deprecated"):
            environment(**{name: value})
        assert levels(component) == [level]
    assert logging_config.get_log_file() == str(file)
    logging.getLogger("spyre.runtime").error("a message")
    assert file.read_text() == "[ERROR] [spyre.runtime] a message\n"
    with pytest.warns(DeprecationWarning):
        environment(SPYRE_INDUCTOR_LOG=1, SPYRE_INDUCTOR_LOG_LEVEL="ERROR")
    assert levels("spyre.inductor") == [LogLevel.ERROR]
    with pytest.warns(DeprecationWarning):
        environment(TORCH_SPYRE_DEBUG=1, TORCH_LOGS="-spyre")
    assert levels("spyre") == [LogLevel.ERROR]


def test_levels_by_call(environment):
    environment()
    logging_config.enable("spyre.inductor")
    assert levels("spyre.inductor.wsr") == [LogLevel.INFO]
    logging_config.disable("torch_spyre.inductor.wsr")
    assert not logging.getLogger("spyre.inductor.wsr").isEnabledFor(logging.CRITICAL)
    assert logging_config.get_config_source("spyre.inductor.wsr") == "programmatic"


def test_loggers_of_passes_follow_what_is_asked(environment, tmp_path):
    environment(TORCH_LOGS="+torch_spyre.inductor,-torch_spyre.inductor.wsr")
    ours, tiles = logging_utils.get_logger("mine"), logging_utils.get_logger("wsr.mine")
    assert (ours.name, ours.level, tiles.level) == ("spyre.inductor.mine", 10, 40)
    environment()
    assert ours.level == tiles.level == logging.WARNING
    logging_utils.update_log_level("mine", "INFO")
    assert ours.level == logging.INFO
    assert logging_config.get_config_source("spyre.inductor.mine") == "programmatic"
    assert {"spyre", "spyre.inductor.mine"} < set(logging_config.list_components())
    assert logging_config.get_output_config() == {"log_file": None, "log_file_source": "default"}
    logging_config.set_log_file(str(tmp_path / "log"))
    assert logging_config.get_output_config()["log_file_source"] == "programmatic"


def compile_something(n):
    torch._dynamo.reset()
    x = torch.ones(4, 64 + n, dtype=torch.half).to("spyre")
    torch.compile(lambda x: (x + 1).exp() @ x.t(), dynamic=False)(x)


def test_every_pass_is_named_once(environment, caplog):
    environment(TORCH_LOGS="spyre.inductor")
    with caplog.at_level(logging.INFO, logger="spyre.inductor.passes"):
        compile_something(1)
    lines = [r.getMessage() for r in caplog.records if r.name == "spyre.inductor.passes"]
    assert lines[0] == "segment 0: BEFORE PRE-SCHEDULING"
    assert lines[-1] == "segment 0: AFTER PRE-SCHEDULING"
    assert len(lines) == len(set(lines))
    passes = ("deadcode", "propagate_layouts", "work_distribution", "lx_planning")
    names = [line.split()[2] for line in lines]
    assert set(passes) <= set(names) and len(names) == len(set(names))
    assert "segment 0: deadcode (deadcode_elimination)" in lines
    (stickify,) = [line for line in lines if "propagate_layouts" in line]
    assert "propagate_spyre_tensor_layouts, optimize_restickify_locations" in stickify


def test_the_loop_ir_after_a_pass(environment, caplog):
    environment()
    caplog.set_level(logging.DEBUG, logger="spyre.inductor.passes")
    with config.patch(log_passes="propagate_layouts,polish"):
        compile_something(2)
    assert any("no pass polish; there are " in r.getMessage() for r in caplog.records)
    shown = [r.getMessage() for r in caplog.records if "after" in r.getMessage()]
    assert len(shown) == 1 and shown[0].startswith("segment 0, after propagate_layouts\n")
    assert "op 0 " in shown[0] and " layout(" in shown[0]
    caplog.clear()
    with config.patch(log_passes="propagate_spyre_tensor_layouts, deadcode_elimination"):
        compile_something(5)
    shown = [r.getMessage().split()[3] for r in caplog.records if "after" in r.getMessage()]
    assert "propagate_layouts" in shown and not {r.levelno for r in caplog.records} & {30}


@pytest.mark.parametrize(
    ("name", "piece"),
    [
        ("inductor", "compiled: "),
        ("inductor.codegen", "async_compile.sdsc("),
        ("inductor.sdsc", ", bundle\n"),
        ("inductor.lowering", "spyre.batchmatmul("),
        ("inductor.stickify", "ops restickified"),
        ("inductor.wsr", "0 ops in tiles"),
        ("inductor.work_division", " ops on several cores"),
        ("execution", "kernels, "),
    ],
)
def test_each_logger_has_its_subject(environment, caplog, name, piece):
    environment()
    with caplog.at_level(logging.DEBUG, logger=f"spyre.{name}"):
        compile_something(3)
    assert any(piece in r.getMessage() for r in caplog.records if r.name == f"spyre.{name}")


def divisions(caplog, function, *shapes):
    """(opfunc, cores, splits) by op."""
    torch._dynamo.reset()
    caplog.clear()
    inputs = [torch.ones(shape, dtype=torch.half).to("spyre") for shape in shapes]
    with caplog.at_level(logging.DEBUG, logger="spyre.inductor.work_division"):
        torch.compile(function, dynamic=False)(*inputs)
    form = r"segment 0: work_division (\S+) .*cores=(\d+), .*splits=\{(.*?)\}, .*\.py:\d+"
    found = [re.match(form, r.getMessage()) for r in caplog.records if r.levelno == logging.DEBUG]
    return [(m[1], int(m[2]), [int(n.split()[1]) for n in m[3].split(", ")]) for m in found if m]


@pytest.mark.parametrize(
    ("opfunc", "function", "shapes"),
    [
        ("add", lambda x, y: x + y, [(512, 1024)] * 2),
        ("sum", lambda x: x.sum(0), [(512, 1024)]),
        ("batchmatmul", lambda x, y: x @ y, [(512, 1024), (1024, 256)]),
        ("topkvalue", lambda x: x.topk(4)[0], [(512, 1024)]),
    ],
)
def test_work_division_tells_the_splits(environment, caplog, opfunc, function, shapes):
    environment()
    found = {name: (cores, splits) for name, cores, splits in divisions(caplog, function, *shapes)}
    cores, splits = found[opfunc]
    assert 1 < cores <= 32 and math.prod(splits) == cores
    with config.patch(sencores=1):
        assert {cores for _, cores, _ in divisions(caplog, function, *shapes)} == {1}


ARTEFACTS = {
    "pre_grad_graphs": "torch.exp",
    "post_grad_graphs": "torch.ops.aten.exp.default",
    "ir_pre_fusion": "BEFORE FUSION\n// segment 0\n",
    "ir_post_fusion": "AFTER FUSION\n// segment 0\n",
    "kernel_code": "kernel 0 ",
    "output_code": "OpSpec(",
}


def test_artefacts_of_torch_logs(run_python):
    source = """
import torch
x = torch.ones(4, 64, dtype=torch.half).to("spyre")
torch.compile(lambda x: torch.exp(x) + 1)(x)
"""
    shown = run_python(source, TORCH_LOGS=",".join(ARTEFACTS)).stderr
    for name, piece in ARTEFACTS.items():
        texts = "\n".join(line.partition(f"[__{name}] ")[2] for line in shown.splitlines())
        assert piece in texts, (name, shown)
    one, *others = ARTEFACTS
    shown = run_python(source, TORCH_LOGS=one).stderr
    assert f"[__{one}]" in shown and not any(f"[__{name}]" in shown for name in others)
    assert "__" not in run_python(source, TORCH_LOGS="spyre.device").stderr


def test_loggers_of_users_passes_are_names_of_torch_logs(run_python):
    source = """
import torch
from torch_spyre._inductor.logging_utils import get_inductor_logger
print(get_inductor_logger("mine").level)
"""
    for entry in ("+spyre.inductor.mine", "spyre.inductor.mine:DEBUG"):
        assert run_python(source, TORCH_LOGS=entry).stdout == "10\n"


def test_nothing_is_said_unasked(environment, caplog):
    environment()
    compile_something(3)  # what PyTorch's own imports warn of comes once
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_something(4)
    assert not [r for r in caplog.records if r.name.startswith("spyre")]


def test_pytorch_takes_the_names(run_python):
    source = "import torch, torch_spyre.logging_config as c; print(c.get_effective_config())"
    done = run_python(source, TORCH_LOGS="+torch_spyre.inductor.passes,-torch_spyre.runtime")
    assert "'spyre.inductor.passes': 'DEBUG'" in done.stdout
    assert "'spyre.runtime': 'ERROR'" in done.stdout and "'spyre': 'WARNING'" in done.stdout
