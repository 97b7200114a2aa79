"""Kiln from Python: trains image classifiers, and asks them.

    import kiln_trainer as kiln

    run = kiln.train("photos", weights="torchvision", run_path="runs/a")
    answers = run.model.predict(["a.jpg", "b.jpg"])

The program `kiln` does all of it, in a process of its own: what goes wrong there is a kiln.Error here. Options are the
command line's, with underscores. docs/python.md has the rest."""
from __future__ import annotations

import ast
import concurrent.futures
import contextlib
import dataclasses
import html
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Union

__all__ = ["Error", "Model", "Prediction", "Run", "train"]

Path = Union[str, "os.PathLike[str]"]
Option = Union[None, bool, int, float, Path, "list[Any]", "tuple[Any, ...]"]

_CLIENTS, _SECONDS = 8, 600  # requests at a time, so that the server has batches; to start, and to answer


class Error(Exception):
    """What the program refused or could not do. `message` has all of it, `remedy` its last sentence: what to do."""

    def __init__(self, message: str, code: int, id: str, exit_code: int) -> None:
        super().__init__(message)
        self.message, self.code, self.id, self.exit_code = message, code, id, exit_code

    @property
    def remedy(self) -> str:
        return self.message.strip().rsplit("\n", 1)[-1].rsplit(". ", 1)[-1]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """A model's answer. `label` is None below a threshold (`min_confidence`, `answer_at`), where `guess` has the class; and for
    an image that cannot be used, where `fault` says why. Of several labels an image, `label` has them with ; between them."""
    label: str | None
    confidence: float | None
    probabilities: Mapping[str, float] = dataclasses.field(repr=False)
    guess: str | None = None
    fault: str | None = None


@dataclasses.dataclass(frozen=True)
class Run:
    """A training run that has ended; in a notebook it shows its report. `record` is what the model's training.json has."""
    model_path: pathlib.Path | None  # None: it was interrupted before there was a model
    log_path: pathlib.Path
    record: Mapping[str, Any] = dataclasses.field(repr=False)
    was_stopped: bool = False  # by an interrupt: the model is that of the best epoch until then

    @property
    def epochs(self) -> list[dict[str, Any]]:
        return list(self.record.get("epochs", ()))

    @property
    def model(self) -> Model:
        if self.model_path is None:
            raise Error("The run was stopped before it had a model. Train again.", 2000, "UserError", 1)
        return Model(self.model_path)

    @property
    def report(self) -> pathlib.Path:
        return self.log_path / "report.html"

    def _repr_html_(self) -> str:
        page = html.escape(self.report.read_text(encoding="utf-8"), quote=True)
        return f'<iframe srcdoc="{page}" sandbox="allow-scripts" style="width: 100%; height: 640px; border: 0"></iframe>'


def train(photos: Path, validation: Path | None = None, *, quiet: bool = False, **options: Option) -> Run:
    """Trains a model, as `kiln train PHOTOS [VALIDATION] --OPTION VALUE …` does; shows its lines as they come unless `quiet`.

    An interrupt ends the run as at a terminal: the best epoch is saved, if there is one, and the Run has `was_stopped`."""
    result, was_stopped = _run(["train", photos, *([] if validation is None else [validation]), "--json"], options, quiet)
    if was_stopped and result["model"] is None:
        raise KeyboardInterrupt
    model = None if result["model"] is None else pathlib.Path(result["model"]).absolute()
    return Run(model, pathlib.Path(result["logs"]).absolute(), result["training"] or {}, was_stopped)


class Model(contextlib.AbstractContextManager["Model"]):
    """A trained model in a folder. The first predict() starts a process that keeps it in memory until close(), the end of a
    `with`, or the end of Python. `options` are those of `kiln serve`: `device`, `min_confidence`, `answer_at`, …"""

    def __init__(self, path: Path, **options: Option) -> None:
        self.path = pathlib.Path(path)
        self._options = options
        self._server: _Server | None = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def predict(self, images: Path | bytes | Iterable[Any]) -> list[Prediction]:
        """The answers, in order; a path or bytes alone are one image. Images are paths, bytes of image files, Pillow's, or
        arrays of uint8, [height, width, 3] of RGB or [height, width] of gray."""
        self._server = server = self._server or _Server(self.path, self._options)
        with concurrent.futures.ThreadPoolExecutor(_CLIENTS) as clients:
            return list(clients.map(server.ask, [images] if isinstance(images, (str, bytes, os.PathLike)) else images))

    def evaluate(self, photos: Path, *, quiet: bool = True, **options: Option) -> dict[str, Any]:
        """What `kiln evaluate` finds: `top1`, … as in evaluation.json. Its page and tables stay only with `output_path`."""
        with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
            options = {"output_path": pathlib.Path(folder) / "evaluation", **options, "trained_model_path": self.path}
            return _run(["evaluate", photos, "--json"], options, quiet)[0]["models"][0]

    def embed(self, photos: Path | Iterable[Path], *, quiet: bool = True, **options: Option) -> list[list[float]]:
        """The features of images, by their paths, in order, as `kiln embed` writes them. NaN for one that cannot be used."""
        with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
            file = pathlib.Path(folder) / "features.npy"
            photos = [photos] if isinstance(photos, (str, os.PathLike)) else photos
            _run(["embed", *photos], {**options, "trained_model_path": self.path, "output_path": file}, quiet)
            text = file.read_bytes()
        end = 10 + int.from_bytes(text[8:10], "little")
        return memoryview(text)[end:].cast("f", ast.literal_eval(text[10:end].decode())["shape"]).tolist()

    def close(self) -> None:
        """Ends the process of predict(), if there is one; the next predict() starts another."""
        if self._server is not None:
            self._server.end()
        self._server = None


