"""Untrained models that are not what they should be. Their files may come from anyone: nothing in them is executed, and
nothing makes the program take more memory than the file is large.

A run for each code, and for what hostile files try; their many faults are in tests/store/."""
import io
import os
import pickle
import resource
import shutil
import zipfile

from flow import FlowTest, kiln, main


class Command:
    """Pickles as a call of os.system."""

    def __init__(self, text):
        self.text = text

    def __reduce__(self):
        return os.system, (self.text,)


def zipped(pickled, method=zipfile.ZIP_STORED, name="model/data.pkl"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr(name, pickled)
    return file.getvalue()


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))


class ModelTest(FlowTest):
    def spoiled(self, name, change):
        """A copy of the untrained model with a changed file."""
        folder = self.folder / "untrained"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.untrained, folder)
        path = folder / name
        path.write_bytes(change(path.read_bytes()))
        return folder

    def assert_refused_as_model(self, content, *words):
        folder = self.spoiled("model", lambda _: content)
        result = kiln(*self.train_arguments(untrained_model_path=folder), preexec=limit_memory)
        self.assert_fails(result, 1, 159, folder / "model", *words)

    def test_wrong_kinds_of_directory(self):
        self.assert_fails(self.train(untrained_model_path=self.folder / "nowhere"), 1, 2000, "nowhere")
        self.assert_fails(self.train(untrained_model_path=self.data / "train"), 1, 159, self.data / "train")

    def test_what_may_not_be_read(self):
        for name, code in [(".", 2000), ("model", 159)]:
            with self.subTest(name=name):
                closed = self.spoiled("model", lambda data: data) / name
                closed.chmod(0)
                result = self.train_bound_by_permissions(untrained_model_path=self.folder / "untrained")
                closed.chmod(0o755)
                self.assert_fails(result, 1, code, "Permission denied", self.folder / "untrained")

    def test_a_model_file_that_is_cut_off(self):
        self.assert_refused_as_model((self.untrained / "model").read_bytes()[:-8], "truncated or damaged")

    def test_a_pickle_with_a_command(self):
        mark = self.folder / "executed"
        self.assert_refused_as_model(zipped(pickle.dumps({"a": Command(f"touch {mark}")}, 2)), "'posix.system'")
        self.assertFalse(mark.exists())

    def test_zip_bomb(self):
        self.assert_refused_as_model(zipped(bytes(200 << 20), zipfile.ZIP_DEFLATED), "compressed")

    def test_a_spec_of_an_unknown_network(self):
        folder = self.spoiled("model_spec.yaml", lambda text: text.replace(b"resnet18", b"resnet19"))
        self.assert_fails(self.train(untrained_model_path=folder), 1, 159, "model_spec.yaml", "resnet19")


if __name__ == "__main__":
    main()
