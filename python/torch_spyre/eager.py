# SPDX-License-Identifier: Apache-2.0
"""Operators outside torch.compile.

Every operator takes one way. PyTorch calls core/eager.c, which looks for a program of an equal
call; when there is none, the kernels here are called under the key PrivateUse2. They compile a
graph of the single node, keep it under the operator, the arguments' types and views and its
scalars, and tell core/eager.c. What the compiler refuses runs on the CPU: the tensors are copied
there and back, a FallbackWarning names the operator once, and the refusal is kept as well. In-place
and out= forms compute the functional form, whose result takes the place of the old contents.
"""

from __future__ import annotations

import os
import sys
import warnings

import torch
from torch.utils import _pytree as pytree

from . import _C, handover
from ._inductor.registry import fallback_ops


class FallbackWarning(UserWarning):
    """An operator ran on the CPU because the card has no program for it."""


_aten = torch.ops.aten
_warned: set = set()


# ---- the CPU


def user_level() -> int:
    """The stack level, for warnings.warn(), of the innermost frame outside PyTorch and here."""
    ours = (os.path.dirname(__file__), os.path.dirname(torch.__file__))
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
        frame, level = frame.f_back, level + 1
    return level


def warn_fallback(what, message: str) -> None:
    """Warns once for each operator."""
    if what in _warned:
        return
    _warned.add(what)
    text = f"spyre: {what} {message}".splitlines()[0]
    warnings.warn(text, FallbackWarning, stacklevel=user_level())