class _Server:
    """A `kiln serve` on a socket in a folder of its own. It ends with this process, whose pipe is its standard input."""

    def __init__(self, model: pathlib.Path, options: Mapping[str, Option]) -> None:
        usual = tempfile.gettempdir()  # the system limits the path of a socket to 107 bytes
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-", dir=usual if len(usual) < 80 else "/tmp"))
        self.socket = self.folder / "socket"
        words = ["serve", model, "--unix-socket", self.socket, "--max-body-mib", 1024, *_words(options)]
        with open(self.folder / "log", "wb") as log:
            self.process = _start(words, self.folder, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT)
        self.end = weakref.finalize(self, _end, self.process, self.folder)
        until = time.monotonic() + _SECONDS
        while not (self.folder / "log").read_bytes().count(b"serving:"):
            if self.process.poll() is not None or time.monotonic() > until:
                error = _error(self.process.poll() or 70, self.folder)
                self.end()
                raise error
            time.sleep(0.02)

    def ask(self, image: Any) -> Prediction:
        with socket.socket(socket.AF_UNIX) as place:
            place.settimeout(_SECONDS)
            place.connect(str(self.socket))
            connection = http.client.HTTPConnection("kiln")
            connection.sock = place
            connection.request("POST", "/predict", _bytes_of(image), {"Content-Type": "application/octet-stream"})
            response = connection.getresponse()
            answer = json.loads(response.read())
        if "error" in answer:
            raise Error(answer["error"], response.status, "ServerRefused", 1)
        shares = {name[12:]: one for name, one in answer.items() if name.startswith("probability_") and one is not None}
        return Prediction(answer.get("label"), answer.get("confidence"), shares, answer.get("guess"), answer.get("fault"))


def _end(process: subprocess.Popen[bytes], folder: pathlib.Path) -> None:
    with process:  # nothing is left to be done
        process.kill()
    shutil.rmtree(folder, ignore_errors=True)


def _bytes_of(image: Any) -> bytes:
    if isinstance(image, bytes):
        return image
    if isinstance(image, (str, os.PathLike)):
        return pathlib.Path(image).read_bytes()
    if hasattr(image, "convert"):  # of Pillow
        return b"P6 %d %d 255\n" % image.size + image.convert("RGB").tobytes()
    pixels = memoryview(image)
    if pixels.format != "B" or pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] != 3):
        raise TypeError("An array has uint8 pixels, [height, width, 3] or [height, width], but this one has "
                        f"{pixels.format!r} {list(pixels.shape or ())}.")
    return b"P%d %d %d 255\n" % (6 if pixels.ndim == 3 else 5, pixels.shape[1], pixels.shape[0]) + pixels.tobytes()


def _program() -> str:
    """KILN, or the program that was installed with this package, or that of PATH."""
    folders = [sysconfig.get_path("scripts"), str(pathlib.Path(sys.executable).parent),
               sysconfig.get_path("scripts", f"{os.name}_user"), str(pathlib.Path(__file__).parents[1] / "bin")]
    if found := os.environ.get("KILN") or shutil.which("kiln", path=os.pathsep.join(folders)) or shutil.which("kiln"):
        return found
    raise Error("The program kiln is not there. Install kiln-trainer, or put it into PATH.", 2000, "UserError", 1)


def _words(options: Mapping[str, Option]) -> list[str]:
    pairs = [(name, one) for name, value in options.items() for one in (value if isinstance(value, (list, tuple)) else [value])]
    return [word for name, one in pairs if one is not None for word in ("--" + name.replace("_", "-"), str(one))]


def _start(words: Iterable[Any], folder: pathlib.Path, **streams: Any) -> subprocess.Popen[bytes]:
    """Starts the program in a session of its own, where no interrupt reaches it but ours."""
    settings = {**os.environ, "KILN_ERROR_INFO": str(folder / "error.json")}
    return subprocess.Popen([_program(), *map(str, words)], env=settings, start_new_session=True, **streams)


def _error(exit_code: int, folder: pathlib.Path) -> Error:
    try:
        told = json.loads((folder / "error.json").read_text(encoding="utf-8"))["Exception"]
        return Error(told["Message"].split(told["ErrorId"] + ": ", 1)[-1], told["ErrorCode"], told["ErrorId"], exit_code)
    except (OSError, ValueError, TypeError, KeyError):
        return Error(f"kiln ended with exit code {exit_code} and no report.", 1000, "InternalError", exit_code)


def _run(words: list[Any], options: Mapping[str, Option], quiet: bool) -> tuple[dict[str, Any], bool]:
    """The object that a command prints with --json, if it does, and whether it was interrupted. Shows its lines as they come."""
    was_stopped = False
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder, tempfile.TemporaryFile() as result, \
            _start([*words, *_words(options)], pathlib.Path(folder), stdin=subprocess.DEVNULL, stdout=result,
                   stderr=subprocess.PIPE) as process:
        while process.returncode is None:
            try:
                for line in process.stderr or ():
                    if not quiet:
                        print(line.decode(errors="replace"), end="", flush=True)
                process.wait()
            except KeyboardInterrupt:
                process.send_signal(signal.SIGKILL if was_stopped else signal.SIGINT)
                was_stopped = True
            except BaseException:
                process.kill()
                raise
        result.seek(0)
        text = result.read() if "--json" in words else b"" if process.returncode else b"{}"
        if text:
            return json.loads(text), was_stopped
        raise KeyboardInterrupt if was_stopped else _error(process.returncode, pathlib.Path(folder))
