// SPDX-License-Identifier: Apache-2.0
//
// Parts of the verifier. An error names operation, place, value and rule.
#ifndef KTIR_VERIFY_H
#define KTIR_VERIFY_H

#include "ktir/ir/ir.h"

#define VERIFY_BAD(m, op, ...) ktir_error((m), (op), SPYRE_INVALID_FORMAT, __VA_ARGS__)

// "%a has type T, <rule>"
SPYRE_MUST_CHECK spyre_status verify_bad_operand(const ktir_module *m, const ktir_op *op,
                                                 uint32_t operand, const char *rule);
SPYRE_MUST_CHECK spyre_status verify_bad_result(const ktir_module *m, const ktir_op *op,
                                                const char *rule);

// That operands first..end are index values (any integers when `any`).
SPYRE_MUST_CHECK spyre_status verify_indices(const ktir_module *m, const ktir_op *op,
                                             uint32_t first, uint32_t end);

// That a region has these arguments and yields one value of that type.
SPYRE_MUST_CHECK spyre_status verify_combiner(const ktir_module *m, const ktir_op *op,
                                              const ktir_type *argument, uint32_t arguments,
                                              const ktir_type *yielded);

// The operation that makes operand n; an error when a region's argument or an scf operation brings
// it: views and tiles are followed to where they are constructed.
SPYRE_MUST_CHECK spyre_status verify_maker(const ktir_module *m, const ktir_op *op, uint32_t n,
                                           const ktir_op **out_maker);

// One operation, by dialect.
SPYRE_MUST_CHECK spyre_status verify_arith(const ktir_module *m, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status verify_linalg(const ktir_module *m, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status verify_tensor(const ktir_module *m, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status verify_scf(const ktir_module *m, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status verify_ktdp(const ktir_module *m, const ktir_op *op);

#endif
