// SPDX-License-Identifier: Apache-2.0
//
// Makers of views and of what joins tensors.
#include "graph/rewrite/make/make_node.h"

spyre_status make_cat(rewriter *r, const tensor *items, uint32_t count, uint32_t dim,
                      const tensor *into, tensor *out)
{
    spyre_arg *list = ARENA_NEW(r->target->memory, spyre_arg, count);
    TRY_ALLOC(list);
    spyre_view view = items[0].view;
    view.size[dim] = 0;
    for (uint32_t i = 0; i < count; i++) {
        list[i] = tensor_arg(&items[i]);
        if (dim < items[i].view.rank) view.size[dim] += items[i].view.size[dim];
    }
    view_set_contiguous(&view);
    spyre_arg args[2] = {{.kind = SPYRE_ARG_LIST, .of.list = {list, count}}, int_arg(dim)};
    return make_node(r, ATEN_SPYRE_CAT, args, 2, items[0].dtype, &view, into, out);
}

spyre_status make_reshape(rewriter *r, const tensor *x, const int64_t *size, uint32_t rank,
                          tensor *out)
{
    spyre_view view;
    tensor copy;
    if (view_reshape(&x->view, size, rank, &view)) {
        if (view_same_sizes(&view, &x->view)) {
            *out = *x;
            return NULL;
        }
        return make_view(r, x, &view, NULL, out);
    }
    TRY(make_copy(r, x, NULL, &copy));
    if (!view_reshape(&copy.view, size, rank, &view)) {
        return status_new(SPYRE_INVALID_ARGUMENT, "other sizes with another number of elements");
    }
    return make_view(r, &copy, &view, NULL, out);
}

spyre_status make_transpose(rewriter *r, const tensor *x, uint32_t a, uint32_t b, tensor *out)
{
    uint32_t order[SPYRE_MAX_RANK];
    for (uint32_t i = 0; i < x->view.rank; i++) order[i] = i == a ? b : i == b ? a : i;
    spyre_view view = view_permute(&x->view, order);
    return make_view(r, x, &view, NULL, out);
}

spyre_status make_unsqueeze(rewriter *r, const tensor *x, uint32_t dim, tensor *out)
{
    spyre_view view = {.rank = x->view.rank + 1, .offset = x->view.offset};
    if (x->view.rank == SPYRE_MAX_RANK) {
        return status_new(SPYRE_UNSUPPORTED, "a dim added to rank %d", SPYRE_MAX_RANK);
    }
    for (uint32_t i = 0; i < view.rank; i++) {
        uint32_t from = i > dim ? i - 1 : i;
        view.size[i] = i == dim ? 1 : x->view.size[from];
        view.stride[i] = i == dim ? 1 : x->view.stride[from];
    }
    return make_view(r, x, &view, NULL, out);
}

spyre_status make_slice(rewriter *r, const tensor *x, uint32_t dim, int64_t start, int64_t length,
                        tensor *out)
{
    spyre_view view = x->view;
    if (length == view.size[dim]) {
        *out = *x;
        return NULL;
    }
    view.offset += start * view.stride[dim];
    view.size[dim] = length;
    return make_view(r, x, &view, NULL, out);
}

// --- Slices of what was joined

static const graph_node *maker_of(const rewriter *r, uint32_t value)
{
    const uint32_t id = r->target->values.items[value].node;
    return id == SPYRE_NO_ID ? NULL : &r->target->nodes.items[id];
}

// Whether the value is a cat in another shape (rows that a slice in steps has written): parts of
// rows of such lie in pieces that no loop walks.
static bool is_reshaped_cat(const rewriter *r, uint32_t value)
{
    const graph_node *node = maker_of(r, value);
    bool is_view = node && node->op == ATEN_SPYRE_VIEW;
    for (; node && node->op == ATEN_SPYRE_VIEW; node = maker_of(r, value))
        value = node->args[0].of.value;
    return is_view && node && node->op == ATEN_SPYRE_CAT;
}

static const graph_node *cat_of(const rewriter *r, uint32_t value)
{
    const graph_node *node = maker_of(r, value);
    if (!node || node->op != ATEN_SPYRE_CAT) return NULL;
    for (uint32_t n = 0; n < node->args[0].of.list.count; n++)
        if (is_reshaped_cat(r, node->args[0].of.list.items[n].of.value)) return NULL;
    return node;
}

static uint32_t item_count(const graph_node *cat)
{
    return cat->args[0].of.list.count;
}

static spyre_status load_item(const rewriter *r, const graph_node *cat, uint32_t n, tensor *out)
{
    out->value = cat->args[0].of.list.items[n].of.value;
    const graph_value *item = &r->target->values.items[out->value];
    out->dtype = item->dtype;
    return graph_view_constant(r->target, &item->view, &out->view);
}

