# SPDX-License-Identifier: Apache-2.0
"""Programs that use PyTorch's tools around a module: each gives what it gives on the CPU. Beside
the tests of other libraries (test_ecosystem.py)."""

import copy
import functools
import io
import pickle
import tempfile

import pytest
import torch
import torch.nn.attention.flex_attention
import torch.nn.functional as F  # noqa: N812
import torch.nn.utils as nn_utils
import torch.nn.utils.prune
import torch.testing._internal.two_tensor
import torch.utils.flop_counter
import torch_spyre
from torch import nn
from torch.utils import checkpoint

DEVICE = "spyre"
PROGRAMS = {}


def program(function):
    """(module, inputs [4, 16]) -> a tensor or several, the same on any device."""
    PROGRAMS[function.__name__] = function
    return function


def block():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8))


def input_gradient(call, x):
    x = x.clone().requires_grad_()
    call(x).sum().backward()
    return x.grad


@pytest.fixture(autouse=True)
def quiet():
    torch._dynamo.reset()
    with torch_spyre.fallback("silent"):
        yield


# ---- torch.func


@program
def vmapped(m, x):
    return torch.func.vmap(m)(x)


@program
def gradients_by_example(m, x):
    parameters = {name: p.detach() for name, p in m.named_parameters()}

    def loss(parameters, x):
        return torch.func.functional_call(m, parameters, (x[None],)).square().mean()

    found = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, x)
    return list(found.values())


@program
def jacobians(m, x):
    reverse = torch.func.jacrev(lambda x: m(x).sum(0))(x)
    forward = torch.func.jacfwd(lambda x: torch.tanh(x).sum(0))(x)
    return reverse, forward, torch.func.hessian(lambda x: (x**3).sum())(x[0])


@program
def forward_mode(m, x):
    ones = torch.ones_like(x)
    along = torch.func.jvp(lambda x: torch.sin(x) * x, (x,), (ones,))[1]
    return along, torch.func.linearize(torch.sin, x)[1](ones)


@program
def an_ensemble(m, x):
    parameters, buffers = torch.func.stack_module_state([copy.deepcopy(m) for _ in range(3)])

    def call(parameters, buffers, x):
        return torch.func.functional_call(m, (parameters, buffers), (x,))

    return torch.func.vmap(call, (0, 0, None))(parameters, buffers, x)


@program
def compiled_transforms(m, x):
    gradient = torch.compile(lambda x: torch.func.grad(lambda x: m(x).sum())(x))(x)
    return gradient, torch.compile(lambda x: torch.vmap(m)(x))(x)


# ---- autograd


@program
def second_derivatives(m, x):
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(m(x).pow(2).sum(), x, create_graph=True)
    return torch.autograd.grad(gradient.pow(2).sum(), x)[0]


@program
def checkpoints(m, x):
    kept = functools.partial(checkpoint.checkpoint, m)
    found = [
        input_gradient(functools.partial(kept, use_reentrant=kind), x) for kind in (True, False)
    ]
    parts = functools.partial(checkpoint.checkpoint_sequential, m, 2, use_reentrant=False)
    return *found, input_gradient(parts, x)


@program
def a_selective_checkpoint(m, x):
    def policy(_context, op, *_args, **_options):
        kept = op is torch.ops.aten.addmm.default
        choice = checkpoint.CheckpointPolicy
        return choice.MUST_SAVE if kept else choice.PREFER_RECOMPUTE

    contexts = functools.partial(checkpoint.create_selective_checkpoint_contexts, policy)
    return input_gradient(
        lambda x: checkpoint.checkpoint(m, x, use_reentrant=False, context_fn=contexts), x
    )


@program
def saved_on_the_cpu(m, x):
    with torch.autograd.graph.save_on_cpu():
        return input_gradient(m, x)


@program
def hooks(m, x):
    m[0].register_forward_pre_hook(lambda _m, args: (args[0] * 2,))
    m[1].register_forward_hook(lambda _m, _args, result: result + 1)
    m[3].register_full_backward_hook(lambda _m, gradients, _of_results: (gradients[0] * 3,))
    seen = []
    m[0].weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    return input_gradient(m, x), *seen, input_gradient(torch.compile(m), x)


