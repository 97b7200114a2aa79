"""What a Python user would run instead of `kiln serve`: FastAPI, Pillow and torchvision. serve_fastapi.py MODEL PORT THREADS"""
import io
import pathlib
import sys

import fastapi
import torch
import uvicorn
from PIL import Image
from score_torchvision import labels_of, load_network, preprocessing_of, transform_of

folder, port, threads = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(threads)
network, labels = load_network(folder), labels_of(folder)
prepare = transform_of(preprocessing_of(folder))
app = fastapi.FastAPI()


# Not async, so it runs in FastAPI's pool of threads; the image is read there too.
@app.post("/predict")
def predict(body: bytes = fastapi.Body(media_type="application/octet-stream")):
    image = prepare(Image.open(io.BytesIO(body)).convert("RGB"))
    with torch.inference_mode():
        probabilities = network(image[None]).softmax(1)[0].tolist()
    best = max(range(len(labels)), key=probabilities.__getitem__)
    return {"label": labels[best], "confidence": probabilities[best], **{"probability_" + k: v for k, v in zip(labels, probabilities)}}


uvicorn.run(app, port=port, log_level="error")
