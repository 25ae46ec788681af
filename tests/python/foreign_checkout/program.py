# SPDX-License-Identifier: Apache-2.0
"""Run by test_adopt.py: the program of x + y, whose bundle is in argv[1], by another package."""

import importlib
import pickle
import subprocess
import sys
import types
import warnings

import torch
import torch_spyre

C = importlib.import_module("torch_spyre._C")
NAMES = """DataFormats ElementArrangement JobPlan SpyreTensorLayout _SpyreStreamBase
_get_default_generator _spyre_get_allocator_stats _spyre_reset_accumulated_stats
_spyre_reset_peak_stats as_strided_with_layout copy_tensor createSpyreCCLBackend current_device
current_stream default_stream device_count empty_with_layout encode_constant free_runtime
get_device_dtype get_downcast_warning get_elem_in_stick get_rng_state get_spyre_tensor_layout
AIUPTI_ACTIVITY_NAME_MAX_BYTES SymbolicArg SymbolicArgKind _logging _resolve_symbolic_args
extract_kernel_provenance_key fill_tensor get_device_state host_compute_stream
kernel_provenance_registry_stats lookup_kernel_provenance register_kernel_provenance
get_stream_from_pool initial_seed launch_jobplan launch_kernel manual_seed manual_seed_all
prepare_kernel reinterpret_tensor reinterpret_tensor_with_layout set_current_stream set_device
set_downcast_warning set_rng_state set_spyre_tensor_layout spyre_empty_with_layout start_runtime
synchronize"""

missing = [name for name in NAMES.split() if not hasattr(C, name)]
assert not missing, missing
assert "foreign_checkout" in torch_spyre.__file__ and not hasattr(torch.Tensor, "_spyre_patched")

directory = sys.argv[1]
subprocess.run(["dxp_standalone", "--bundle", "-d", directory], check=True)
x, y = (torch.randint(-9, 9, (3, 70)).half() for _ in range(2))
on_card = [t.to("spyre") for t in (x, y, torch.zeros(3, 70).half())]
surplus = torch.empty(5, device="spyre")
C.launch_kernel(directory, [*on_card, surplus])
assert on_card[2].cpu().equal(x + y)
C.launch_kernel(directory, (on_card[0], on_card[0], on_card[1]))  # one storage, twice
assert on_card[1].cpu().equal(x + x)
subprocess.run(["dxp_standalone", "-d", directory], check=True)
name = "spyre_kernel_v1_add_" + "a" * 16
plan = C.prepare_kernel(directory + "/spyreCodeDir", profiler_name=name)
symbolic = [C.SymbolicArg(C.SymbolicArgKind.kAddress, number) for number in range(3)]
C.launch_jobplan(plan, on_card, symbolic)
assert on_card[2].cpu().equal(x + x + x)
packer = C.NativePermutationLayoutSolver([types.SimpleNamespace(uses=[0])], [0], 128, 1)
assert isinstance(packer, C.NativePermutationLayoutSolver) and packer.swap(0) == 0.5
for wrong in (lambda: packer.swap(1), lambda: packer.rotate(0, -1)):
    try:
        wrong()
    except ValueError as error:
        assert "index out of range" in str(error)
    else:
        raise AssertionError("an index beyond the buffers")
tall = torch.arange(33 * 4).half().reshape(33, 4).to("spyre")
assert tall.resize_(2, 70).cpu().flatten()[:132].equal(torch.arange(132).half())

library = torch.library.Library("aten", "IMPL")
library.impl("fill_.Scalar", lambda self, number: C.fill_tensor(self, number), "PrivateUse1")
assert torch.empty(3, 70, device="spyre").fill_(2.5).cpu().eq(2.5).all()

# A kernel that is the operator, compiled, where Dynamo does not compile it: it calls the operator.
doubled = torch.compile(torch.ops.aten.mul.out, backend=lambda graph, inputs: graph.forward)
library.impl("mul.out", lambda a, b, *, out: doubled(a, b, out=out), "PrivateUse1")
part = on_card[2][:, :5]
before = on_card[2].cpu()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.mul(part, 2.0, out=part)
assert sum("Dynamo does not compile it" in str(w.message) for w in caught) == 1
before[:, :5] *= 2
assert on_card[2].cpu().equal(before)

layout = C.get_spyre_tensor_layout(on_card[0])
assert pickle.loads(pickle.dumps(layout)) == layout
state = (3, layout.device_size, layout.stride_map, layout.device_dtype, layout.element_arrangement)
assert layout.__reduce__()[1:] == ((C.SpyreTensorLayout,), state)
stream = C.get_stream_from_pool(torch.device("spyre", 0), -1)
assert stream.id() > 0 and stream.priority() == -1 and stream.query()
dist = torch.distributed
dist.Backend.register_backend("spyreccl", C.createSpyreCCLBackend, devices=["spyre"])
dist.init_process_group("spyreccl", store=dist.HashStore(), rank=0, world_size=1)
dist.distributed_c10d._register_process_group("default", dist.group.WORLD)
given, ops = on_card[0], torch.ops.spyre
for sent in (ops.broadcast_async(given, 0, "default"), ops.all_gather_async(given)):
    assert ops.wait_work(sent).cpu().equal(x) and sent.data_ptr() != given.data_ptr()
summed = ops.all_reduce_async(given, "sum")
assert summed.data_ptr() == given.data_ptr() and ops.wait_work(summed).cpu().equal(x)
dist.destroy_process_group()

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warnings.warn("told", UserWarning, skip_file_prefixes=("/nowhere",))
assert caught[0].filename == __file__
print("all of it")
