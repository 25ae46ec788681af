# SPDX-License-Identifier: Apache-2.0
"""Single elements at indices."""

import pytest
import torch
import torch_spyre

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.bool, torch.int64)


def places(*shape, most):
    return torch.randint(most, shape)


FORMS = {
    "gather of columns": lambda x: (x.gather, (1, places(33, 5, most=70))),
    "gather of rows": lambda x: (x.gather, (0, places(7, 65, most=33))),
    "gather of one column": lambda x: (x.gather, (1, places(33, 1, most=70))),
    "gather in a part": lambda x: (x[3:20, 2:68].gather, (1, places(4, 9, most=66))),
    "gather in a transposed": lambda x: (x.t().gather, (0, places(9, 33, most=70))),
    "indices of both dims": lambda x: (
        x.__getitem__, ((places(9, 2, most=33), places(9, 2, most=70) - 70),)),
    "a column and a row of indices": lambda x: (
        x.__getitem__, ((places(9, 1, most=33), places(4, most=70)),)),
    "a row and a column of indices": lambda x: (
        x.__getitem__, ((places(9, most=33), places(4, 1, most=70)),)),
    "one row, a block of indices": lambda x: (
        x.__getitem__, ((torch.tensor(3), places(2, 3, 4, most=70)),)),
    "an index that broadcasts": lambda x: (
        x.__getitem__, ((torch.arange(33), places(33, most=70)),)),
    "a vector": lambda x: (x[:, 3].__getitem__, ((places(9, 4, most=33) - 5,),)),
    "a long vector": lambda x: (x.flatten().__getitem__, ((places(6, most=2310),),)),
}  # fmt: skip


def moved(value):
    if isinstance(value, tuple):
        return tuple(moved(item) for item in value)
    return value.to("spyre") if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("compiled", (False, True), ids=("eager", "compiled"))
def test_elements(form, dtype, compiled):
    x = torch.randint(-100, 100, (33, 70)).to(dtype)
    method, arguments = FORMS[form](x)
    expected = method(*arguments)
    seed = torch.random.get_rng_state()

    def function(x, arguments):
        method, _own = FORMS[form](x)
        return method(*arguments)

    torch._dynamo.reset()
    run = torch.compile(function, dynamic=False) if compiled else function
    torch.random.set_rng_state(seed)
    assert torch.equal(run(x.to("spyre"), moved(arguments)).cpu(), expected)


@pytest.mark.parametrize("shape", [(4, 1000), (3, 5, 70), (1, 64), (2, 2, 3, 65), (5, 1)])
def test_values_keep_their_bits(shape):
    x = torch.randn(shape).half().to("spyre").cpu()
    x[0], x[-1, ..., -1] = -0.0, float("inf")
    index = places(*shape[:-1], 3, most=shape[-1])
    actual = x.to("spyre").gather(-1, index.to("spyre")).cpu()
    expected = x.gather(-1, index)
    assert torch.equal(actual.view(torch.int16), expected.view(torch.int16))


@pytest.mark.parametrize("bad", (70, 71, 127, 128, -1, -70, -71, 10**6))
@pytest.mark.parametrize("compiled", (False, True), ids=("eager", "compiled"))
def test_an_index_out_of_range_is_an_error(bad, compiled):
    """Also one that is within the line's last stick; the device stays usable."""

    def function(x, i):
        return x.gather(1, i)

    torch._dynamo.reset()
    x, i = torch.randn(33, 70).half().to("spyre"), torch.zeros(33, 1, dtype=torch.int64)
    i[3] = bad
    run = torch.compile(function, dynamic=False) if compiled else function
    with pytest.raises(RuntimeError, match=r"gather.*row"):
        run(x, i.to("spyre")).cpu()
    assert torch.equal(function(x, (i * 0).to("spyre")).cpu(), x.cpu()[:, :1])


def test_losses_of_classes():
    torch._dynamo.reset()
    x, classes = torch.randn(64, 1000), torch.randint(1000, (64,))
    classes[5] = -100  # ignored
    loss = torch.compile(torch.nn.functional.cross_entropy, dynamic=False)
    actual = loss(x.half().to("spyre"), classes.to("spyre")).cpu().float()
    torch.testing.assert_close(
        actual, torch.nn.functional.cross_entropy(x, classes), atol=0.02, rtol=0.01
    )
    assert torch_spyre.last_report().kernels < 120


@pytest.mark.parametrize("width", (64, 128, 40))
def test_elements_of_an_image_in_one_kernel(width):
    """Indices for all channels. Rows of one stick follow each other, so nothing is copied."""
    torch.manual_seed(0)
    x, index = torch.randn(2, 3, 10, width).half(), places(2, 1, 50, most=10 * width)
    read = lambda x, i: x.flatten(2).gather(2, i.expand(2, 3, 50))  # noqa: E731
    torch._dynamo.reset()
    result = torch.compile(read, dynamic=False)(x.to("spyre"), index.to("spyre"))
    assert (result.cpu() - read(x, index)).abs().max() < 2e-3 * x.abs().max()
    report = torch_spyre.last_report()
    assert report.nodes_on_host == 0 or width != 64
    assert width != 64 or report.kernels <= 2


@pytest.mark.parametrize("align", (False, True))
@pytest.mark.parametrize("padding", ("zeros", "border"))
@pytest.mark.parametrize("mode", ("bilinear", "nearest"))
@pytest.mark.parametrize("sizes", ((9, 8), (3, 64), (2, 130)), ids=str)
def test_grid_sample(sizes, mode, padding, align):
    """At coordinates that 16 bits have, some of them outside of the image."""
    torch.manual_seed(0)
    x = torch.randint(-100, 100, (2, 3, *sizes)).half()
    grid = (torch.randint(-40, 41, (2, 5, 7, 2)) / 32).half()

    def sample(x, grid):
        return torch.nn.functional.grid_sample(x, grid, mode, padding, align)

    torch._dynamo.reset()
    expected = sample(x.float(), grid.float())
    for form in (sample, torch.compile(sample, dynamic=False)):
        actual = form(x.to("spyre"), grid.to("spyre")).cpu()
        assert (actual - expected).abs().max() <= 0.5


def test_a_grid_without_numbers_faults_not():
    x, grid = torch.randn(1, 2, 4, 4).half(), torch.full((1, 1, 2, 2), float("nan")).half()
    result = torch.nn.functional.grid_sample(x.to("spyre"), grid.to("spyre"), align_corners=False)
    assert result.cpu().shape == (1, 2, 1, 2)
