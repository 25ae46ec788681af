// SPDX-License-Identifier: Apache-2.0
#include "graph/native/native.h"

#include "graph/view.h"

uint32_t native_dtype_set(spyre_dtype dtype)
{
    switch (dtype) {
    case SPYRE_DTYPE_F16:
    case SPYRE_DTYPE_BF16: return ATEN_DTYPES_HALF;
    case SPYRE_DTYPE_BOOL: return ATEN_DTYPES_BOOL;
    case SPYRE_DTYPE_F32: return ATEN_DTYPES_F32;
    case SPYRE_DTYPE_I32:
    case SPYRE_DTYPE_I64: return ATEN_DTYPES_INT;
    case SPYRE_DTYPE_F8_E4M3: return ATEN_DTYPES_FP8;
    case SPYRE_DTYPE_I8: return ATEN_DTYPES_I8;
    case SPYRE_DTYPE_I16:
    case SPYRE_DTYPE_U8: return ATEN_DTYPES_NARROW;
    case SPYRE_DTYPE_F8_E5M2Z:
    case SPYRE_DTYPE_F64:
    case SPYRE_DTYPE_COUNT: break;
    }
    return 0;
}

bool aten_is_narrow(spyre_dtype dtype)
{
    return (native_dtype_set(dtype) & (ATEN_DTYPES_I8 | ATEN_DTYPES_NARROW)) != 0;
}

uint32_t native_operand_dtypes(aten_op native, bool extended)
{
    const aten_row *row = aten_describe(native);
    bool widens = extended && row->dtypes & ATEN_DTYPES_HALF && row->result == ATEN_RESULT_SAME;
    return row->dtypes | (widens ? ATEN_DTYPES_F32 : 0);
}

bool aten_takes(aten_op native, spyre_dtype dtype, bool extended)
{
    return (native_operand_dtypes(native, extended) & native_dtype_set(dtype)) != 0;
}

// "add" of "spyre.add".
static const char *short_name(const native_checker *c)
{
    return c->node->op_name + sizeof "spyre." - 1;
}

spyre_status native_load(const native_checker *c, uint32_t value, uint32_t dtypes,
                         native_operand *out)
{
    const graph_value *v = &c->graph->values.items[value];
    out->dtype = v->dtype;
    if (!v->on_card) return status_new(SPYRE_UNSUPPORTED, "a tensor of the host");
    TRY(graph_view_constant(c->graph, &v->view, &out->view));
    if (view_element_count(&out->view) == 0) {
        return status_new(SPYRE_UNSUPPORTED, "a tensor without elements");
    }
    if (native_dtype_set(v->dtype) & dtypes) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "%s on %s", short_name(c), spyre_dtype_name(v->dtype));
}

spyre_status native_load_arg(const native_checker *c, uint32_t index, uint32_t dtypes,
                             native_operand *out)
{
    uint32_t value;
    TRY(graph_arg_value(c->graph, c->node_id, index, &value));
    if (value == SPYRE_NO_ID)
        return native_rule("operand %u: expected a tensor, found none", index);
    return status_at(native_load(c, value, dtypes, out), "operand %u", index);
}

static const uint32_t any_dtype = ATEN_DTYPES_HALF | ATEN_DTYPES_BOOL | ATEN_DTYPES_F32 |
                                  ATEN_DTYPES_INT | ATEN_DTYPES_FP8 | ATEN_DTYPES_I8 |
                                  ATEN_DTYPES_NARROW;

spyre_status native_load_result(const native_checker *c, native_operand *out)
{
    if (c->node->result_count != 1)
        return native_rule("%u results, expected 1", c->node->result_count);
    TRY(status_at(native_load(c, c->node->results[0], any_dtype, out), "result"));
    if (view_is_dense(&out->view)) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "result: strides that are not those of a dense tensor");
}

spyre_status native_expect_args(const native_checker *c, uint32_t count)
{
    if (c->node->arg_count == count) return NULL;
    return native_rule("%u arguments, expected %u", c->node->arg_count, count);
}

spyre_status native_expect_real(const native_checker *c, uint32_t index)
{
    double value;
    bool present = index < c->node->arg_count && c->node->args[index].kind == SPYRE_ARG_FLOAT;
    if (!present) return native_rule("argument %u: expected a float", index);
    return graph_arg_real(c->graph, c->node_id, index, 0, &value);
}

spyre_status native_expect_sizes(const spyre_view *found, const spyre_view *expected, int index)
{
    if (view_same_sizes(found, expected)) return NULL;
    text sizes = {0};
    if (index == NATIVE_RESULT)
        text_append(&sizes, "result: ");
    else
        text_printf(&sizes, "operand %d: ", index);
    text_append(&sizes, "expected sizes ");
    view_print_sizes(expected, &sizes);
    text_append(&sizes, ", found ");
    view_print_sizes(found, &sizes);
    spyre_status status = native_rule("%s", text_string(&sizes));
    text_free(&sizes);
    return status;
}

spyre_status native_expect_dtype(spyre_dtype found, spyre_dtype expected, int index)
{
    if (found == expected) return NULL;
    if (index == NATIVE_RESULT) {
        return native_rule("result: expected %s, found %s", spyre_dtype_name(expected),
                           spyre_dtype_name(found));
    }
    return native_rule("operand %d: expected %s, found %s", index, spyre_dtype_name(expected),
                       spyre_dtype_name(found));
}
