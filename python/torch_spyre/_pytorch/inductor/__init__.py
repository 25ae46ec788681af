# SPDX-License-Identifier: Apache-2.0
"""Of Inductor. Importing this folder imports nothing of it; some of its modules do."""
