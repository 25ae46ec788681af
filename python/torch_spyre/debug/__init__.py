# SPDX-License-Identifier: Apache-2.0
"""What a user looks at: artefacts, captured kernels, comparisons, reports of faults."""
