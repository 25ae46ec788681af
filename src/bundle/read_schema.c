// SPDX-License-Identifier: Apache-2.0
//
// What a file says beyond what the reader takes from it. An unknown field asks for something that
// will not be done: there is a warning, one for each name of a file. Fields that
// restate others must agree with them, and the execution unit must be that of the opfunc.
#include <string.h>

#include "bundle/read.h"

typedef enum {
    SDSC, FOLD, DSC, LAYOUT, NODE, START, COORDINATES, LABEL, CONSTANT, COMPUTE, ATTRIBUTES,
} schema_object;

static const struct {
    schema_object object;
    const char *name;
} FIELDS[] = {
#define SCHEMA_FIELD(object, name) {object, name},
#include "bundle/schema.def"
#undef SCHEMA_FIELD
};

enum {
    MOST_WARNINGS = 16,                 // of one file
    MOST_CORELETS = 2,                  // of a core: how they share its slices is the back-end's
};

typedef struct {
    step_source *source;
    spyre_status failure;               // no memory for a warning
    const char *names[MOST_WARNINGS];
    uint32_t count;
} warnings;

static bool is_known(schema_object object, const char *name)
{
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++)
        if (FIELDS[i].object == object && strcmp(FIELDS[i].name, name) == 0) return true;
    return false;
}

static void warn(warnings *seen, const json_node *member)
{
    for (uint32_t i = 0; i < seen->count; i++)
        if (strcmp(seen->names[i], member->key) == 0) return;
    if (seen->count == MOST_WARNINGS || seen->failure || !seen->source->warnings) return;
    seen->names[seen->count++] = member->key;
    spyre_status message = json_error_at(member, "unknown field, ignored");
    const char *line = arena_strdup(seen->source->memory, spyre_status_message(message));
    spyre_status_free(message);
    seen->failure = line ? VEC_PUSH(seen->source->memory, seen->source->warnings, line)
                         : status_no_memory();
}

static void check_fields(warnings *seen, schema_object object, const json_node *node)
{
    void *cursor = NULL;
    json_node member;
    if (!json_is_object(node->value)) return;
    while (json_next_member(node, &cursor, &member))
        if (!is_known(object, member.key)) warn(seen, &member);
}

// The object at `key`, when there is one.
static bool check_member(warnings *seen, schema_object object, const json_node *parent,
                         const char *key, json_node *out_member)
{
    if (!json_is_object(parent->value) || !json_find(parent, key, out_member)) return false;
    check_fields(seen, object, out_member);
    return true;
}

// Each member of an object.
static void check_members(warnings *seen, schema_object object, const json_node *parent,
                          const char *key)
{
    json_node all, member;
    void *cursor = NULL;
    if (!json_find(parent, key, &all) || !json_is_object(all.value)) return;
    while (json_next_member(&all, &cursor, &member)) check_fields(seen, object, &member);
}

static spyre_status check_tree(warnings *seen, const json_node *dsc)
{
    json_node list, node, member;
    TRY(json_get_array(dsc, "scheduleTree_", &list));
    for (size_t i = 0; i < json_count(&list); i++) {
        TRY(json_item(&list, i, &node));
        check_fields(seen, NODE, &node);
        check_member(seen, START, &node, "startAddressCoreCorelet_", &member);
        check_member(seen, COORDINATES, &node, "coordinates_", &member);
    }
    TRY(json_get_array(dsc, "labeledDs_", &list));
    for (size_t i = 0; i < json_count(&list); i++) {
        TRY(json_item(&list, i, &node));
        check_fields(seen, LABEL, &node);
    }
    return NULL;
}

static spyre_status check_compute(warnings *seen, const json_node *dsc)
{
    json_node list, compute, attributes;
    TRY(json_get_array(dsc, "computeOp_", &list));
    TRY(json_item(&list, 0, &compute));
    check_fields(seen, COMPUTE, &compute);
    check_member(seen, ATTRIBUTES, &compute, "attributes_", &attributes);
    return NULL;
}

// --- Fields that restate others

static spyre_status check_fold(warnings *seen, const json_node *sdsc, const char *key,
                               int64_t least, int64_t most)
{
    json_node fold;
    int64_t found;
    if (!check_member(seen, FOLD, sdsc, key, &fold)) return NULL;
    return json_get_int(&fold, "factor_", least, most, &found);
}

// A step that is to run several times would be another.
static spyre_status check_time(const json_node *sdsc)
{
    json_node list, fold;
    int64_t found;
    if (!json_find(sdsc, "sdscFoldProps_", &list)) return NULL;
    TRY(json_expect_array(&list));
    for (size_t n = 0; n < json_count(&list); n++) {
        TRY(json_item(&list, n, &fold));
        TRY(json_get_int(&fold, "factor_", 1, 1, &found));
    }
    return NULL;
}

static spyre_status check_core_ids(const json_node *dsc, uint32_t core_count)
{
    json_node list, item;
    int64_t id;
    if (!json_find(dsc, "coreIdsUsed_", &list)) return NULL;
    TRY(json_expect_array_of(&list, core_count));
    for (uint32_t core = 0; core < core_count; core++) {
        TRY(json_item(&list, core, &item));
        TRY(json_as_int(&item, core, core, &id));
    }
    return NULL;
}

// Matrix products run on the PT array, all else on the special function processor.
static spyre_status check_unit(const json_node *dsc, opfunc op)
{
    json_node list, compute, member;
    const char *unit, *expected = opfunc_describe(op)->kind == OPFUNC_KIND_MATMUL ? "pt" : "sfp";
    TRY(json_get_array(dsc, "computeOp_", &list));
    TRY(json_item(&list, 0, &compute));
    TRY(json_member(&compute, "exUnit", &member));
    TRY(json_as_string(&member, &unit));
    if (strcmp(unit, expected) == 0) return NULL;
    return json_error_at(&member, "\"%.20s\", expected \"%s\": %s runs there", unit, expected,
                         opfunc_describe(op)->name);
}

spyre_status read_check_schema(step_source *source, const json_node *sdsc, const json_node *dsc,
                               const bundle_step *step)
{
    warnings seen = {.source = source};
    int64_t corelets;
    json_node member;
    TRY(check_fold(&seen, sdsc, "coreFoldProp_", step->cores->core_count, step->cores->core_count));
    TRY(check_fold(&seen, sdsc, "coreletFoldProp_", 1, MOST_CORELETS));
    TRY(check_time(sdsc));
    if (json_find(dsc, "numCoreletsUsed_", &member))
        TRY(json_as_int(&member, 1, MOST_CORELETS, &corelets));
    TRY(check_core_ids(dsc, step->cores->core_count));
    TRY(check_unit(dsc, step->op));
    check_fields(&seen, SDSC, sdsc);
    check_fields(&seen, DSC, dsc);
    check_members(&seen, LAYOUT, dsc, "primaryDsInfo_");
    check_members(&seen, CONSTANT, dsc, "constantInfo_");
    TRY(check_tree(&seen, dsc));
    TRY(check_compute(&seen, dsc));
    return seen.failure;
}
