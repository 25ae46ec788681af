# SPDX-License-Identifier: Apache-2.0
"""Fused optimizers and the gradient scaler, beside PyTorch's kernels for the CPU."""

import io
import pickle
import warnings

import pytest
import torch
from torch_spyre.eager import optimizers

OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, 1e-2, weight_decay=0.1, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2, fused=True),
    "adamw_amsgrad": lambda p: torch.optim.AdamW(p, 1e-2, amsgrad=True, fused=True),
    "adam_up": lambda p: torch.optim.Adam(p, 1e-2, maximize=True, fused=True),
    "adam_tensor_rate": lambda p: torch.optim.Adam(p, torch.tensor(1e-2), fused=True),
    "sgd": lambda p: torch.optim.SGD(p, 1e-2, fused=True),
    "momentum": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, weight_decay=0.1, fused=True),
    "nesterov": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, nesterov=True, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, 1e-2, lr_decay=0.1, fused=True),
}

KINDS = [torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad]


def trained(make, device, dtype):
    """Parameters and states after four steps."""
    torch.manual_seed(0)
    shapes = ((5, 64), (70,), ())
    parameters = [torch.randn(shape).to(dtype).to(device).requires_grad_() for shape in shapes]
    optimizer = make(parameters)
    for _ in range(4):
        for p in parameters:
            p.grad = torch.randn(p.shape).to(dtype).to(device)
        optimizer.step()
    states = [s for p in parameters for s in optimizer.state[p].values() if s is not None]
    return [t.detach().float().cpu() for t in (*parameters, *states)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_as_on_the_cpu(name, dtype):
    if name in ("sgd", "momentum", "nesterov") and dtype is torch.float16:
        pytest.skip("the CPU's own kernel leaves vectors of 16 bits as they are")
    expected = trained(OPTIMIZERS[name], "cpu", dtype)
    found = trained(OPTIMIZERS[name], "spyre", dtype)
    loose = {"atol": 4e-3, "rtol": 4e-3} if dtype is torch.float16 else {"atol": 2e-6, "rtol": 2e-5}
    torch.testing.assert_close(found, expected, **loose)


def scaled(device, broken_at):
    """Parameters and scales of six steps, one of which has a gradient that is no number."""
    torch.manual_seed(1)
    weight = torch.randn(8, 64).to(device).requires_grad_()
    optimizer = torch.optim.AdamW([weight], 1e-2, fused=True)
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=2)
    seen = []
    for step in range(6):
        x = torch.randn(4, 8).to(device)
        loss = (x.sum(0).unsqueeze(1) * weight).square().mean()
        if step == broken_at:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        if step % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        seen.append(scaler.get_scale())
    return weight.detach().cpu(), seen


@pytest.mark.host("aten.reciprocal")  # of the scale, in float64
@pytest.mark.parametrize("broken_at", [2, 3])
def test_the_gradient_scaler(broken_at):
    expected, scales = scaled("cpu", broken_at)
    found, own = scaled("spyre", broken_at)
    assert own == scales
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def views(r, dtype, shape, count):
    """Tensors of random numbers: alone, as parts of longer ones, or turned."""
    for _ in range(count):
        made = torch.rand(shape, generator=r) + 0.01
        form = int(torch.randint(3, (), generator=r))
        if form == 1:
            flat = torch.zeros(made.numel() + 77)
            flat[31 : 31 + made.numel()] = made.flatten()
            yield flat.to(dtype).to("spyre")[31 : 31 + made.numel()].view(shape)
        elif form == 2 and len(shape) == 2:
            yield made.t().contiguous().to(dtype).to("spyre").t()
        else:
            yield made.to(dtype).to("spyre")


SHAPES = [(5, 64), (70,), (), (1,), (3, 130), (64, 64), (2, 3, 33)]
UPDATES = {
    optimizers._update_adam: (5, [None, 0.1], 8),
    optimizers._update_sgd: (3, [None, 0.3], 4),
    optimizers._update_adagrad: (3, [None, 0.2], 2),
}


@pytest.mark.parametrize("trials", [30, pytest.param(1000, marks=pytest.mark.long)])
def test_one_launch_gives_what_its_operators_do(trials):
    """An update as one program, on any views, with numbers that change, and by operators: the same
    bits in float32. A program rounds results of 16 bits once, to the card's format."""
    r = torch.Generator().manual_seed(trials)
    pick = lambda of: of[int(torch.randint(len(of), (), generator=r))]  # noqa: E731
    for _ in range(trials):
        update = pick(list(UPDATES))
        count, decays, numbers = UPDATES[update]
        dtype = pick([torch.float16, torch.bfloat16, torch.float32])
        members = [list(views(r, dtype, pick(SHAPES), count)) for _ in range(pick([1, 1, 2, 3]))]
        ulp = 0 if dtype is torch.float32 else 2 * torch.finfo(dtype).eps
        scale = pick([None, torch.tensor(2.5, device="spyre")])
        for _ in range(2):
            given = [scale, pick([None, -1.0]), pick(decays)]
            given += [pick([1.0, 0.5, 0.37, 1e-3]) for _ in range(numbers)]
            expected = [[t.clone() for t in tensors] for tensors in members]
            for tensors in expected:
                update.function(*tensors, *given)
            update(members, *given)
            for found, wanted in zip(sum(members, []), sum(expected, []), strict=True):
                torch.testing.assert_close(found.cpu(), wanted.cpu(), rtol=ulp, atol=ulp)


