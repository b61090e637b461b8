r"""Conditional expressions without a branch.

Numba compiles :obj:`a if test else b` to a branch, and where one side is the value already stored
the compiler makes it a conditional store, which stops vectorisation. This is one instruction.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def where(typingctx, test, a, b):
    r""":obj:`a` where :obj:`test` holds, else :obj:`b`; both are evaluated."""
    result = typingctx.unify_types(a, b)

    def codegen(context, builder, signature, args):
        test_value, *sides = args
        casts = [
            context.cast(builder, value, source, result)
            for value, source in zip(sides, signature.args[1:], strict=True)
        ]
        return builder.select(test_value, *casts)

    return result(types.boolean, a, b), codegen


@intrinsic
def larger(typingctx, a, b):
    r"""The larger of two numbers of one floating type, neither NaN."""
    if a != b or not isinstance(a, types.Float):
        return None

    def codegen(context, builder, signature, args):
        kind = args[0].type
        binary = ir.FunctionType(kind, [kind, kind])
        function = builder.module.declare_intrinsic("llvm.maxnum", [kind], binary)
        return builder.call(function, args, fastmath=("nnan",))

    return a(a, b), codegen