// Items of the cat that makes a value, and of cats among them, as far as counting goes.
static uint32_t count_items(const rewriter *r, uint32_t value)
{
    const graph_node *cat = cat_of(r, value);
    uint32_t count = 0;
    for (uint32_t n = 0; cat && n < item_count(cat) && count <= PIECES_MOST; n++)
        count += count_items(r, cat->args[0].of.list.items[n].of.value);
    return cat ? count : 1;
}

// Across the items of a cat only whole sticks: what cuts them costs more for each item.
static bool cuts_sticks(const tensor *x, part_of_dim part)
{
    enum { LANES = 64 };
    const int64_t end = part.start + part.length, size = x->view.size[part.dim];
    return part.dim + 1 == x->view.rank &&
           (part.start % LANES != 0 || (end % LANES != 0 && end != size));
}

static spyre_status list_pieces(rewriter *r, const tensor *x, part_of_dim part, piece_list *out)
{
    const graph_node *cat = cat_of(r, x->value);
    const int64_t end = part.start + part.length;
    const uint32_t along = cat ? (uint32_t)cat->args[1].of.integer : part.dim;
    const uint32_t count = cat ? item_count(cat) : 0;
    if (!cat || (along != part.dim && cuts_sticks(x, part)))
        return make_slice(r, x, part.dim, part.start, part.length, &out->items[out->count++]);
    piece_list across = {.count = 0};
    int64_t at = 0;
    for (uint32_t n = 0; n < count; n++) {
        cat = cat_of(r, x->value);                 // nodes move while some are made
        tensor item;
        TRY(load_item(r, cat, n, &item));
        if (along != part.dim) {
            TRY(make_part(r, &item, part, &across.items[across.count++]));
            continue;
        }
        const int64_t size = item.view.size[part.dim], first = at > part.start ? at : part.start;
        const int64_t last = at + size < end ? at + size : end;
        const part_of_dim within = {part.dim, first - at, last - first};
        if (first < last) TRY(list_pieces(r, &item, within, out));
        at += size;
    }
    if (along == part.dim) return NULL;
    return make_cat(r, across.items, count, along, NULL, &out->items[out->count++]);
}

spyre_status make_pieces(rewriter *r, const tensor *x, part_of_dim part, piece_list *out)
{
    if (part.length <= 0) return NULL;
    if (count_items(r, x->value) <= PIECES_MOST) return list_pieces(r, x, part, out);
    return make_slice(r, x, part.dim, part.start, part.length, &out->items[out->count++]);
}

spyre_status make_part(rewriter *r, const tensor *x, part_of_dim part, tensor *out)
{
    piece_list pieces = {.count = 0};
    TRY(make_pieces(r, x, part, &pieces));
    *out = pieces.items[0];
    return pieces.count == 1 ? NULL : make_cat(r, pieces.items, pieces.count, part.dim, NULL, out);
}

spyre_status make_count(rewriter *r, int64_t count, tensor *out)
{
    spyre_view view = {.rank = 1, .size = {count}, .stride = {1}};
    spyre_arg args[2] = {int_arg(0), int_arg(1)};
    return make_node(r, ATEN_SPYRE_COUNTS, args, 2, SPYRE_DTYPE_I64, &view, NULL, out);
}

spyre_status make_padded(rewriter *r, tensor *x, uint32_t dim, int64_t before, int64_t after,
                         const graph_number *value)
{
    int64_t cut_front = before < 0 ? -before : 0, cut_back = after < 0 ? -after : 0;
    int64_t left = x->view.size[dim] - cut_front - cut_back;
    tensor items[3];
    uint32_t count = 0;
    if (left <= 0) return status_new(SPYRE_UNSUPPORTED, "padding that cuts everything away");
    if (cut_front || cut_back) TRY(make_slice(r, x, dim, cut_front, left, x));
    for (int side = 0; side < 3; side++) {
        int64_t length = side == 0 ? before : side == 2 ? after : 0;
        if (side == 1) items[count++] = *x;
        if (length <= 0) continue;
        spyre_view block = x->view;
        block.size[dim] = length;
        TRY(make_full_of(r, value, x->dtype, &block, NULL, &items[count++]));
    }
    return count > 1 ? make_cat(r, items, count, dim, NULL, x) : NULL;
}

spyre_status make_column(rewriter *r, const tensor *vector, uint32_t dim, uint32_t rank,
                         tensor *out)
{
    spyre_view view = {.rank = rank, .offset = vector->view.offset};
    for (uint32_t i = 0; i < rank; i++) view.size[i] = 1;
    view.size[dim] = vector->view.size[0];
    view.stride[dim] = vector->view.stride[0];
    return make_view(r, vector, &view, NULL, out);
}
