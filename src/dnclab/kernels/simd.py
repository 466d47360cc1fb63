"""Lanes: a value of several numbers that one instruction adds, multiplies or compares.

A :class:`LanesType` value is an LLVM vector, so that kernels written in Python are sure to become
vector instructions. How many numbers it holds follows from the processor alone: 64 bytes where
registers are that wide, else 32. Functions of this file work inside ``numba.njit`` only:

- ``pointer(array)`` is where an array begins, ``advance(p, i)`` is i lanes further on,
  ``skip(p, i)`` i numbers; kernels pass pointers, for an array costs more than the work on it;
- ``load(p, i)``, ``store(p, i, x)``: the i-th lanes; ``load_at`` and ``store_at``: from the i-th
  number on; ``get``, ``put``: the i-th number; ``spread(p, i)``: the i-th number in all lanes;
- ``+ - * /`` between lanes, and between lanes and numbers; ``exp``, ``log``, ``sqrt``, ``sigmoid``;
- ``where_less(a, b, x, y)``: x in the lanes where a < b, else y; false where either is no number.

A NaN goes in and comes out: nothing here assumes that there are none. Nothing is rounded otherwise
than it is written: a product and a sum become one instruction where ``fused`` says so.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config as numba_config
from numba.core import typing
from numba.extending import (
    intrinsic,
    lower_builtin,
    models,
    register_model,
    type_callable,
)


def _register_bytes() -> int:
    """How wide a vector register is on the processor that Numba compiles for."""
    lowered = numba_config.CPU_FEATURES
    if lowered is not None:
        return 64 if "+avx512f" in lowered.split(",") else 32
    return 64 if llvmlite.binding.get_host_cpu_features().get("avx512f", False) else 32


REGISTER_BYTES = _register_bytes()


def lanes_of(dtype: np.dtype[Any] | type) -> int:
    """How many numbers of a dtype lanes hold."""
    return REGISTER_BYTES // np.dtype(dtype).itemsize


class LanesType(types.Type):
    """The Numba type of lanes of float32 or float64."""

    def __init__(self, element: types.Float) -> None:
        self.element = element
        self.count = REGISTER_BYTES * 8 // element.bitwidth
        super().__init__(name=f"Lanes({self.count} x {element})")


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: LanesType) -> None:
        super().__init__(manager, lanes, _vector(lanes))


def _float(element: types.Float) -> ir.Type:
    return ir.FloatType() if element.bitwidth == 32 else ir.DoubleType()


def _vector(lanes: LanesType) -> ir.VectorType:
    return ir.VectorType(_float(lanes.element), lanes.count)


def _integers(lanes: LanesType) -> ir.VectorType:
    return ir.VectorType(ir.IntType(lanes.element.bitwidth), lanes.count)


def _constant(lanes: LanesType, value: float) -> ir.Constant:
    if lanes.element.bitwidth == 32:
        value = float(np.float32(value))
    return ir.Constant(_vector(lanes), [value] * lanes.count)


def _integer(lanes: LanesType, value: int) -> ir.Constant:
    return ir.Constant(_integers(lanes), [value] * lanes.count)


def _splat(builder: ir.IRBuilder, lanes: LanesType, number: ir.Value) -> ir.Value:
    """A number in all lanes."""
    index = ir.IntType(32)
    undefined = ir.Constant(_vector(lanes), ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(index, 0))
    zeros = ir.Constant(ir.VectorType(index, lanes.count), [0] * lanes.count)
    return builder.shuffle_vector(first, undefined, zeros)


# --- pointers ------------------------------------------------------------------------------------


def _lanes_behind(pointer: types.Type) -> LanesType:
    return LanesType(pointer.dtype)


@intrinsic
def pointer(context: Any, array: types.Array) -> Any:
    """Where the numbers of a contiguous array begin."""
    kind = types.CPointer(array.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.bitcast(made.data, context.get_value_type(kind))

    return kind(array), generate


def _address(
    builder: Any, lanes: LanesType, start: Any, index: Any, numbers: int, of: ir.Type
) -> Any:
    """The pointer to `index` · `numbers` numbers behind `start`."""
    start = builder.bitcast(start, _float(lanes.element).as_pointer())
    if numbers != 1:
        index = builder.mul(index, ir.Constant(index.type, numbers))
    return builder.bitcast(builder.gep(start, [index]), of.as_pointer())


def _memory_intrinsic(
    *, scalar: bool, stride_in_lanes: bool, stores: bool
) -> Callable[[Any, Any, Any, Any], tuple[Any, Any]]:
    """The typing and code of one way to read or write memory."""

    def typed(context: Any, pointer: Any, index: Any, value: Any = None) -> tuple[Any, Any]:
        lanes = _lanes_behind(pointer)
        moved = lanes.element if scalar else lanes
        size = lanes.element.bitwidth // 8

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            of = _float(lanes.element) if scalar else _vector(lanes)
            numbers = lanes.count if stride_in_lanes else 1
            where = _address(builder, lanes, arguments[0], arguments[1], numbers, of)
            if stores:
                builder.store(arguments[2], where).align = size
                return context.get_dummy_value()
            read = builder.load(where)
            read.align = size
            return read

        if stores:
            return types.void(pointer, types.intp, moved), generate
        return moved(pointer, types.intp), generate

    return typed


_load = _memory_intrinsic(scalar=False, stride_in_lanes=True, stores=False)
_load_at = _memory_intrinsic(scalar=False, stride_in_lanes=False, stores=False)
_get = _memory_intrinsic(scalar=True, stride_in_lanes=False, stores=False)
_store = _memory_intrinsic(scalar=False, stride_in_lanes=True, stores=True)
_store_at = _memory_intrinsic(scalar=False, stride_in_lanes=False, stores=True)
_put = _memory_intrinsic(scalar=True, stride_in_lanes=False, stores=True)


@intrinsic
def load(context: Any, pointer: Any, index: Any) -> Any:
    """The `index`-th lanes."""
    return _load(context, pointer, index, None)


@intrinsic
def load_at(context: Any, pointer: Any, index: Any) -> Any:
    """Lanes from the `index`-th number on."""
    return _load_at(context, pointer, index, None)


@intrinsic
def get(context: Any, pointer: Any, index: Any) -> Any:
    """The `index`-th number."""
    return _get(context, pointer, index, None)


@intrinsic
def store(context: Any, pointer: Any, index: Any, lanes: Any) -> Any:
    """Write the `index`-th lanes."""
    return _store(context, pointer, index, lanes)


@intrinsic
def store_at(context: Any, pointer: Any, index: Any, lanes: Any) -> Any:
    """Write lanes from the `index`-th number on."""
    return _store_at(context, pointer, index, lanes)


@intrinsic
def put(context: Any, pointer: Any, index: Any, number: Any) -> Any:
    """Write the `index`-th number."""
    return _put(context, pointer, index, number)


@intrinsic
def spread(context: Any, pointer: Any, index: Any) -> Any:
    """The `index`-th number in all lanes."""
    lanes = _lanes_behind(pointer)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start, index = arguments
        where = _address(builder, lanes, start, index, 1, _float(lanes.element))
        number = builder.load(where)
        number.align = lanes.element.bitwidth // 8
        return _splat(builder, lanes, number)

    return lanes(pointer, types.intp), generate


def _moving(in_lanes: bool) -> Callable[[Any, Any, Any], Any]:
    def typed(context: Any, pointer: Any, index: Any) -> Any:
        lanes = _lanes_behind(pointer)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            start, index = arguments
            numbers = lanes.count if in_lanes else 1
            moved = _address(builder, lanes, start, index, numbers, _float(lanes.element))
            return builder.bitcast(moved, context.get_value_type(pointer))

        return pointer(pointer, types.intp), generate

    return typed


_advance, _skip = _moving(True), _moving(False)


@intrinsic
def advance(context: Any, pointer: Any, count: Any) -> Any:
    """The pointer `count` lanes further on."""
    return _advance(context, pointer, count)


@intrinsic
def skip(context: Any, pointer: Any, count: Any) -> Any:
    """The pointer `count` numbers further on."""
    return _skip(context, pointer, count)


@intrinsic
def fill(context: Any, pointer: Any, number: Any) -> Any:
    """A number in all lanes of the kind that the pointer points to."""
    lanes = _lanes_behind(pointer)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _splat(
            builder,
            lanes,
            context.cast(builder, arguments[1], signature.args[1], lanes.element),
        )

    return lanes(pointer, number), generate


@intrinsic
def lane_count(context: Any, pointer: Any) -> Any:
    """How many numbers lanes hold."""
    lanes = _lanes_behind(pointer)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(ir.IntType(types.intp.bitwidth), lanes.count)

    return types.intp(pointer), generate


@intrinsic
def lane_numbers(context: Any, pointer: Any) -> Any:
    """0, 1, 2, ..."""
    lanes = _lanes_behind(pointer)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(_vector(lanes), [float(index) for index in range(lanes.count)])

    return lanes(pointer), generate


def _halved(builder: Any, value: Any, joined: Callable[[Any, Any], Any]) -> Any:
    """One number of a vector's: its halves joined until there is one."""
    width, index = value.type.count, ir.IntType(32)
    while width > 1:
        width //= 2
        undefined = ir.Constant(value.type, ir.Undefined)
        low, high = (
            ir.Constant(ir.VectorType(index, width), list(range(start, start + width)))
            for start in (0, width)
        )
        value = joined(
            builder.shuffle_vector(value, undefined, low),
            builder.shuffle_vector(value, undefined, high),
        )
    return builder.extract_element(value, ir.Constant(index, 0))


