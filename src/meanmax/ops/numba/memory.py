r"""Loads from arrays that a kernel only reads.

A loop that writes several arrays is vectorised only if the compiler can rule out that they overlap
with what it reads, and it gives up after a few pairs. Loads marked as invariant need no proof.
"""

from __future__ import annotations

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def read(typingctx, array, index):
    r""":obj:`array[index]` of a contiguous vector that nothing in this kernel writes to.

    The index must be unsigned: negative ones are not wrapped.
    """
    if not isinstance(array, types.Array) or array.ndim != 1 or array.layout != "C":
        return None

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, args[0])
        load = builder.load(cgutils.gep(builder, view.data, args[1]))
        load.set_metadata("invariant.load", builder.module.add_metadata([]))
        return load

    return array.dtype(array, index), codegen
