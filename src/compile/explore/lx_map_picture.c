// SPDX-License-Identifier: Apache-2.0
#include "compile/explore/lx_map_picture.h"

#include <inttypes.h>
#include <string.h>

#include "compile/explore/markup.h"

enum {
    LEFT = 90, RIGHT = 30, TOP = 44, PLOT = 300, BOTTOM = 120,   // of a panel, in px
    WIDEST_OP = 60, NARROWEST_OP = 6, USUAL_PLOT = 1000,
    CHARACTER = 7, LABEL = 14, MOST_TICKS = 8,
    BROKEN_AXIS = 4,    // above this many times the peak the limit is not drawn to scale
};

typedef struct {
    const lx_map *map;
    double top;         // of the panel, px
    double op_px;       // of a column
    double full_bytes;  // at the upper end of the axis
    bool broken;        // the limit is above it
} panel;

static const char *const style =
    "<style>.lx{font:12px system-ui,sans-serif;fill:#222}.lx-plot{fill:#f6f6f6;stroke:#999}"
    ".lx-op{fill:transparent}.lx-op:hover{fill:#8884}.lx-buffer{stroke:#333;stroke-width:.6}"
    ".lx-name{fill:#111;pointer-events:none}.lx-limit{stroke:#c22;stroke-dasharray:6 3}"
    ".lx-place{stroke:#111;stroke-width:2;stroke-dasharray:2 2}"
    "@media (prefers-color-scheme:dark){.lx{fill:#ddd}.lx-plot{fill:#222;stroke:#777}"
    ".lx-limit{stroke:#f77}}</style>\n";

static double panel_width(const lx_map *map, double *out_op_px)
{
    double op = map->ops.count ? (double)USUAL_PLOT / map->ops.count : WIDEST_OP;
    if (op > WIDEST_OP) op = WIDEST_OP;
    if (op < NARROWEST_OP) op = NARROWEST_OP;
    *out_op_px = op;
    double plot = op * map->ops.count;
    return LEFT + RIGHT + (plot < 500 ? 500 : plot);
}

static double y_of(const panel *p, double bytes)
{
    return p->top + TOP + PLOT * (1 - bytes / p->full_bytes);
}

// Where an op changes from reading to writing.
static double x_of(const panel *p, uint32_t op)
{
    return LEFT + (op + 0.5) * p->op_px;
}

static void print_op(const panel *p, uint32_t index, text *out)
{
    const lx_op *op = &p->map->ops.items[index];
    text_printf(out, "<rect class=\"lx-op\" data-op=\"%u\" x=\"%.3f\" y=\"%.3f\" width=\"%.3f\" "
                "height=\"%d\"><title>op %u ", index, LEFT + index * p->op_px, p->top + TOP,
                p->op_px, PLOT, index);
    markup_append(out, op->opfunc);
    text_append(out, " (");
    markup_append(out, op->name);
    text_append(out, ")</title></rect>\n");
}

static void print_tooltip(const lx_buffer *b, text *out)
{
    text_append(out, "<title>");
    markup_append(out, b->name);
    text_printf(out, " (b%u): %" PRId64 " bytes at %" PRId64 ", ops %u to %u", b->id, b->bytes,
                b->offset, b->first, b->last);
    if (b->in_place_of != SPYRE_NO_ID) text_printf(out, ", in place of b%u", b->in_place_of);
    text_append(out, "</title>");
}

static void print_buffer(const panel *p, const lx_buffer *b, text *out)
{
    double x = x_of(p, b->first), width = x_of(p, b->last) - x;
    double end = (double)(b->offset + b->bytes), y = y_of(p, end);
    double height = y_of(p, (double)b->offset) - y;
    text_printf(out, "<rect class=\"lx-buffer\" data-buffer=\"%u\" data-first=\"%u\" "
                "data-last=\"%u\" x=\"%.3f\" y=\"%.6f\" width=\"%.3f\" height=\"%.6f\" "
                "fill=\"hsl(%u,55%%,72%%)\">", b->id, b->first, b->last, x, y, width, height,
                b->id * 67 % 360);
    print_tooltip(b, out);
    text_append(out, "</rect>\n");
    if (b->in_place_of != SPYRE_NO_ID)
        text_printf(out, "<path class=\"lx-place\" d=\"M%.3f %.6fv%.6f\"/>\n", x, y, height);
    if (height < LABEL || width < CHARACTER * (double)(strlen(b->name) + 1)) return;
    text_printf(out, "<text class=\"lx-name\" x=\"%.3f\" y=\"%.3f\">", x + 4, y + LABEL - 2);
    markup_append(out, b->name);
    text_append(out, "</text>\n");
}

