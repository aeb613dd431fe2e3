"""Makes the golden ONNX models with the `onnx` package and their outputs with `onnxruntime`.

python -m venv venv && venv/bin/pip install onnx==1.23.2 onnxruntime==1.31.1 numpy && venv/bin/python make.py
"""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(0)


def save(name, graph, inputs, functions=(), opsets=()):
    opset = [helper.make_opsetid("", 17), *opsets]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9, functions=list(functions), producer_name="melisma")
    model.metadata_props.add(key="kind", value="golden")
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, f"{name}.onnx")
    session = onnxruntime.InferenceSession(f"{name}.onnx")
    for key, value in inputs.items():
        np.save(f"{name}.{key}.npy", value)
    for output, value in zip(session.get_outputs(), session.run(None, inputs)):
        np.save(f"{name}.{output.name}.npy", value)


def weights(name, *shape):
    return numpy_helper.from_array((rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32), name)


def vocoder():
    """A decoder block in small: convolution, Snake as exporters write it, transposed convolution, tanh."""
    alpha = numpy_helper.from_array(np.array([0.7, 1.1, 1.9, 3.0], np.float32).reshape(1, 4, 1), "alpha")
    typed = helper.make_tensor("tiny", TensorProto.FLOAT, [1], [1e-9])
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], kernel_shape=[7], pads=[3, 3]),
        helper.make_node("Mul", ["alpha", "c"], ["ac"]),
        helper.make_node("Sin", ["ac"], ["s"]),
        helper.make_node("Pow", ["s", "two"], ["s2"]),
        helper.make_node("Add", ["alpha", "tiny"], ["a1"]),
        helper.make_node("Reciprocal", ["a1"], ["ra"]),
        helper.make_node("Mul", ["ra", "s2"], ["m"]),
        helper.make_node("Add", ["c", "m"], ["n"]),
        helper.make_node("ConvTranspose", ["n", "w2", "b2"], ["u"], kernel_shape=[4], strides=[2], pads=[1, 1]),
        helper.make_node("Tanh", ["u"], ["y"]),
    ]
    values = [alpha, typed, helper.make_tensor("two", TensorProto.FLOAT, [], [2.0])]
    values += [weights("w1", 4, 3, 7), weights("b1", 4), weights("w2", 4, 2, 4), weights("b2", 2)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, "time"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, "samples"])
    save("vocoder", helper.make_graph(nodes, "vocoder", [x], [y], values), {"x": rng.standard_normal((1, 3, 50)).astype(np.float32)})


def control():
    """Graphs in a graph that read names from around them, typed integers, texts, and values nobody wants."""
    wide = helper.make_tensor_value_info("out", TensorProto.FLOAT, [2, 3])
    then = helper.make_graph([helper.make_node("Mul", ["x", "scale"], ["out"])], "then", [], [wide])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["out"])], "other", [], [wide])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["is_positive"]),
        helper.make_node("If", ["is_positive"], ["chosen"], then_branch=then, else_branch=other),
        helper.make_node("Slice", ["chosen", "starts", "ends", "axes"], ["cut"]),
        helper.make_node("Dropout", ["cut"], ["y", ""]),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "first"], ["rows"], axis=0),
    ]
    values = [
        helper.make_tensor("scale", TensorProto.FLOAT, [1], [2.5]),
        helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0]),
        helper.make_tensor("starts", TensorProto.INT64, [1], [1]),
        helper.make_tensor("ends", TensorProto.INT64, [1], [2**63 - 1]),
        helper.make_tensor("axes", TensorProto.INT64, [1], [1]),
        helper.make_tensor("first", TensorProto.INT32, [1], [0]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])
    rows = helper.make_tensor_value_info("rows", TensorProto.INT64, [1])
    inputs = {"x": np.array([[1, 2, 3], [4, 5, 6]], np.float32)}
    save("control", helper.make_graph(nodes, "control", [x], [y, rows], values), inputs)


vocoder()
control()