def test_parts_of_one_storage():
    """Parameters and gradients in one flat tensor."""
    flat = torch.rand(4, 70, generator=torch.Generator().manual_seed(3))
    card = flat.to("spyre")
    for rows in (flat, card):
        weight = torch.nn.Parameter(rows[0])
        weight.grad = rows[2]
        torch.optim.AdamW([weight], 1e-2, fused=True).step()
    torch.testing.assert_close(card.cpu(), flat)


def steps_of_small_gradients(optimizer, parameter, count=3):
    for _ in range(count):
        parameter.grad = torch.full_like(parameter, 2.0**-13)
        optimizer.step()
    return parameter.detach().float().cpu()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_squares_of_small_gradients_do_not_make_steps_large(kind, dtype):
    parameter = torch.ones(64, dtype=dtype).to("spyre").requires_grad_()
    optimizer = kind([parameter], 1e-2)
    moved = 1 - steps_of_small_gradients(optimizer, parameter)
    assert (moved > 0.005).all() and (moved < 0.05).all(), moved
    assert optimizer.param_groups[0]["fused"]


def test_steps_go_on_from_a_checkpoint_of_the_host():
    host = torch.ones(64).requires_grad_()
    before = torch.optim.AdamW([host], 1e-2)
    steps_of_small_gradients(before, host)
    parameter = host.detach().half().to("spyre").requires_grad_()
    after = torch.optim.AdamW([parameter], 1e-2)
    after.load_state_dict(before.state_dict())
    moved = host.detach() - steps_of_small_gradients(after, parameter)
    assert (moved > 0.005).all() and (moved < 0.1).all(), moved
    assert after.state[parameter]["step"] == 6


@pytest.mark.parametrize("options", [{"foreach": False}, {"foreach": True}, {"fused": False}])
def test_what_the_user_chose_stays(options):
    parameter = torch.ones(64, dtype=torch.float16, device="spyre").requires_grad_()
    optimizer = torch.optim.AdamW([parameter], 1e-2, eps=1e-4, **options)
    steps_of_small_gradients(optimizer, parameter)
    assert not optimizer.param_groups[0]["fused"]


def test_float32_keeps_the_default():
    parameter = torch.ones(64, device="spyre").requires_grad_()
    optimizer = torch.optim.AdamW([parameter], 1e-2)
    steps_of_small_gradients(optimizer, parameter)
    assert optimizer.param_groups[0]["fused"] is None


