"""`kiln serve` asked by the clients of the Open Inference Protocol themselves: Triton's and KServe's, in JSON and in binary form."""
import asyncio
import base64
import os
import sys

from platforms import ROOT, main

from flow import FlowTest
from serving import Server

CLIENTS = os.environ.get("KILN_SERVING_CLIENTS", str(ROOT / ".deps/serving"))


def use_serving_clients():
    if not os.path.isdir(CLIENTS):
        print(f"SKIPPED: {CLIENTS} is not there; environment/install.sh makes it from environment/wheels-serving.txt")
        sys.exit(77)
    sys.path.insert(0, CLIENTS)


use_serving_clients()
import numpy  # noqa: E402
import tritonclient.http as triton  # noqa: E402
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig  # noqa: E402


class ClientsTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.server = Server(self, "--trained-model-path", self.trained_model, "--max-batch", 1)
        self.photos = [path.read_bytes() for path in sorted((self.data / "val").rglob("*")) if path.is_file()]
        self.rows = [self.server.json("POST", "/predict", photo)[1] for photo in self.photos]
        self.classes = [name[len("probability_"):] for name in self.rows[0] if name.startswith("probability_")]

    def assert_answer(self, labels, probabilities):
        self.assertEqual(labels, [row["label"] for row in self.rows])
        expected = numpy.array([[row["probability_" + name] for name in self.classes] for row in self.rows], numpy.float32)
        numpy.testing.assert_array_equal(numpy.asarray(probabilities, numpy.float32).reshape(expected.shape), expected)

    def test_triton(self):
        client = triton.InferenceServerClient(f"127.0.0.1:{self.server.port}")
        self.addCleanup(client.close)
        self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("kiln"))
        self.assertEqual(client.get_server_metadata()["name"], "kiln")
        self.assertEqual(client.get_model_metadata("kiln")["inputs"][0]["datatype"], "UINT8")
        images = triton.InferInput("image", [len(self.photos)], "BYTES")
        images.set_data_from_numpy(numpy.array(self.photos, dtype=object), binary_data=True)
        answer = client.infer("kiln", [images])
        self.assert_answer([label.decode() for label in answer.as_numpy("label")], answer.as_numpy("probabilities"))
        texts = numpy.array([base64.b64encode(photo) for photo in self.photos], dtype=object)
        images.set_data_from_numpy(texts, binary_data=False)
        wanted = [triton.InferRequestedOutput(name, binary_data=False) for name in ("label", "probabilities")]
        answer = client.infer("kiln", [images], outputs=wanted, request_id="7")
        self.assertEqual(answer.get_response()["id"], "7")
        self.assert_answer([str(label) for label in answer.as_numpy("label")], answer.as_numpy("probabilities"))
        pixels = numpy.random.default_rng(1).integers(0, 256, (2, 40, 30, 3), numpy.uint8)
        answers = []
        for is_binary in (True, False):
            tensor = triton.InferInput("image", pixels.shape, "UINT8")
            tensor.set_data_from_numpy(pixels, binary_data=is_binary)
            answers.append(client.infer("kiln", [tensor]).as_numpy("probabilities"))
        numpy.testing.assert_array_equal(*answers)
        with self.assertRaises(triton.InferenceServerException):
            images.set_data_from_numpy(numpy.array([b"text"] * len(self.photos), dtype=object))
            client.infer("kiln", [images])

    def test_kserve(self):
        async def ask(is_binary):
            client = InferenceRESTClient(RESTConfig(protocol="v2", timeout=30))
            base = f"http://127.0.0.1:{self.server.port}"
            self.assertTrue(await client.is_server_live(base) and await client.is_server_ready(base))
            self.assertTrue(await client.is_model_ready(base, "kiln"))
            texts = self.photos if is_binary else [base64.b64encode(photo).decode() for photo in self.photos]
            images = InferInput("image", [len(texts)], "BYTES")
            images.set_data_from_numpy(numpy.array(texts, dtype=object), binary_data=is_binary)
            answer = await client.infer(base, InferRequest("kiln", [images]), model_name="kiln")
            outputs = {output.name: output for output in answer.outputs}
            return [str(label) for label in outputs["label"].data], outputs["probabilities"].data
        for is_binary in (False, True):
            with self.subTest(is_binary=is_binary):
                self.assert_answer(*asyncio.run(ask(is_binary)))


if __name__ == "__main__":
    main()