# ---- modules, files


@program
def exported(m, x):
    rows = torch.export.Dim("rows", min=2, max=64)
    found = torch.export.export(m, (x,), dynamic_shapes=({0: rows},))
    file = io.BytesIO()
    torch.export.save(found, file)
    file.seek(0)
    again = torch.export.load(file)
    parts = found.run_decompositions()
    return [f.module()(torch.cat([x, x])) for f in (found, again, parts)]


@program
def scripted(m, x):
    script = torch.jit.script(m.eval())
    return torch.jit.trace(m, (x,))(x), script(x), torch.jit.freeze(script)(x)


@program
def traced(m, x):
    make_fx = torch.fx.experimental.proxy_tensor.make_fx
    return torch.fx.symbolic_trace(m)(x), make_fx(lambda x: m(x))(x)(x)


@program
def pickled(m, x):
    file = io.BytesIO()
    torch.save({"module": m.state_dict(), "x": nn.Parameter(x)}, file)
    file.seek(0)
    found = torch.load(file, weights_only=True)
    other = block()
    other.load_state_dict(found["module"], assign=True)
    return pickle.loads(pickle.dumps(m))(pickle.loads(pickle.dumps(x))), other(found["x"])


@program
def parametrized(m, x):
    orthogonal = nn_utils.parametrizations.orthogonal(copy.deepcopy(m[0]))(x)
    return orthogonal, nn_utils.parametrizations.weight_norm(m[0])(x)


@program
def pruned(m, x):
    prune = nn_utils.prune
    prune.l1_unstructured(m[0], "weight", amount=0.3)
    results = [m(x)]
    prune.remove(m[0], "weight")
    prune.ln_structured(m[3], "weight", amount=0.5, n=2, dim=0)
    return *results, m(x)


@program
def converted(m, x):
    change = torch.__future__.set_swap_module_params_on_conversion
    change(True)
    try:
        return m.half().float()(x)
    finally:
        change(False)


@program
def quantized_by_pretending(m, x):
    return torch.fake_quantize_per_tensor_affine(x, 0.125, 0, -128, 127)


# ---- training


def trained(m, optimizer, x):
    def loss():
        optimizer.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        return loss

    for _ in range(3):
        if isinstance(optimizer, torch.optim.LBFGS):
            optimizer.step(loss)
        else:
            loss()
            nn_utils.clip_grad_norm_(m.parameters(), 0.5)
            optimizer.step()
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return list(m.parameters())


OPTIMIZERS = {
    f"{name} {' '.join(options)}".strip(): (name, options)
    for name, forms in {
        "SGD": ({}, {"foreach": True}, {"fused": True}, {"maximize": True}),
        "Adam": ({}, {"foreach": True}, {"fused": True}, {"amsgrad": True}),
        "AdamW": ({}, {"foreach": True}, {"fused": True}),
        "Adagrad": ({}, {"foreach": True}, {"fused": True}),
        "NAdam": ({}, {"foreach": True}),
        "RAdam": ({}, {"foreach": True}),
        "Adamax": ({}, {"foreach": True}),
        "Adadelta": ({}, {"foreach": True}),
        "ASGD": ({}, {"foreach": True}),
        "RMSprop": ({}, {"foreach": True}),
        "Rprop": ({}, {"foreach": True}),
        "Adafactor": ({},),
        "LBFGS": ({},),
    }.items()
    for options in forms
}


@program
def averaged(m, x):
    average = torch.optim.swa_utils.AveragedModel(m)
    for _ in range(3):
        average.update_parameters(m)
    return average(x)


@program
def a_compiled_optimizer(m, x):
    optimizer = torch.optim.Adam(m.parameters(), lr=1e-2)
    step = torch.compile(optimizer.step)
    for _ in range(2):
        optimizer.zero_grad()
        m(x).square().mean().backward()
        step()
    return list(m.parameters())


# ---- modes, operators of others