@intrinsic
def total(context: Any, lanes: LanesType) -> Any:
    """The sum over the lanes, by halves."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _halved(builder, arguments[0], builder.fadd)

    return lanes.element(lanes), generate


@intrinsic
def greatest(context: Any, lanes: LanesType) -> Any:
    """The greatest number of the lanes, by halves; any of them if some are no numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def larger(low: Any, high: Any) -> Any:
            return _choose(builder, "<", low, high, high, low)

        return _halved(builder, arguments[0], larger)

    return lanes.element(lanes), generate


def _fold(builder: Any, left: Any, right: Any, groups: int) -> Any:
    """Halve each of two vectors' groups of neighbours by adding; the groups of both in one."""
    width = left.type.count
    size = width // groups
    index = ir.IntType(32)
    halves = []
    for half in range(2):
        chosen = [
            side * width + group * size + half * (size // 2) + number
            for side in range(2)
            for group in range(groups)
            for number in range(size // 2)
        ]
        mask = ir.Constant(ir.VectorType(index, width), chosen)
        halves.append(builder.shuffle_vector(left, right, mask))
    return builder.fadd(*halves)


@intrinsic
def put_totals(
    context: Any, pointer: Any, index: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any,
    g: Any, h: Any,
) -> Any:  # fmt: skip
    """Write eight numbers from the `index`-th on: the sums over the lanes of a, b, ..., h."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start, index, *vectors = arguments
        groups = 1
        while len(vectors) > 1 and groups < a.count:
            vectors = [
                _fold(builder, left, right, groups)
                for left, right in zip(vectors[::2], vectors[1::2], strict=True)
            ]
            groups *= 2
        undefined = ir.Constant(vectors[0].type, ir.Undefined)
        number = 0
        for vector in vectors:
            left = vector
            while groups < a.count:  # neighbours are still to be added
                left = _fold(builder, left, undefined, groups)
                groups *= 2
            for lane in range(8 // len(vectors)):
                where = builder.add(index, ir.Constant(index.type, number))
                place = _address(builder, a, start, where, 1, _float(a.element))
                of_lane = builder.extract_element(left, ir.Constant(ir.IntType(32), lane))
                builder.store(of_lane, place).align = a.element.bitwidth // 8
                number += 1
        return context.get_dummy_value()

    return types.void(pointer, types.intp, a, b, c, d, e, f, g, h), generate


# --- arithmetic ----------------------------------------------------------------------------------


def _register(operation: Any, instruction: str) -> None:
    """An operator between lanes, and between lanes and numbers."""

    @type_callable(operation)
    def typed(context: Any) -> Callable[..., Any]:
        def typer(left: Any, right: Any) -> Any:
            kinds = [kind for kind in (left, right) if isinstance(kind, LanesType)]
            if not kinds or (len(kinds) == 2 and kinds[0] != kinds[1]):
                return None
            numbers = [kind for kind in (left, right) if not isinstance(kind, LanesType)]
            if not all(isinstance(kind, (types.Float, types.Integer)) for kind in numbers):
                return None
            return typing.signature(kinds[0], left, right)

        return typer

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = signature.return_type
        left, right = (
            value
            if isinstance(kind, LanesType)
            else _splat(builder, lanes, context.cast(builder, value, kind, lanes.element))
            for value, kind in zip(arguments, signature.args, strict=True)
        )
        return getattr(builder, instruction)(left, right)

    for left, right in (
        (LanesType, LanesType),
        (LanesType, types.Float),
        (LanesType, types.Integer),
        (types.Float, LanesType),
        (types.Integer, LanesType),
    ):
        lower_builtin(operation, left, right)(lower)


for _operations, _instruction in (
    ((operator.add, operator.iadd), "fadd"),
    ((operator.sub, operator.isub), "fsub"),
    ((operator.mul, operator.imul), "fmul"),
    ((operator.truediv, operator.itruediv), "fdiv"),
):
    for _operation in _operations:
        _register(_operation, _instruction)


def _call(builder: Any, lanes: LanesType, name: str, *arguments: Any) -> Any:
    """Call one of LLVM's vector functions, llvm.<name>.<type>."""
    vector = _vector(lanes)
    full_name = f"llvm.{name}.v{lanes.count}f{lanes.element.bitwidth}"
    kind = ir.FunctionType(vector, [vector] * len(arguments))
    function = builder.module.globals.get(full_name)
    if function is None:
        function = ir.Function(builder.module, kind, full_name)
    return builder.call(function, arguments)


@intrinsic
def fused(context: Any, left: Any, right: Any, added: Any) -> Any:
    """left · right + added, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, left, "fma", *arguments)

    return left(left, right, added), generate


@intrinsic
def sqrt(context: Any, x: Any) -> Any:
    """√x."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, x, "sqrt", *arguments)

    return x(x), generate


@intrinsic
def magnitude(context: Any, x: Any) -> Any:
    """|x|."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, x, "fabs", *arguments)

    return x(x), generate


def _choose(
    builder: Any, condition: str, left: Any, right: Any, chosen: Any, otherwise: Any
) -> Any:
    return builder.select(builder.fcmp_ordered(condition, left, right), chosen, otherwise)


@intrinsic
def where_less(context: Any, left: Any, right: Any, chosen: Any, otherwise: Any) -> Any:
    """`chosen` in the lanes where left < right, `otherwise` in the others."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _choose(builder, "<", *arguments)

    return left(left, right, chosen, otherwise), generate


@intrinsic
def where_not_above(context: Any, left: Any, right: Any, chosen: Any, otherwise: Any) -> Any:
    """`chosen` in the lanes where left ≤ right, `otherwise` in the others."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _choose(builder, "<=", *arguments)

    return left(left, right, chosen, otherwise), generate


# --- exp and log ---------------------------------------------------------------------------------
#
# Both reduce their argument by powers of two and then take a series, long enough for the error to
# stay below half a unit in the last place before rounding: 1/k! up to k = 7 (13 in float64) on
# |r| ≤ log(2)/2, and the series of atanh up to s⁹ (s²¹) on |s| ≤ (√2-1)/(√2+1).

_MANTISSA = {32: 23, 64: 52}
_BIAS = {32: 127, 64: 1023}
_EXP_TERMS = {32: 7, 64: 13}
_EXP_RANGE = {32: (-87.0, 88.0), 64: (-708.0, 709.0)}  # beyond: the value at the end
_LOG_TERMS = {32: 5, 64: 11}
_LN2_HIGH = {32: 0.693359375, 64: 6.93145751953125e-1}  # few digits: n · high is exact
_LN2 = math.log(2)
_LN2_LOW = {32: -2.12194440054690583e-4, 64: 1.42860682030941723212e-6}


def _exp(builder: Any, lanes: LanesType, x: Any) -> Any:
    bits = lanes.element.bitwidth
    low, high = (_constant(lanes, end) for end in _EXP_RANGE[bits])
    x = _choose(builder, "<", x, low, low, x)
    x = _choose(builder, "<", high, x, high, x)
    # Adding 1.5 · 2^mantissa rounds to a whole number and leaves it in the lowest bits.
    magic = _constant(lanes, 1.5 * 2.0 ** _MANTISSA[bits])
    shifted = _call(builder, lanes, "fma", x, _constant(lanes, 1 / _LN2), magic)
    power = builder.fsub(shifted, magic)
    rest = _call(builder, lanes, "fma", power, _constant(lanes, -_LN2_HIGH[bits]), x)
    rest = _call(builder, lanes, "fma", power, _constant(lanes, -_LN2_LOW[bits]), rest)
    value = _constant(lanes, 1 / math.factorial(_EXP_TERMS[bits]))
    for term in reversed(range(_EXP_TERMS[bits])):
        value = _call(
            builder, lanes, "fma", value, rest, _constant(lanes, 1 / math.factorial(term))
        )
    exponent = builder.bitcast(shifted, _integers(lanes))
    exponent = builder.add(exponent, _integer(lanes, _BIAS[bits]))
    exponent = builder.shl(exponent, _integer(lanes, _MANTISSA[bits]))
    return builder.fmul(value, builder.bitcast(exponent, _vector(lanes)))


def _log(builder: Any, lanes: LanesType, x: Any) -> Any:
    bits, mantissa = lanes.element.bitwidth, _MANTISSA[lanes.element.bitwidth]
    integers, vector = _integers(lanes), _vector(lanes)
    # x = 2^power · y with y in [√½, √2): subtract √½'s bits, keep the exponent, add them again.
    root_half = int(np.array(math.sqrt(0.5), f"f{bits // 8}").view(f"i{bits // 8}"))
    offset = builder.sub(builder.bitcast(x, integers), _integer(lanes, root_half))
    exponent = builder.ashr(offset, _integer(lanes, mantissa))
    fraction = builder.and_(offset, _integer(lanes, (1 << mantissa) - 1))
    y = builder.bitcast(builder.add(fraction, _integer(lanes, root_half)), vector)
    power = builder.sitofp(exponent, vector)
    one = _constant(lanes, 1)
    ratio = builder.fdiv(builder.fsub(y, one), builder.fadd(y, one))
    square = builder.fmul(ratio, ratio)
    series = _constant(lanes, 2 / (2 * _LOG_TERMS[bits] - 1))
    for term in reversed(range(1, _LOG_TERMS[bits])):
        series = _call(builder, lanes, "fma", series, square, _constant(lanes, 2 / (2 * term - 1)))
    value = _call(
        builder, lanes, "fma", power, _constant(lanes, _LN2_LOW[bits]), builder.fmul(series, ratio)
    )
    value = _call(builder, lanes, "fma", power, _constant(lanes, _LN2_HIGH[bits]), value)
    zero = _constant(lanes, 0)
    value = _choose(builder, ">", x, zero, value, _constant(lanes, math.nan))
    return _choose(builder, "==", x, zero, _constant(lanes, -math.inf), value)


@intrinsic
def exp(context: Any, x: Any) -> Any:
    """e^x to about a unit in the last place; the ends of the range instead of 0 and infinity."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _exp(builder, x, arguments[0])

    return x(x), generate


@intrinsic
def log(context: Any, x: Any) -> Any:
    """log x to about a unit in the last place; for normal finite numbers, 0 and NaN."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _log(builder, x, arguments[0])

    return x(x), generate


@intrinsic
def sigmoid(context: Any, x: Any) -> Any:
    """σ(x) = 1 / (1 + e^-x)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one = _constant(x, 1)
        falling = _exp(builder, x, builder.fneg(arguments[0]))
        return builder.fdiv(one, builder.fadd(one, falling))

    return x(x), generate


@intrinsic
def tanh(context: Any, x: Any) -> Any:
    """tanh x: by e^2|x|, and by a series of x² where that would lose digits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (value,) = arguments
        one, two = _constant(x, 1), _constant(x, 2)
        size = _call(builder, x, "fabs", value)
        grown = _exp(builder, x, builder.fmul(two, size))
        large = builder.fsub(one, builder.fdiv(two, builder.fadd(grown, one)))
        large = _call(builder, x, "copysign", large, value)
        square = builder.fmul(value, value)
        coefficients = _TANH_SERIES[: _TANH_TERMS[x.element.bitwidth]]
        series = _constant(x, coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            series = _call(builder, x, "fma", series, square, _constant(x, coefficient))
        small = builder.fmul(value, series)
        edge = _constant(x, _TANH_EDGE)
        return _choose(builder, "<", size, edge, small, large)

    return x(x), generate


def _tanh_series(terms: int) -> list[float]:
    """The first coefficients of tanh(x)/x in powers of x², from tanh' = 1 - tanh²."""
    series: list[float] = [1.0]
    while len(series) < terms:
        order = len(series)
        product = sum(series[i] * series[order - 1 - i] for i in range(order))
        series.append(-product / (2 * order + 1))
    return series


_TANH_EDGE = 0.25  # above it 1 - 2/(e^2x + 1) loses two bits at most
_TANH_TERMS = {32: 6, 64: 15}
_TANH_SERIES = _tanh_series(15)


@intrinsic
def oneplus(context: Any, x: Any) -> Any:
    """1 + log(1 + e^x), without overflow."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, zero = _constant(x, 1), _constant(x, 0)
        size = _call(builder, x, "fabs", arguments[0])
        falling = _exp(builder, x, builder.fneg(size))
        soft = _log(builder, x, builder.fadd(one, falling))
        above = _choose(builder, "<", arguments[0], zero, zero, arguments[0])
        return builder.fadd(one, builder.fadd(above, soft))

    return x(x), generate
