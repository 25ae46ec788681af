// SPDX-License-Identifier: Apache-2.0
#include "estimate/picture.h"

enum { ROW = 22, LEFT = 130, WIDTH = 420, GAP = 130, TOP = 70 };

static const struct {
    const char *name, *color;
} PARTS[] = {{"compute", "#4477aa"},
             {"memory", "#66ccee"},
             {"exchange, seen", "#cc6677"},
             {"idle", "#dddddd"}};
enum { PART_NAMES = sizeof PARTS / sizeof *PARTS };

static void rectangle(text *out, double x, double y, double width, double height, const char *color)
{
    text_printf(out, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n",
                x, y, width > 0 ? width : 0, height, color);
}

static void label(text *out, double x, double y, const char *string)
{
    text_printf(out, "<text x=\"%.2f\" y=\"%.2f\">%s</text>\n", x, y, string);
}

static void draw_bar(const phase_cost *c, double longest_us, double x, double y, text *out)
{
    double seen = c->exchange_us - c->hidden_us;
    double idle = c->us - c->compute_us - c->memory_us - seen;
    const double parts[PART_NAMES] = {c->compute_us, c->memory_us, seen, idle};
    double scale = WIDTH / longest_us, at = x;
    for (uint32_t i = 0; i < PART_NAMES; i++) {
        if (parts[i] <= 0) continue;
        rectangle(out, at, y, parts[i] * scale, ROW - 10, PARTS[i].color);
        at += parts[i] * scale;
    }
    // What is hidden lies below the cards' work that hides it.
    rectangle(out, x, y + ROW - 9, c->hidden_us * scale, 3, PARTS[2].color);
    text_printf(out, "<text x=\"%.2f\" y=\"%.2f\">%.1f ms</text>\n", at + 6, y + 10,
                c->us / 1000);
}

static void draw_legend(text *out)
{
    double x = LEFT;
    for (uint32_t i = 0; i < PART_NAMES; i++, x += 110) {
        rectangle(out, x, 30, 12, 12, PARTS[i].color);
        label(out, x + 18, 40, PARTS[i].name);
    }
    rectangle(out, x, 35, 12, 3, PARTS[2].color);
    label(out, x + 18, 40, "exchange, hidden");
}

static double longest(const division *items, uint32_t count, bool decode)
{
    double us = 1e-9;
    for (uint32_t i = 0; i < count; i++) {
        const phase_cost *c = decode ? &items[i].decode : &items[i].prefill;
        if (c->us > us) us = c->us;
    }
    return us;
}

void picture_draw(const estimate_model *m, const spyre_estimate_options *o, const division *items,
                  uint32_t count, text *out)
{
    double prefill_us = longest(items, count, false), decode_us = longest(items, count, true);
    uint32_t rows = 0;
    for (uint32_t i = 0; i < count; i++) rows += items[i].fits;
    text_printf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
                "font-family=\"sans-serif\" font-size=\"11\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
                "<text x=\"10\" y=\"18\" font-size=\"14\">%s of %lld layers on %u cards, %u "
                "sequences a copy, prompts of %u, contexts of %u</text>\n",
                LEFT + 2 * WIDTH + 2 * GAP, TOP + rows * ROW + 10, m->kind, (long long)m->layers,
                o->cards, o->batch, o->prompt, o->context);
    draw_legend(out);
    label(out, LEFT, TOP - 8, "prefill of the batch");
    label(out, LEFT + WIDTH + GAP, TOP - 8, "step of decoding");
    double y = TOP;
    for (uint32_t i = 0; i < count; i++) {
        const division *d = &items[i];
        if (!d->fits) continue;
        text_printf(out, "<text x=\"10\" y=\"%.2f\">tp %u pp %u dp %u</text>\n", y + 10,
                    d->tensor, d->pipeline, d->copies);
        draw_bar(&d->prefill, prefill_us, LEFT, y, out);
        draw_bar(&d->decode, decode_us, LEFT + WIDTH + GAP, y, out);
        y += ROW;
    }
    text_append(out, "</svg>\n");
}
