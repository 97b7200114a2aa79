"""score_torchvision.py with ONNX Runtime's forward pass: takes the same arguments, and --network FILE.

FILE is MODEL as ONNX; it is exported where there is none.
"""
import pathlib

import onnxruntime
import torch

from score_torchvision import load_network, preprocessing_of, run


def export(model, path):
    images = torch.zeros(2, 3, *preprocessing_of(model)["input_size"])
    torch.onnx.export(load_network(model), (images,), path, input_names=["images"], output_names=["logits"],
                      dynamic_shapes=({0: "batch"},), dynamo=True, external_data=False, verbose=False)


def onnx_forward(args):
    if not args.network.exists():
        export(args.model, args.network)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    session = onnxruntime.InferenceSession(args.network, options, providers=["CPUExecutionProvider"])
    return lambda images: torch.from_numpy(session.run(None, {"images": images.numpy()})[0])


if __name__ == "__main__":
    run(lambda parser: parser.add_argument("--network", type=pathlib.Path, required=True), onnx_forward)
