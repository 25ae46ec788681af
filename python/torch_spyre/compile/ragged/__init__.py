# SPDX-License-Identifier: Apache-2.0
"""A graph at the ends of the buckets that its lengths are in (bucket_forms.py).

What a node makes of arguments with zeros behind their length has the right elements up to the
length and any numbers behind it, as long as every operator works by elements or along other dims.
Where elements meet along a length, what is behind it is left out: attention and softmax get a
mask, sums and products zeros. Where a number behind it could fail (an index), it becomes zero. A
node that is none of these sees what is behind: Seen is raised, and the graph keeps a program a
length.

The graph must not hold a length as a number, or one program would not take all of a bucket: the
places of the last rows are arguments behind those that the graph has.

form.py makes the form node by node, by the rules of reductions.py, products.py, rows.py, indices.py
and elementwise.py; draft.py is what they write into, dims.py says where lengths are.
"""

from .dims import Measure, Seen, measures
from .draft import Places, device_of
from .form import Form, make

__all__ = ["Form", "Measure", "Places", "Seen", "device_of", "make", "measures"]
