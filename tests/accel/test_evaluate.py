"""Values: storages, views, what was written; and whole programs."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import KernelError, UserError
from accel.program import Builder, Engine, Kind, Layout, Memory, Storage
from accel.sim.evaluate import Values, evaluate
from tests.accel.programs import form, hbm, layout, psum, run

A = np.arange(128 * 8, dtype=np.float32).reshape(128, 8)


def tiles(*shapes, dtype="float32", memory=Memory.SBUF):
    """Values with unwritten tiles 0, 1, … of these shapes."""
    values = Values()
    for number, shape in enumerate(shapes):
        values.allocate(number, Storage(f"t{number}", memory, dtype, shape))
    return values


def part(partitions, *pattern, dtype="float32", memory=Memory.SBUF):
    return Layout(memory, dtype, partitions, pattern)


def test_an_operand_is_a_view_at_its_offset_and_steps():
    values = tiles((128, 8), (128, 8))
    values.array(0)[...] = A
    quarter = form("tensor_copy", dst=part(32, (8, 2)), src=part(32, (4, 2)))
    values.execute(quarter, [(1, 64 * 32 + 4), (0, 32 * 32 + 8)])

    assert (values.array(1)[64:96, 1:5:2] == A[32:64, 2:4]).all()
    assert np.isnan(values.array(1)[64:96, 2]).all()


def test_a_step_of_zero_repeats_and_a_negative_step_runs_backwards():
    values = tiles((4, 3), (4, 6))
    values.array(0)[...] = A[:4, :3]
    repeat = form("tensor_copy", dst=part(4, (12, 2), (4, 3)), src=part(4, (0, 2), (4, 3)))
    values.execute(repeat, [(1, 0), (0, 0)])
    backwards = form("tensor_copy", dst=part(4, (4, 3)), src=part(4, (-4, 3)))
    values.execute(backwards, [(0, 0), (1, 8)])

    assert (values.array(1) == np.tile(A[:4, :3], 2)).all()
    assert (values.array(0) == A[:4, 2::-1]).all()


def test_an_instruction_may_write_over_its_own_operands():
    values = tiles((128, 8))
    values.array(0)[...] = A
    square = form("activation", attributes={"func": "square"}, dst=(128, 8), data=(128, 8))
    shift = form("tensor_copy", dst=part(128, (4, 7)), src=part(128, (4, 7)))
    values.execute(square, [(0, 0), (0, 0)])
    values.execute(shift, [(0, 4), (0, 0)])

    assert (values.array(0)[:, 1:] == (A**2)[:, :7]).all()


def test_an_operand_outside_its_storage_is_an_error_that_names_it():
    values = tiles((4, 8))
    fill = form("memset", attributes={"value": 1.0}, dst=(4, 8))

    with pytest.raises(KernelError, match=r"dst \(4, 8\) from byte 4 on ends outside t0"):
        values.execute(fill, [(0, 4)], "k.py:2")


def test_reads_of_elements_never_written_are_counted_with_the_first_index():
    values = tiles((4, 8), (4, 8))
    fill = form("memset", attributes={"value": 1.0}, dst=part(4, (4, 6)))
    copy = form("tensor_copy", dst=(4, 8), src=(4, 8))
    values.execute(fill, [(0, 0)], "k.py:1")
    for _ in range(2):
        values.execute(copy, [(1, 0), (0, 0)], "k.py:2")

    (finding,) = values.uninitialised
    assert (finding.storage, finding.place, finding.op) == ("t0", "k.py:2", "tensor_copy")
    assert (finding.operand, finding.first, finding.count) == ("src", (0, 6), 16)
    assert "reads 16 elements of t0 never written, first at [0, 6] (k.py:2)" in str(finding)
    assert np.isnan(values.array(1)[:, 6:]).all()


def test_a_tile_written_in_pieces_and_as_other_dtypes_counts_as_written():
    values = tiles((4, 8), (4, 8))
    half = form("memset", attributes={"value": 0}, dst=part(4, (4, 8), dtype="uint16"))
    values.execute(half, [(0, 0)])
    values.execute(half, [(0, 2)])
    copy = form("tensor_copy", dst=(4, 8), src=(4, 8))
    values.execute(copy, [(1, 0), (0, 0)])

    assert values.uninitialised == ()
    assert (values.array(1) == 0).all()


def test_bytes_never_written_are_seen_through_an_8_bit_view():
    values = tiles((4, 8), (4, 32), dtype="uint8")
    byte = form("memset", attributes={"value": 7}, dst=part(4, (4, 2), dtype="uint8"))
    values.execute(byte, [(0, 0)])
    all_bytes = part(4, (1, 8), dtype="uint8")
    values.execute(form("tensor_copy", dst=all_bytes, src=all_bytes), [(1, 0), (0, 0)])

    assert [f.count for f in values.uninitialised] == [4 * 6]


def test_a_predicated_copy_marks_only_what_it_wrote():
    mask = np.zeros((4, 8), np.uint8)
    mask[:, 3] = 1
    _, values = run("tensor_copy_predicated", dst=layout((4, 8)), src=A[:4], predicate=mask)
    values.allocate(9, Storage("out", Memory.SBUF, "float32", (4, 8)))
    values.execute(form("tensor_copy", dst=(4, 8), src=(4, 8)), [(9, 0), (0, 0)])

    assert [f.count for f in values.uninitialised] == [4 * 7]


def matmul_into(values, accumulate, place="k.py:1", columns=8):
    product = form(
        "nc_matmul",
        attributes={"accumulate": accumulate},
        dst=part(8, (4, columns), memory=Memory.PSUM),
        stationary=(8, 8),
        moving=part(8, (4, columns)),
    )
    values.execute(product, [(0, 0), (1, 0), (2, 0)], place)


def psum_values():
    values = Values()
    values.allocate(0, Storage("acc", Memory.PSUM, "float32", (8, 8)))
    for number in (1, 2):
        values.allocate(
            number, Storage("eye", Memory.SBUF, "float32", (8, 8)), np.eye(8, dtype="f")
        )
    return values


def test_an_automatic_accumulation_overwrites_only_what_was_never_written():
    values = psum_values()
    matmul_into(values, "auto", columns=4)
    matmul_into(values, "auto")

    wanted = np.diag([2, 2, 2, 2, 1, 1, 1, 1])
    assert (values.array(0) == wanted).all()
    assert values.uninitialised == ()


def test_an_explicit_accumulation_onto_nothing_is_reported():
    values = psum_values()
    matmul_into(values, "true", "k.py:5")

    (finding,) = values.uninitialised
    assert (finding.storage, finding.count, finding.place) == ("acc", 64, "k.py:5")


def test_releasing_a_storage_forgets_its_values():
    values = tiles((4, 8))
    values.execute(form("memset", attributes={"value": 1.0}, dst=(4, 8)), [(0, 0)])
    values.release(0)

    assert np.isnan(values.array(0)).all()


def test_accumulator_registers_carry_sums_from_one_activation_to_the_next():
    values = tiles((128, 8), (128, 8), (128, 1))
    values.array(0)[...] = A

    def step(command, *extra):
        attributes = {"func": "copy", "reduce_cmd": command, "reduce_op": "add"}
        named = {"reduce_res": (128, 1)} if extra else {}
        built = form("activation", attributes=attributes, dst=(128, 8), data=(128, 8), **named)
        values.execute(built, [(1, 0), (0, 0), *extra])

    values.array(0)
    values.execute(form("memset", attributes={"value": 1.0}, dst=(128, 8)), [(0, 0)])
    step("reset_reduce")
    step("reduce")
    step("reduce", (2, 0))
    assert (values.array(2) == 24).all()


def vector_steps(op, attributes, command_names, **shapes):
    """Runs one accumulating vector instruction a command over the same data; reduce_res at last."""
    values = Values()
    for number, (role, shape) in enumerate(shapes.items()):
        given = A if role in {"data", "on_true", "src"} else None
        given = np.ones((128, 8), np.uint8) if role == "predicate" else given
        dtype = "uint8" if role == "predicate" else "float32"
        values.allocate(number, Storage(role, Memory.SBUF, dtype, shape), given)
    layouts = {
        role: layout(shape, "uint8" if role == "predicate" else "float32")
        for role, shape in shapes.items()
    }
    for command, extra in command_names:
        built = form(op, attributes=attributes | {"reduce_cmd": command} | extra, **layouts)
        values.execute(built, [(number, 0) for number in range(len(shapes))])
    return {role: values.array(number) for number, role in enumerate(shapes)}


def test_vector_accumulators_continue_reset_and_load():
    shapes = {"dst": (128, 8), "reduce_res": (128, 1), "data": (128, 8)}
    attributes = {"op0": "bypass", "reduce_op": "add"}
    sums = A.sum(axis=1, keepdims=True)

    for commands, wanted in (
        ([("reset_reduce", {}), ("reduce", {})], 2 * sums),
        ([("reset_reduce", {}), ("reset_reduce", {})], sums),
        ([("load_reduce", {"reduce_init": 5.0})], sums + 5),
        ([("reset_reduce", {"reduce_res_negate": True})], -sums),
    ):
        got = vector_steps("tensor_scalar_reduce", attributes, commands, **shapes)
        np.testing.assert_array_equal(got["reduce_res"], wanted)


def test_select_maxima_continue_over_instructions():
    shapes = {
        "dst": (128, 8),
        "predicate": (128, 8),
        "on_true": (128, 8),
        "reduce_res": (128, 1),
    }
    first = ("reset_reduce", {"on_false": 5000.0, "reverse_pred": True})
    got = vector_steps("select", {"on_false": 0.0}, [first, ("reduce", {})], **shapes)

    assert (got["reduce_res"] == 5000).all()


def test_a_cumulative_operation_continues_from_the_accumulators():
    shapes = {"dst": (128, 8), "src": (128, 8)}
    attributes = {"op0": "bypass", "op1": "add"}
    twice = [("reset_reduce", {}), ("reduce", {})]
    got = vector_steps("tensor_scalar_cumulative", attributes, twice, **shapes)

    np.testing.assert_array_equal(got["dst"], np.cumsum(A, axis=1) + A.sum(axis=1, keepdims=True))


def test_each_partition_has_accumulators_of_its_own():
    values = tiles((128, 8), (128, 8), (128, 1))
    values.array(0)[...] = A
    shapes = {"dst": (64, 8), "data": (64, 8), "reduce_res": (64, 1)}
    steps = [
        form("activation", attributes={"func": "copy", "reduce_cmd": command}, **shapes)
        for command in ("reset_reduce", "reduce")
    ]
    upper = [(1, 0), (0, 0), (2, 0)]
    lower = [(1, 64 * 32), (0, 64 * 32), (2, 64 * 4)]
    for step, operands in ((0, upper), (0, lower), (1, upper)):
        values.execute(steps[step], operands)

    sums = A.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(values.array(2), np.concatenate([2 * sums[:64], sums[64:]]))


def test_writing_the_same_bytes_twice_does_not_fill_a_storage():
    values = tiles((1, 8), (1, 8))
    overlapping = part(1, (4, 2), (4, 4))
    values.execute(form("memset", attributes={"value": 1.0}, dst=overlapping), [(0, 0)])
    values.execute(form("tensor_copy", dst=(1, 8), src=(1, 8)), [(1, 0), (0, 0)])

    assert [f.count for f in values.uninitialised] == [3]


def test_a_predicated_write_marks_every_byte_of_its_elements():
    mask = np.ones((4, 8), np.uint8)
    _, values = run("tensor_copy_predicated", dst=layout((4, 8)), src=A[:4], predicate=mask)
    values.allocate(9, Storage("bytes", Memory.SBUF, "uint8", (4, 32)))
    whole = layout((4, 32), "uint8")
    values.execute(form("tensor_copy", dst=whole, src=whole), [(9, 0), (0, 0)])

    assert values.uninitialised == ()


def test_a_storage_takes_only_its_own_shape_and_dtype():
    values = Values()
    storage = Storage("x", Memory.HBM, "bfloat16", (4, 8), Kind.INPUT)

    with pytest.raises(UserError, match=r"x has shape \(4, 4\), must be \(4, 8\)"):
        values.allocate(0, storage, np.zeros((4, 4), ml_dtypes.bfloat16))
    with pytest.raises(UserError, match="x has dtype float32, must be bfloat16"):
        values.allocate(0, storage, np.zeros((4, 8), np.float32))


def add_program(times=1):
    """y = x + times, tile by tile of 32 rows, in place."""
    builder = Builder("add", "gen3")
    line = builder.intern_source("k.py", 1)
    x = builder.add_storage(Storage("x", Memory.HBM, "float32", (64, 8), Kind.INPUT))
    y = builder.add_storage(Storage("y", Memory.HBM, "float32", (64, 8), Kind.OUTPUT))
    load = builder.intern_form(form("dma_copy", dst=(32, 8), src=hbm((32, 8))))
    store = builder.intern_form(form("dma_copy", dst=hbm((32, 8)), src=(32, 8)))
    plus = {"op0": "add", "operand0": 1.0}
    add = builder.intern_form(form("tensor_scalar", attributes=plus, dst=(32, 8), data=(32, 8)))
    for row in (0, 32):
        tile = builder.add_storage(Storage(f"t{row}", Memory.SBUF, "float32", (32, 8)))
        builder.emit(load, ((tile, 0), (x, row * 32)), line)
        for _ in range(times):
            builder.emit(add, ((tile, 0), (tile, 0)), line)
        builder.emit(store, ((y, row * 32), (tile, 0)), line)
    return builder.build()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 5))
def test_a_program_computes_its_outputs_and_leaves_its_inputs_alone(times):
    x = A[:64].copy()
    result = evaluate(add_program(times), {"x": x})

    assert (result.outputs["y"] == A[:64] + times).all()
    assert (x == A[:64]).all()
    assert result.uninitialised == ()


def test_an_output_that_was_not_written_is_nan_and_the_same_every_time():
    builder = Builder("nothing", "gen3")
    builder.add_storage(Storage("y", Memory.HBM, "float32", (2, 2), Kind.OUTPUT))
    first, second = (evaluate(builder.build(), {}).outputs["y"] for _ in range(2))

    assert np.isnan(first).all()
    assert first.tobytes() == second.tobytes()


def test_missing_and_unknown_inputs_are_named():
    with pytest.raises(UserError, match="add: missing 'x'"):
        evaluate(add_program(), {})
    with pytest.raises(UserError, match="add: no input named 'z'") as caught:
        evaluate(add_program(), {"x": A[:64], "z": A})
    assert caught.value.hint == "its inputs are: x"


def test_evaluation_does_not_keep_dead_tiles(monkeypatch):
    released = []
    original = Values.release
    monkeypatch.setattr(Values, "release", lambda self, n: (released.append(n), original(self, n)))
    evaluate(add_program(), {"x": A[:64]})

    assert released == [2, 3]


def test_the_engine_asked_for_decides_between_exact_and_rounded_integers():
    large = np.full((1, 1), 2**25 + 1, np.int32)
    operands = {"dst": layout((1, 1), "int32"), "data1": large, "data2": np.ones((1, 1), np.int32)}

    for engine, wanted in ((Engine.GPSIMD, 2**25 + 2), (Engine.VECTOR, 2**25)):
        got = run("tensor_tensor", {"op": "add"}, engine, **operands)[0]["dst"]
        assert got.tolist() == [[wanted]]


def test_psum_tiles_hold_16_bit_transposes():
    data = A[:16].astype(ml_dtypes.bfloat16)
    got = run("nc_transpose", dst=psum((8, 16), "bfloat16"), data=data)[0]["dst"]

    assert (got == data.T).all()