@program
def under_modes(m, x):
    class Dispatched(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    class Called(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    with Dispatched():
        results = [m(x)]
    with Called():
        return *results, m(x)


@program
def an_operator_of_the_user(m, x):
    name = f"foreign::twice_{x.device.type}"
    twice = torch.library.custom_op(
        name, lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    twice.register_fake(torch.empty_like)
    twice.register_autograd(lambda _context, gradient: gradient * 2)
    compiled = torch.compile(lambda x: twice(x) + 1, fullgraph=True)
    return twice(x), compiled(x), input_gradient(compiled, x)


@program
def a_function_of_the_user(m, x):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(context, gradient):
            (x,) = context.saved_tensors
            return gradient * x.exp()

    return input_gradient(torch.compile(lambda x: Exp.apply(x) * 2), x)


@program
def compiled_in_all_modes(m, x):
    modes = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
    return [torch.compile(m, mode=mode)(x) for mode in modes]


@program
def compiled_by_other_backends(m, x):
    backends = ("eager", "aot_eager", "aot_eager_decomp_partition")
    return [input_gradient(torch.compile(m, backend=name), x) for name in backends]


@program
def compiled_for_any_size(m, x):
    compiled = torch.compile(m, fullgraph=True, dynamic=True)
    return [compiled(y) for y in (x, torch.cat([x, x]), x[:1])]


@program
def compiled_of_ragged_batches(m, x):
    compiled, found = torch.compile(m), []
    for sizes in ([1, 3], [2, 2], [3, 1]):
        batch = torch.nested.as_nested_tensor(list(x.split(sizes)), layout=torch.jagged)
        found += compiled(batch).unbind()
    return found


@program
def branches_and_loops(m, x):
    branch = torch.compile(
        lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
    )
    return branch(x), torch.compile(lambda x: x[: int(x.argmax() % 3) + 1])(x)


@program
def what_is_left_out_of_graphs(m, x):
    outside = torch.compiler.disable(lambda x: x + 1)
    return torch.compile(lambda x: outside(m(x)) * 2)(x)


def check(function, make=block, tolerance=3e-2):
    host = make()
    card = copy.deepcopy(host).to(DEVICE)
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    wanted, found = function(host, x), function(card, x.to(DEVICE))
    several = isinstance(wanted, (list, tuple))
    for a, b in zip(*((found, wanted) if several else ([found], [wanted])), strict=True):
        assert a.device.type == DEVICE
        torch.testing.assert_close(a.detach().cpu(), b.detach(), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_on_the_cpu(name):
    check(PROGRAMS[name])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    kind, options = OPTIMIZERS[name]

    def tanh():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8))

    def train(m, x):
        return trained(m, getattr(torch.optim, kind)(m.parameters(), lr=1e-2, **options), x)

    check(train, tanh)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Rprop"])
def test_optimizers_whose_counts_are_on_the_device(name):
    m = block().to(DEVICE)
    optimizer = getattr(torch.optim, name)(m.parameters(), lr=1e-2, capturable=True)
    trained(m, optimizer, torch.randn(4, 16).to(DEVICE))
    assert all(p.isfinite().all() for p in m.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_steps_in_16_bits_reach_every_element(name, dtype):
    """PyTorch's kernel for the CPU leaves the first elements as they are."""
    steps = []
    for fused in (True, False):
        parameter = nn.Parameter(torch.ones(70, dtype=dtype, device=DEVICE))
        parameter.grad = torch.full_like(parameter, 0.5)
        options = {"fused": True} if fused else {"foreach": False}
        getattr(torch.optim, name)([parameter], lr=0.1, **options).step()
        steps.append(parameter.detach().cpu())
    assert steps[0].unique().numel() == 1 and steps[0][0] < 1
    torch.testing.assert_close(steps[0], steps[1], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_scaled_gradients(dtype):
    m, x = block().to(DEVICE), torch.randn(4, 16).to(DEVICE)
    optimizer, scaler = torch.optim.SGD(m.parameters(), 1e-2), torch.amp.GradScaler(DEVICE)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=dtype):
            loss = m(x).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    scaler.load_state_dict(scaler.state_dict())


def test_every_option_of_the_profiler():
    m, x = block().to(DEVICE), torch.randn(4, 16).to(DEVICE)
    every = dict.fromkeys(
        ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules"), True
    )
    steps = torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=2)
    ready = []
    with torch.profiler.profile(schedule=steps, on_trace_ready=ready.append, **every) as profile:
        for _ in range(6):
            m(x)
            profile.step()
    assert len(ready) == 2
    assert "aten::addmm" in profile.key_averages(group_by_input_shape=True).table()
    with tempfile.TemporaryDirectory() as folder:
        with torch.profiler.profile(**every) as profile:
            m(x)
        profile.export_chrome_trace(f"{folder}/trace.json")
        profile.export_stacks(f"{folder}/stacks.txt", "self_cpu_time_total")


def test_flops_are_counted_as_on_the_cpu():
    counts = []
    for device in ("cpu", DEVICE):
        m, x = block().to(device), torch.randn(4, 16).to(device)
        with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
            m(x).sum().backward()
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("home", ["cpu", DEVICE])
def test_lazy_modules_move(home):
    torch.ones(1, device=DEVICE)  # from here on the device's `Tensor.to` stands in PyTorch's place
    for lazy, shape in (
        (nn.LazyLinear(8), (2, 3)),
        (nn.LazyBatchNorm1d(), (4, 3)),
        (nn.LazyConv1d(4, 3), (1, 2, 8)),
    ):
        moved = lazy.to(torch.half).to(home)
        assert moved(torch.ones(shape, dtype=torch.half, device=home)).device.type == home


def test_modules_made_without_memory():
    with torch.device("meta"):
        m = block()
    m.to_empty(device=DEVICE)
    m.load_state_dict(block().state_dict())
    x = torch.randn(4, 16)
    torch.testing.assert_close(m(x.to(DEVICE)).cpu(), block()(x), atol=1e-3, rtol=1e-3)


def test_the_default_device():
    torch.set_default_device(DEVICE)
    try:
        layer = nn.TransformerEncoderLayer(16, 2, batch_first=True)
        made = [layer(torch.randn(2, 3, 16)), torch.randperm(5), torch.linspace(0, 1, 5)]
    finally:
        torch.set_default_device(None)
    assert {tensor.device.type for tensor in made} == {DEVICE}


@pytest.mark.parametrize("arguments", [(5,), (6, False), (7, True, 3.0)])
def test_windows_that_are_made_on_the_device(arguments):
    for make in (torch.kaiser_window, torch.compile(torch.kaiser_window)):
        made = make(*arguments, device=DEVICE)
        assert made.device.type == DEVICE
        torch.testing.assert_close(made.cpu(), torch.kaiser_window(*arguments))


def test_subclasses_of_tensors():
    class Named(torch.Tensor):
        pass

    x = torch.randn(3, 4)
    found = (x.as_subclass(Named).to(DEVICE) * 2).sum()
    assert type(found) is Named and found.device.type == DEVICE
    two = torch.testing._internal.two_tensor.TwoTensor(x.to(DEVICE), x.to(DEVICE) + 1)
    for function in (F.relu, torch.compile(F.relu)):
        torch.testing.assert_close(function(two).b.cpu(), (x + 1).relu())


def test_fake_tensors():
    with torch._subclasses.fake_tensor.FakeTensorMode() as mode:
        made = torch.randn(2, 4, device=DEVICE) @ torch.randn(4, 3, device=DEVICE)
        assert (made.shape, made.device.type) == ((2, 3), DEVICE)
    assert (mode.from_tensor(torch.ones(3, device=DEVICE)) + 1).device.type == DEVICE


def test_every_graph_that_runs_on_the_host_says_so():
    def transform(factor):
        return torch.compile(lambda x: torch.fft.fft(x * factor).real)

    x = torch.ones(4, 4, device=DEVICE)
    torch_spyre.reset_fallback_report()
    for factor in (2, 3, 4):
        before = len(torch_spyre.compile_reports())
        with torch_spyre.fallback("warn"), pytest.warns(torch_spyre.FallbackWarning, match="graph"):
            transform(factor)(x)
        assert any(report.interpreted for report in torch_spyre.compile_reports()[before:])


def test_what_no_card_has_is_refused_in_pytorch_s_words():
    x = torch.ones(4, 4, device=DEVICE)
    with pytest.raises((RuntimeError, NotImplementedError), match="quantize"):
        torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    with pytest.raises(NotImplementedError, match="torch.sparse_csr: the spyre device has"):
        torch.sparse.mm(x.to_sparse_csr(), x)