// Bytes at a power of two apart, in the unit that makes them short.
static void print_bytes_axis(const panel *p, text *out)
{
    int64_t step = 1;
    while ((double)step * MOST_TICKS < p->full_bytes) step *= 2;
    const int64_t unit = step < 1 << 10 ? 1 : step < 1 << 20 ? 1 << 10 : 1 << 20;
    const char *name = unit == 1 ? "bytes" : unit == 1 << 10 ? "KiB" : "MiB";
    for (int64_t bytes = 0; (double)bytes <= p->full_bytes; bytes += step)
        text_printf(out, "<text x=\"%d\" y=\"%.3f\" text-anchor=\"end\">%" PRId64 "%s%s</text>\n",
                    LEFT - 6, y_of(p, (double)bytes) + 4, bytes / unit, bytes ? " " : "",
                    bytes ? name : "");
}

// Numbers and opfuncs, aslant, as far as there is room for them.
static void print_ops_axis(const panel *p, text *out)
{
    double bottom = p->top + TOP + PLOT + 12;
    uint32_t every = 1 + (uint32_t)(LABEL / p->op_px);
    for (uint32_t i = 0; i < p->map->ops.count; i += every) {
        double x = x_of(p, i) + 4;
        text_printf(out, "<text x=\"%.3f\" y=\"%.3f\" text-anchor=\"end\" "
                    "transform=\"rotate(-45 %.3f %.3f)\">", x, bottom, x, bottom);
        markup_append(out, p->map->ops.items[i].opfunc);
        text_printf(out, " %u</text>\n", i);
    }
}

static void print_axes(const panel *p, double width, text *out)
{
    const lx_map *map = p->map;
    double limit = p->broken ? p->top + TOP - 8 : y_of(p, (double)map->limit_bytes);
    print_bytes_axis(p, out);
    print_ops_axis(p, out);
    text_printf(out,
                "<path class=\"lx-limit\" d=\"M%d %.3fH%.3f\"/>\n"
                "<text x=\"%.3f\" y=\"%.3f\" text-anchor=\"end\">limit %" PRId64
                " bytes%s</text>\n",
                LEFT, limit, width - RIGHT, width - RIGHT, limit - 4, map->limit_bytes,
                p->broken ? ", not to scale" : "");
}

static void print_panel(const lx_map *map, const char *title, double top, text *out)
{
    panel p = {.map = map, .top = top};
    double width = panel_width(map, &p.op_px);
    p.broken = map->peak_bytes > 0 && map->limit_bytes / BROKEN_AXIS > map->peak_bytes;
    p.full_bytes = p.broken ? (double)map->peak_bytes * 1.1 : (double)map->limit_bytes;
    if (p.full_bytes < 1) p.full_bytes = 1;
    text_printf(out, "<text x=\"4\" y=\"%.3f\" font-weight=\"bold\">", top + 16);
    markup_append(out, title);
    text_printf(out, "</text>\n<text x=\"%d\" y=\"%.3f\">LX of a core, op by op</text>\n", LEFT,
                top + 16);
    text_printf(out, "<rect class=\"lx-plot\" x=\"%d\" y=\"%.3f\" width=\"%.3f\" "
                "height=\"%d\"/>\n", LEFT, top + TOP, width - LEFT - RIGHT, PLOT);
    for (uint32_t i = 0; i < map->ops.count; i++) print_op(&p, i, out);
    for (uint32_t i = 0; i < map->buffers.count; i++) print_buffer(&p, &map->buffers.items[i], out);
    print_axes(&p, width, out);
    if (map->buffers.count == 0)
        text_printf(out, "<text x=\"%d\" y=\"%.3f\">no buffers in LX</text>\n", LEFT + 12,
                    top + TOP + PLOT / 2);
}

void lx_picture_print(const lx_map *maps, const char *const *titles, uint32_t count, text *out)
{
    double width = LEFT + RIGHT, op_px, height = TOP + PLOT + BOTTOM;
    for (uint32_t i = 0; i < count; i++) {
        double own = panel_width(&maps[i], &op_px);
        if (own > width) width = own;
    }
    text_printf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"lx\" width=\"%.0f\" "
                "height=\"%.0f\">\n%s", width, height * (count ? count : 1), style);
    for (uint32_t i = 0; i < count; i++) print_panel(&maps[i], titles[i], height * i, out);
    if (count == 0) text_append(out, "<text x=\"4\" y=\"16\">no card segment</text>\n");
    text_append(out, "</svg>\n");
}