@pytest.mark.parametrize("kind", [torch.optim.RMSprop, torch.optim.NAdam, torch.optim.RAdam])
def test_optimizers_without_a_fused_step_warn_once(kind):
    parameter = torch.ones(64, dtype=torch.float16, device="spyre").requires_grad_()
    with pytest.warns(UserWarning, match="keeps squares of gradients in 16 bits") as warned:
        steps_of_small_gradients(kind([parameter], 1e-2), parameter)
    assert len([w for w in warned if "squares" in str(w.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps_of_small_gradients(kind([parameter], 1e-2, eps=1e-4), parameter)


def random_steps(optimizer, parameter, seeds):
    for seed in seeds:
        noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
        parameter.grad = (noise * 2.0**-10).to(parameter.dtype).to(parameter.device)
        optimizer.step()
    return parameter.detach().float().cpu()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"fused": True}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_squares_of_random_gradients(kind, options, dtype):
    """Gradients of which some are far smaller than those before: steps as of float32."""
    start = torch.ones(64, 64, dtype=dtype)
    parameters = [start.to("spyre").requires_grad_(), start.float().requires_grad_()]
    found, wanted = (random_steps(kind([p], 1e-2, **options), p, range(4)) for p in parameters)
    assert (found - wanted).abs().max() < 4 * torch.finfo(dtype).eps + 0.005


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["spyre", "cpu"])
def test_checkpoints_keep_squares(kind, place):
    """Saved and loaded by way of the host; loaded by an optimizer of the card or of the host."""
    parameter = torch.ones(64, 64, dtype=torch.float16).to("spyre").requires_grad_()
    before = kind([parameter], 1e-2)
    random_steps(before, parameter, range(3))
    file = io.BytesIO()
    torch.save(before.state_dict(), file)
    file.seek(0)
    dtype = torch.float16 if place == "spyre" else torch.float32
    copy = parameter.detach().clone().to(place, dtype).requires_grad_()
    after = kind([copy])
    after.load_state_dict(torch.load(file, map_location="cpu"))
    found, wanted = random_steps(after, copy, [3]), random_steps(before, parameter, [3])
    torch.testing.assert_close(found, wanted, rtol=0.005, atol=0.005)


def test_pickled_optimizers_keep_squares():
    parameter = torch.ones(64, 64, dtype=torch.float16).to("spyre").requires_grad_()
    before = torch.optim.Adam([parameter], 1e-2)
    random_steps(before, parameter, range(3))
    after = pickle.loads(pickle.dumps(before))
    (copy,) = after.param_groups[0]["params"]
    found, wanted = random_steps(after, copy, [3]), random_steps(before, parameter, [3])
    torch.testing.assert_close(found, wanted, rtol=0.005, atol=0.005)


@pytest.mark.host("aten._coalesce", "aten.add_", "aten.sparse_mask")
def test_sparse_gradients_keep_the_plain_step():
    table = torch.nn.Embedding(20, 8, sparse=True).half().to("spyre")
    optimizer = torch.optim.Adagrad(table.parameters(), 0.1)
    before = table.weight.detach().cpu()
    table(torch.tensor([1, 2], device="spyre")).sum().backward()
    optimizer.step()
    moved = (table.weight.detach().cpu() - before).abs().sum(1)
    assert moved.nonzero().flatten().tolist() == [1, 2]


class OwnStep(torch.optim.Adam):
    """A step of its own, with a state of its own."""

    @torch.no_grad()
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            if not state:
                state["momentum"] = torch.zeros_like(p)
            p.sub_(state["momentum"].add_(p.grad))


class WithoutEps(torch.optim.RMSprop):
    def __init__(self, parameters):
        torch.optim.Optimizer.__init__(self, parameters, {})

    @torch.no_grad()
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            p.sub_(p.grad)


@pytest.mark.parametrize("kind", [OwnStep, WithoutEps])
def test_classes_with_other_steps(kind):
    parameter = torch.ones(64, dtype=torch.float16).to("spyre").requires_grad_()
    optimizer = kind([parameter])
    parameter.grad = torch.full_like(parameter, 0.25)
    optimizer.step()
    assert (parameter == 0.75).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"fused": True}], ids=str)
def test_compiled_steps_keep_squares(kind, options):
    start = torch.ones(64, 64, dtype=torch.float16)
    card, host = start.to("spyre").requires_grad_(), start.float().requires_grad_()
    optimizer = kind([card], 1e-2, **options)
    optimizer.step = torch.compile(optimizer.step)
    found = random_steps(optimizer, card, range(4))
    wanted = random_steps(kind([host], 1e-2), host, range(4))
    assert (found - wanted).abs().max() < 0.01


def of_many(device, broken_at=None):
    """Parameters after steps of a list that takes several launches, some of its members equal."""
    torch.manual_seed(2)
    shapes = [(3, 64), (64,), (5, 7), (1,), ()] * 8
    parameters = [torch.randn(shape).to(device).requires_grad_() for shape in shapes]
    optimizer = torch.optim.AdamW(parameters, 1e-2, fused=True)
    scaler = torch.amp.GradScaler(device, init_scale=64.0)
    scaler.scale(torch.ones((), device=device))  # makes its tensors
    for step in range(3):
        for n, p in enumerate(parameters):
            p.grad = torch.randn(p.shape).to(device) * 64
            if step == 1 and n == broken_at:
                p.grad.fill_(float("inf"))
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return [p.detach().cpu() for p in parameters], scaler.get_scale()


@pytest.mark.host("aten.reciprocal")  # of the scale, in float64
@pytest.mark.parametrize("broken_at", [None, 0, 7, 39])
def test_long_lists(broken_at):
    """One gradient that is no number keeps all parameters, wherever in the list it is."""
    expected, scale = of_many("cpu", broken_at)
    found, own = of_many("spyre", broken_at)
    assert own == scale
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_one_list_in_two_places():
    """A tensor that a list has twice is updated twice."""
    once, twice = (torch.ones(70, device="spyre", dtype=torch.float16) for _ in range(2))
    options = {"weight_decay": 0.0, "momentum": 0.0, "lr": 0.5, "dampening": 0.0,
               "nesterov": False, "maximize": False, "is_first_step": True}  # fmt: skip
    grad = torch.ones_like(once)
    torch._fused_sgd_([once, twice, twice], [grad, grad, grad], [], **options)
    assert once.cpu().eq(0.5).all() and twice.cpu().eq(0).all()