def check_fits(what, tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, which the CPU computed for the card; RuntimeError when its integers do not fit."""
    if tensor.dtype == torch.int64 and tensor.numel() > 0:
        least, most = (int(end) for end in tensor.aminmax())
        for value in (least, most):
            if not -(2**31) <= value < 2**31:
                raise RuntimeError(
                    f"spyre: {what}: {value} does not fit the card's 32-bit integers"
                )
    return tensor


def run_on_cpu(op, args, kwargs, reason: str | None = None):
    """Runs `op` on CPU copies; results return to the card, mutated arguments are copied back."""
    handover.check_devices(op, args, kwargs)
    if reason is not None:
        warn_fallback(op, f"runs on the CPU: {reason}")
    device: torch.device | None = None
    copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # id of the copy -> original, copy
    generators: list[tuple[torch.Generator, torch.Generator]] = []

    def to_cpu(value):
        nonlocal device
        if isinstance(value, torch.Tensor) and value.device.type == "spyre":
            device = value.device
            copy = value.cpu()
            copies[id(copy)] = (value, copy)
            return copy
        if isinstance(value, torch.device) and value.type == "spyre":
            device = device or value
            return torch.device("cpu")
        if isinstance(value, torch.Generator) and value.device.type == "spyre":
            generators.append((value, torch.Generator()))
            generators[-1][1].set_state(value.get_state())
            return generators[-1][1]
        return value

    cpu_args, cpu_kwargs = pytree.tree_map(to_cpu, (args, kwargs))
    if torch.Tag.nondeterministic_seeded in op.tags:
        cpu_kwargs = _with_generator(op, cpu_args, cpu_kwargs, device, generators)
    function = fallback_ops.get(op)
    if function is None:
        results = call(op, cpu_args, cpu_kwargs)
    else:
        results = function(*_wrapped(op, cpu_args), **cpu_kwargs)
    for original, copy in generators:
        original.set_state(copy.get_state())
    _copy_back(op, cpu_args, cpu_kwargs, copies)

    def to_card(value):
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in copies:
            return copies[id(value)][0]
        if device is None or value.device.type != "cpu":
            return value
        return check_fits(op, value).to(device)

    return pytree.tree_map(to_card, results)


def _with_generator(op, args, kwargs, device, generators):
    """Random operators draw from the device's own generator."""
    names = [argument.name for argument in op._schema.arguments]
    if "generator" not in names or device is None or kwargs.get("generator") is not None:
        return kwargs
    if names.index("generator") < len(args):
        return kwargs
    default = _C._get_default_generator(device.index if device.index is not None else -1)
    generators.append((default, torch.Generator()))
    generators[-1][1].set_state(default.get_state())
    return {**kwargs, "generator": generators[-1][1]}


def call(op, args, kwargs):
    """Calls PyTorch's own kernel; where the CPU has none for 16 bits, the one for float32.

    PyTorch hands a number to a Python kernel in the place of a tensor without dimensions. Most
    operators take it back, and it leaves the dtype of such a tensor beside it as it is."""
    try:
        return op(*args, **kwargs)
    except NotImplementedError as error:
        if "not implemented for 'Half'" in str(error):
            return _in_float32(op, args, kwargs, torch.float16)
        if "not implemented for 'BFloat16'" in str(error):
            return _in_float32(op, args, kwargs, torch.bfloat16)
        raise
    except RuntimeError as error:
        if "but instead found type" not in str(error):
            raise
    return op(*_wrapped(op, args), **kwargs)


def _in_float32(op, args, kwargs, narrow: torch.dtype):
    def cast(given, wanted):
        def one(value):
            return value.to(wanted) if getattr(value, "dtype", None) == given else value

        return one

    if any(a.alias_info is not None and a.alias_info.is_write for a in op._schema.arguments):
        raise _C.Unsupported(f"{op} in {narrow}: the CPU has no kernel for it")
    args, kwargs = pytree.tree_map(cast(narrow, torch.float32), (args, kwargs))
    return pytree.tree_map(cast(torch.float32, narrow), op(*args, **kwargs))


def _wrapped(op, values) -> list:
    """The arguments with tensors in the place of numbers, where the operator wants tensors."""
    return [
        torch.tensor(value)
        if isinstance(value, (bool, int, float, complex)) and _is_tensor(argument)
        else value
        for argument, value in zip(op._schema.arguments, values, strict=False)
    ]


def _is_tensor(argument) -> bool:
    return str(argument.type) in ("Tensor", "Optional[Tensor]")


# Schemas that do not tell what they write.
_UNDECLARED = {_aten.native_batch_norm.default: ("running_mean", "running_var")}


def _copy_back(op, args, kwargs, copies) -> None:
    undeclared = _UNDECLARED.get(op, ())
    for index, argument in enumerate(op._schema.arguments):
        declared = argument.alias_info is not None and argument.alias_info.is_write
        if not declared and argument.name not in undeclared:
            continue
        value = args[index] if index < len(args) else kwargs.get(argument.name)
        for copy in pytree.tree_leaves(value):
            if id(copy) in copies:
                original = copies[id(copy)][0]
                if original.shape != copy.shape:
                    original.resize_(copy.shape)
                original.copy_(check_fits(op, copy))


# ---- one operator on the card


class _Program:
    """The compiled node: which tensors it takes, in which order its results come."""

    __slots__ = ("launch", "inputs", "results", "single")

    def __init__(self, executable, inputs, results, single):
        self.launch = handover.Launch(executable, 0)
        self.inputs = inputs  # of the operator's tensors, those that the segment reads
        self.results = results  # index into the segment's outputs
        self.single = single

    def remember(self, written: int = -1) -> None:
        """Tells core/eager.c that the operator which PyTorch is calling launches this program."""
        if not self.launch.views:
            _C.remember(self.launch.executable, self.inputs, self.results, written)

    def run(self, tensors, card):
        outputs = self.launch([tensors[index] for index in self.inputs], card)
        if self.single:
            return outputs[self.results[0]]
        return tuple(outputs[index] for index in self.results)


class _Operator:
    """An operator and its programs by arguments; None in the place of a program is a refusal."""

    def __init__(self, op: torch._ops.OpOverload):
        self.op = op
        self.programs: dict = {}
        self.refusal = None if all(
            isinstance(r.type, torch.TensorType) for r in op._schema.returns
        ) and op._schema.returns else "its results are not tensors only"  # fmt: skip
        # Attention is tagged for its dropout, which the compiler refuses by itself.
        attention = _aten.scaled_dot_product_attention.default
        if torch.Tag.nondeterministic_seeded in op.tags and op is not attention:
            self.refusal = "random numbers are drawn on the host"

    def __call__(self, args, kwargs):
        program, tensors, reason = self.find(args, kwargs)
        if program is None:
            return run_on_cpu(self.op, args, kwargs, reason)
        return program.run(tensors, tensors[0].device.index)

    def find(self, args, kwargs):
        """The program of a call and the tensors that it gets; or None and the reason."""
        if self.refusal is not None or self.op in fallback_ops:
            return None, [], self.refusal
        tensors: list[torch.Tensor] = []
        values = [_scalars(value) for value in handover.positional(self.op, args, kwargs)]
        key = tuple([_key(value, tensors) for value in values])
        try:
            program, reason = self.programs[key]
        except KeyError:
            program, reason = self.programs[key] = self._compile(values, tensors)
        return program, tensors, reason

    def kernel(self, args, kwargs):
        """Called by PyTorch as the operator itself."""
        program, tensors, reason = self.find(args, kwargs)
        if program is None:
            return run_on_cpu(self.op, args, kwargs, reason)
        program.remember()
        return program.run(tensors, tensors[0].device.index)

    def _compile(self, values, tensors):
        if not tensors:
            return None, "it has no tensor argument"
        _C.check_settings(handover.settings())
        if any(tensor.device.type != "spyre" for tensor in tensors):
            return None, "its tensors are on several devices"
        if self.op is not _aten.cat.default and any(tensor.numel() == 0 for tensor in tensors):
            return None, None  # no work that could fall back
        try:
            return self._build(values, tensors), None
        except (_C.Unsupported, ValueError, NotImplementedError, RuntimeError) as error:
            return None, str(error)

    def _build(self, values, tensors):
        results = self._meta_results(values)
        flat = list(results) if isinstance(results, (tuple, list)) else [results]
        if any(result is None for result in flat):
            raise _C.Unsupported("a result is absent")
        if any(result.numel() == 0 for result in flat):
            raise _C.Unsupported("a result is empty")
        graph = _C.Graph()
        places = [index for index, tensor in enumerate(tensors) if tensor.numel() > 0]
        ids = {id(tensors[i]): graph.add_input(f"arg{i}", tensors[i]) for i in places}
        if len(places) < len(tensors):  # cat leaves out what is empty
            values = [[item for item in values[0] if id(item) in ids], *values[1:]]
        _node, outputs = graph.add_node(
            self.op.__name__,
            handover.op_name(self.op),
            handover.encode(values, lambda value: ids.get(id(value))),
            [handover.result_type(result, True) for result in flat],
            f"eager {self.op}",
        )
        for value in outputs:
            graph.add_output(value)
        executable = handover.compile_graph(graph, host_fallback=False)
        if executable.segment_count() != 1:
            raise _C.Unsupported(f"it became {executable.segment_count()} segments")
        segment = executable.segment(0)
        if segment["kind"] != "card":
            raise _C.Unsupported("the compiler leaves it to the host")
        order = {value: index for index, value in enumerate(segment["outputs"])}
        return _Program(
            executable,
            [places[value] for value in segment["inputs"]],
            [order[value] for value in outputs],
            not isinstance(results, (tuple, list)),
        )

    def _meta_results(self, values):
        def to_meta(value):
            if isinstance(value, torch.Tensor):
                return torch.empty_strided(
                    value.shape, value.stride(), dtype=value.dtype, device="meta"
                )
            if isinstance(value, torch.device):
                return torch.device("meta")
            return value

        arguments = self.op._schema.arguments
        values = pytree.tree_map(to_meta, values)
        named = {a.name: v for a, v in zip(arguments, values, strict=True) if a.kwarg_only}
        return call(self.op, values[: len(values) - len(named)], named)


def _scalars(value):
    """Tensors of the host without dimensions are numbers to the card."""
    if isinstance(value, torch.Tensor):
        if value.dim() == 0 and value.device.type == "cpu":
            return value.item()
        return value
    if isinstance(value, (list, tuple)):
        return [_scalars(item) for item in value]
    return value


def _key(value, tensors):
    if isinstance(value, torch.Tensor):
        for index, known in enumerate(tensors):
            if known is value:
                return index
        tensors.append(value)
        return _C.tensor_key(value)
    if isinstance(value, list):
        return tuple([_key(item, tensors) for item in value])
    if isinstance(value, float):  # 0.0 equals -0.0, and no NaN equals another
        return (float, value.hex())
    return (value.__class__, value)


# ---- forms of an operator


def _functional(op: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """The overload that takes the same arguments and returns what `op` writes."""
    name = op._schema.name.split("::")[1]
    packet = getattr(_aten, name[:-1] if name.endswith("_") else name, None)
    wanted = [(a.name, str(a.type)) for a in op._schema.arguments if not a.is_out]
    for overload in packet.overloads() if packet else ():
        candidate = getattr(packet, overload)
        schema = candidate._schema
        if any(a.alias_info is not None for a in schema.arguments):
            continue
        if [(a.name, str(a.type)) for a in schema.arguments] == wanted:
            return candidate
    return None


def _in_place(op, functional):
    operator = operator_of(functional)

    def kernel(args, kwargs):
        # The functional form may have other defaults (bernoulli_ has one, bernoulli has none).
        values = handover.positional(op, args, kwargs)
        named = {
            a.name: v for a, v in zip(op._schema.arguments, values, strict=True) if a.kwarg_only
        }
        values = values[: len(values) - len(named)]
        program, tensors, reason = operator.find(values, named)
        if program is None:
            return args[0].copy_(run_on_cpu(functional, values, named, reason))
        program.remember(written=0)
        return args[0].copy_(program.run(tensors, tensors[0].device.index))

    return kernel


def _with_out(op, functional):
    operator = operator_of(functional)
    names = [argument.name for argument in op._schema.arguments if argument.is_out]

    def kernel(args, kwargs):
        handover.check_devices(op, args, kwargs)
        targets = [kwargs[name] for name in names]
        rest = {name: value for name, value in kwargs.items() if name not in names}
        program, tensors, reason = operator.find(args, rest)
        if program is None:
            results = run_on_cpu(functional, args, rest, reason)
        else:
            results = program.run(tensors, tensors[0].device.index)
            same = len(targets) == 1 and _takes(targets[0], results)
            if same:
                program.remember(written=_position(targets[0], tensors))
        for target, result in zip(targets, results if len(targets) > 1 else [results], strict=True):
            if not torch.can_cast(result.dtype, target.dtype):
                raise RuntimeError(
                    f"{op}: result type {result.dtype} can't be cast to the desired output type "
                    f"{target.dtype}"
                )
            if target.shape != result.shape:
                target.resize_(result.shape)
            target.copy_(result)
        return tuple(targets) if len(targets) > 1 else targets[0]

    return kernel


def _takes(target, result) -> bool:
    """A result needs neither cast nor resize on its way into `target`."""
    return target.dtype == result.dtype and target.shape == result.shape


def _position(target, tensors) -> int:
    """The number of an out= tensor among the tensors of its call."""
    for index, tensor in enumerate(tensors):
        if tensor is target:
            return index
    return len(tensors)


def _make_kernel(op):
    """The kernel that PyTorch calls: (args, kwargs) -> results."""
    written = [a for a in op._schema.arguments if a.alias_info is not None]
    if not written:
        return operator_of(op).kernel
    functional = _functional(op)
    if functional is not None and all(a.is_out for a in written):
        return _with_out(op, functional)
    if functional is not None and written == op._schema.arguments[:1]:
        return _in_place(op, functional)
    return lambda args, kwargs: run_on_cpu(op, args, kwargs, "it changes its arguments")


_operators: dict = {}
_kernels: dict = {}


def operator_of(op) -> _Operator:
    operator = _operators.get(op)
    if operator is None:
        operator = _operators[op] = _Operator(op)
    return operator


def dispatch(op, *args, **kwargs):
    """PyTorch's fallback for the device: every operator without a kernel of its own."""
    kernel = _kernels.get(op)
    if kernel is None:
        kernel = _kernels[op] = _make_kernel(op)
    return kernel(args, kwargs)


# Copies and allocations, which are the binding's own business, and constants.
_NOT_DIRECT = {
    "_to_copy", "clone", "copy", "copy_", "empty", "empty_like", "fill", "full", "full_like",
    "lift_fresh_copy", "new_empty", "new_full", "new_ones", "new_zeros", "ones", "ones_like",
    "scalar_tensor", "zeros", "zeros_like", "arange", "_unsafe_view",
}  # fmt: skip


def direct_operators():
    """Operators that are registered one by one. PyTorch would compose many of them of an
    allocation and the out= form; asked directly, the compiler chooses the layout of a result.
    Views and what PyTorch differentiates through its parts stay PyTorch's."""
    for name in _C.op_names():
        if "overrideable" in name:  # attention.py
            continue
        if not name.startswith("aten."):
            continue
        packet, overload = name.removeprefix("aten.").split(".")
        if packet in _NOT_DIRECT:
            continue
        op = getattr(getattr(_aten, packet), overload)
        schema = op._schema
        full_name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        if torch._C._dispatch_has_kernel_for_dispatch_key(full_name, "CompositeImplicitAutograd"):
            continue
        if any(argument.alias_info is not None for argument in schema.arguments):
            continue
        yield full_name.removeprefix("aten::"), op


def _kernel(op):
    return lambda *args, **kwargs: dispatch(op, *args, **kwargs)


def _local_scalar_dense(tensor):
    return _aten._local_scalar_dense.default(tensor.cpu())


# Dtypes that the card's identity and casts take.
_CARD_COPIES = {
    torch.float16, torch.bfloat16, torch.bool, torch.float32, torch.int32, torch.int64,
}  # fmt: skip


def _to_copy(tensor, *, dtype=None, device=None, memory_format=None, **options):
    """Casts on the card; copies between cards are PyTorch's composition of empty and copy."""
    op = _aten._to_copy.default
    here = device is None or torch.device(device) in (tensor.device, torch.device("spyre"))
    if here and dtype is not None and {dtype, tensor.dtype} <= _CARD_COPIES:
        return operator_of(op).kernel((tensor,), {"dtype": dtype, "memory_format": memory_format})
    return op._op_dk(
        torch._C.DispatchKey.CompositeExplicitAutograd,
        tensor,
        dtype=dtype,
        device=device,
        memory_format=memory_format,
        **options,
    )


def _clone(tensor, *, memory_format=None):
    op = _aten.clone.default
    if tensor.dtype in _CARD_COPIES and tensor.numel() > 0 and tensor.dim() <= 6:
        return operator_of(op).kernel((tensor,), {"memory_format": memory_format})
    return op._op_dk(
        torch._C.DispatchKey.CompositeExplicitAutograd, tensor, memory_format=memory_format
    )


def _zero_(tensor):
    return tensor.fill_(0)


def _resize_(tensor, size, *, memory_format=None):
    size = torch.Size(size)
    if tensor.shape == size:
        return tensor
    if memory_format not in (None, torch.contiguous_format, torch.preserve_format):
        raise RuntimeError("resize_: Spyre backend only supports contiguous memory format")
    fresh = torch.empty(size, dtype=tensor.dtype, device=tensor.device)
    kept = min(fresh.numel(), tensor.numel())
    if kept:
        fresh.view(-1)[:kept].copy_(tensor.reshape(-1)[:kept])
    return tensor.set_(fresh.untyped_storage(), 0, fresh.shape, fresh.stride())


def _convolution(*args):
    from ._inductor.convolution import convolution

    result = convolution(*args)
    if result is not NotImplemented:
        return result
    return run_on_cpu(_aten.convolution.default, args, {}, "convolution has no program")


def _convolution_backward(grad, x, weight, stride, padding, dilation, transposed, output_padding,
                          groups, mask):  # fmt: skip
    sizes = [weight.shape[0]] if mask[2] else None
    args = (grad, x, weight, sizes, stride, padding, dilation, transposed, output_padding, groups,
            mask)  # fmt: skip
    return run_on_cpu(_aten.convolution_backward.default, args, {}, "convolution has no program")


def _layer_norm_backward(*args):
    # The CPU's kernel wants statistics in another dtype than devices give.
    from torch._decomp.decompositions import native_layer_norm_backward

    return native_layer_norm_backward(*args)


def _untraced(function):
    """Keeps Dynamo from tracing a kernel, and what it calls, when one runs beside traced code."""
    frames = torch._C._dynamo.eval_frame
    skip = frames._FrameAction.SKIP
    frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
    return function


def register() -> list[torch.library.Library]:
    """Registers the device's operators; the registrations live as long as what is returned."""
    from . import attention, recurrent

    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(_untraced(dispatch), "PrivateUse2")
    _C.register_operator("")
    aten = torch.library.Library("aten", "IMPL", "PrivateUse1")
    kernels = torch.library.Library("aten", "IMPL", "PrivateUse2")

    def register_kernel(name, kernel):
        kernels.impl(name, _untraced(kernel))
        _C.register_operator(name)

    for name, op in direct_operators():
        register_kernel(name, _kernel(op))
    attention.register(aten)
    aten.impl("_local_scalar_dense", _untraced(_local_scalar_dense))
    register_kernel("_to_copy", _to_copy)
    register_kernel("clone", _clone)
    aten.impl("zero_", _untraced(_zero_))
    aten.impl("resize_", _untraced(_resize_))
    aten.impl("convolution_overrideable", _untraced(_convolution))
    aten.impl("convolution_backward_overrideable", _untraced(_convolution_backward))
    aten.impl("native_layer_norm_backward", _untraced(_layer_norm_backward))
    differentiable = torch.library.Library("aten", "IMPL", "AutogradPrivateUse1")
    recurrent.register(aten, differentiable)
    return [fallback, aten, kernels, differentiable]
