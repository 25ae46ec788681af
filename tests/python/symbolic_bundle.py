# SPDX-License-Identifier: Apache-2.0
"""Bundles whose sizes a launch chooses, made of bundles for the largest sizes: what torch-spyre's
front-end writes for mark_dynamic (specification 0248, "Symbolic information")."""

import json
import pathlib

STAGES = ("ss_", "el_")


class Size:
    """A size that is `most` in the bundle and a multiple of `granularity` at a launch."""

    def __init__(self, name, granularity, most):
        self.name, self.granularity, self.most = name, granularity, most

    @property
    def values(self):
        return range(self.granularity, self.most + 1, self.granularity)


def step_of(path):
    whole = json.loads(path.read_text())
    ((_name, sdsc),) = whole.items()
    ((_op, dsc),) = sdsc["dscs_"][0].items()
    return whole, sdsc, dsc


def dims_of(dsc, sizes):
    """The dims of a step that are one of the sizes, by the number that is in the bundle."""
    numbers = {key[:-1]: value for key, value in dsc["N_"].items() if key != "name_"}
    return {dim: size for dim, n in numbers.items() for size in sizes if n == size.most}


class Writer:
    """The files of one bundle; see symbolize()."""

    def __init__(self, sizes, values, opens):
        self.sizes, self.values, self.opens = sizes, values, opens
        self.symbol = 0
        self.parameters, self.body = [], []
        for size in sizes:
            self.declare(size)
        self.body.append("%c0 = arith.constant 0 : index")

    def declare(self, size):
        bounds = f"granularity={size.granularity}, max_value={size.most}"
        kind = f"!sdscbundle.input_arg<index, {bounds}>"
        if self.values is not None:
            self.body.append(f"%{size.name} = arith.constant {self.values[size.name]} : index")
            return
        self.parameters.append(f"%{size.name}_base: {kind}")
        self.body.append(
            f"%{size.name} = sdscbundle.input_arg_extract value from %{size.name}_base"
            f" : {kind} -> index"
        )

    def new_symbol(self):
        self.symbol -= 1
        return self.symbol

    def step(self, source, name):
        whole, sdsc, dsc = step_of(source / name)
        dims, operands = dims_of(dsc, self.sizes), []
        for dim, size in dims.items():
            symbol = self.new_symbol()
            operands.append((symbol, size.name))
            dsc.setdefault("dimToSymbolMapping_", {})[dim] = [symbol]
            slices = sdsc["numWkSlicesPerDim_"][dim]
            assert size.granularity % slices == 0, (dim, slices)
            if self.values is not None:
                shrink(sdsc, dsc, dim, size.most, self.values[size.name])
                continue
            for stage in STAGES:
                info = dsc["dataStageParam_"]["0"][stage].setdefault("symbolicDimInfo_", {})
                info[dim] = {
                    "maxSize_": size.most // slices,
                    "granularity_": size.granularity // slices,
                }
        if self.opens and self.values is None:
            operands += self.open_addresses(sdsc, dsc, dims)
        names = ", ".join(f"%{operand}" for _symbol, operand in operands)
        ids = ", ".join(str(symbol) for symbol, _operand in operands)
        attributes = f'{{sdsc_filename="{name}", "symbol_ids"=[{ids}]}}'
        self.body.append(f"sdscbundle.sdsc_execute ({names}) {attributes}")
        return json.dumps(whole)

    def open_addresses(self, sdsc, dsc, dims):
        """Symbols of value 0 for cores whose slice begins where a size says."""
        split = [dim for dim in dims if sdsc["numWkSlicesPerDim_"][dim] > 1]
        for node, label in zip(dsc["scheduleTree_"], dsc["labeledDs_"], strict=True):
            order = dsc["primaryDsInfo_"][label["dsType_"]]["layoutDimOrder_"]
            scale = dict(zip(order, label["scale_"], strict=True))
            if node["component_"] != "hbm" or not any(scale.get(d, -1) > 0 for d in split):
                continue
            data = node["startAddressCoreCorelet_"]["data_"]
            for key in list(data)[1:]:
                symbol = self.new_symbol()
                data[key] = str(symbol)
                yield symbol, "c0"
            node["isStartAddrSymbolic_"] = 1

    def mlir(self):
        lines = "".join(f"\t\t{line}\n" for line in [*self.body, "return"])
        parameters = ", ".join(self.parameters)
        return f"module {{\n\tfunc.func @sdsc_bundle({parameters}) {{\n{lines}\t}}\n}}\n"


def symbolize(source, target, sizes, values=None, opens=False):
    """Writes the bundle of `source` with these sizes as symbols into `target`. With `values` they
    are numbers in bundle.mlir, so that it is compiled for them alone. With `opens` cores have
    symbols whose value follows from the size, and is written as 0."""
    target = pathlib.Path(target)
    target.mkdir()
    writer = Writer(sizes, values, opens)
    for number in range(len(list(source.glob("sdsc_*.json")))):
        name = f"sdsc_{number}.json"
        (target / name).write_text(writer.step(source, name))
    (target / "bundle.mlir").write_text(writer.mlir())


def shrink(sdsc, dsc, dim, most, value):
    """Makes a dim of a step smaller, by hand: its size, and where the slices of cores begin."""
    for label, node in zip(dsc["labeledDs_"], dsc["scheduleTree_"], strict=True):
        layout = dsc["primaryDsInfo_"][label["dsType_"]]
        scale = dict(zip(layout["layoutDimOrder_"], label["scale_"], strict=True))
        (stick,), (lanes,) = layout["stickDimOrder_"], layout["stickSize_"]
        if node["component_"] != "hbm":
            continue
        data = node["startAddressCoreCorelet_"]["data_"]
        for key in data:
            core = str(json.loads(key)[0])
            for size, sign in ((most, -1), (value, 1)):
                stride = 128
                for d in node["layoutDimOrder_"]:
                    if scale[d] < 0:
                        continue
                    extent = size if d == dim else dsc["N_"][f"{d}_"]
                    slices = sdsc["numWkSlicesPerDim_"].get(d, 1)
                    unit = lanes if d == stick else 1
                    first = sdsc["coreIdToWkSlice_"][core].get(d, 0) * (extent // slices)
                    data[key] = str(int(data[key]) + sign * (first // unit) * stride)
                    stride *= -(-extent // unit)
    dsc["N_"][f"{dim}_"] = value
