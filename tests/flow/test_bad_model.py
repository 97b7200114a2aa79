"""Untrained models that are not what they should be. Their files may come from anyone: nothing in them is executed, and
nothing makes the program take more memory than the file is large."""
import html
import io
import json
import os
import pickle
import resource
import shutil
import zipfile

from flow import FlowTest, kiln, main
from weight_files import Tensor, write_zip


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

    def test_missing_and_empty_folder(self):
        (self.folder / "empty").mkdir()
        for folder in ("nowhere", "empty"):
            with self.subTest(folder=folder):
                self.assert_fails(self.train(untrained_model_path=self.folder / folder), 1, 2000, folder)

    def test_wrong_kinds_of_directory(self):
        self.assert_fails(self.train(untrained_model_path=self.image_directory()), 1, 159, "'ImageDirectory'")
        self.assert_fails(self.train(untrained_model_path=self.data / "train"), 1, 159, "has no _meta.yaml")
        self.assert_fails(self.train(untrained_model_path=self.untrained / "model"), 1, 2000, "is a file, not a folder")

    def test_a_trained_model_trains_from_fresh_weights_and_says_so(self):
        made = []
        for given in ("untrained", "first", "first"):
            source = self.untrained if given == "untrained" else self.folder / given
            target = self.folder / ("first" if given == "untrained" else f"again{len(made)}")
            logs = target.with_name(target.name + "-logs")
            ranks = {"ranks": 2, "batch_size": 4} if len(made) == 2 else {}
            result = self.train(untrained_model_path=source, trained_model_path=target, log_path=logs, **ranks)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            warning = f"'{source}' is a trained model: its weights are ignored"
            told = given == "first"
            self.assertEqual(result.stdout.count(f"warning: {warning}"), told)
            events = [json.loads(line) for line in (logs / "metrics.jsonl").read_text().splitlines()]
            warnings = [event["text"] for event in events if event["event"] == "warning"]
            self.assertEqual(sum(text.startswith(warning) for text in warnings), told)
            if told:
                self.assertLess(result.stdout.index(warning), result.stdout.index("plan:  "))
                page = html.unescape((logs / "report.html").read_text())
                self.assertIn(warning, page[:page.index("</body>")])
            made.append((target / "model").read_bytes())
        self.assertEqual(made[0], made[1])

    def test_a_trained_model_with_damaged_preprocessing(self):
        self.assertEqual(self.train(trained_model_path=self.folder / "trained").returncode, 0)
        path = self.folder / "trained/preprocessing.json"
        whole = json.loads(path.read_text())
        for content, word in [("", "not valid JSON"), (json.dumps({**whole, "version": 9}), "version is 9"),
                              (json.dumps({**whole, "input_size": [0, 32]}), "'input_size' is [0,32]"),
                              (json.dumps({**whole, "std": [1, 1, 1]}), "a different mean or std")]:
            with self.subTest(word=word):
                path.write_text(content)
                self.assert_fails(self.train(untrained_model_path=self.folder / "trained"), 1, 159, path, word)

    def test_what_may_not_be_read(self):
        for name, code in [(".", 2000), ("_meta.yaml", 159), ("model_spec.yaml", 159), ("model", 159)]:
            with self.subTest(name=name):
                closed = self.spoiled("model", lambda data: data) / name
                closed.chmod(0)
                result = self.train_bound_by_permissions(untrained_model_path=self.folder / "untrained")
                closed.chmod(0o755)
                self.assert_fails(result, 1, code, "Permission denied", self.folder / "untrained")

    def test_missing_parts(self):
        for name in ("_meta.yaml", "model_spec.yaml", "model"):
            with self.subTest(name=name):
                folder = self.spoiled("model", lambda data: data)
                (folder / name).unlink()
                self.assert_fails(self.train(untrained_model_path=folder), 1, 159, name)

    def test_model_files_cut_off(self):
        whole = (self.untrained / "model").read_bytes()
        for part in range(20):
            with self.subTest(part=part):
                self.assert_refused_as_model(whole[:len(whole) * part // 20])
        self.assert_refused_as_model(whole[:-8], "truncated or damaged")

    def test_model_files_of_other_kinds(self):
        whole = (self.untrained / "model").read_bytes()
        for content, word in [
                (b"GGUF" + whole[4:], "begins neither like"), (b"", "it is empty"), (b"<!DOCTYPE html>" * 100, "begins neither"),
                (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
                (zipped(b"", name="word/document.xml"), "without data.pkl"),
                (whole[:len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 255]) + whole[len(whole) // 2 + 1:], "checksum")]:
            with self.subTest(word=word):
                self.assert_refused_as_model(content, word)

    def test_tensors_beyond_their_data(self):
        for shape in [(1000,), (1 << 40,), (1 << 31, 1 << 31), (1 << 62, 1 << 62)]:
            with self.subTest(shape=shape):
                path = self.folder / "hostile"
                write_zip(path, {"model.conv1.weight": Tensor("Float", shape, bytes(16))})
                self.assert_refused_as_model(path.read_bytes(), "'model.conv1.weight' reaches beyond its data")
        write_zip(path, {"model.conv1.weight": Tensor("Float", (2, -2), bytes(16))})
        self.assert_refused_as_model(path.read_bytes(), "negative")

    def test_pickles_that_are_no_state_dict(self):
        mark = self.folder / "executed"
        for protocol in (2, 4):
            with self.subTest(protocol=protocol):
                self.assert_refused_as_model(zipped(pickle.dumps({"a": Command(f"touch {mark}")}, protocol)),
                                             "'posix.system'")
        self.assertFalse(mark.exists())
        for pickled, word in [
                (b"\x80\x02\xff.", "0xff"), (b"\x80\x02}\x81.", "NEWOBJ"), (b"\x80\x02I1\n.", "INT"),
                (b"\x80\x02" + b"(" * 2_000_000, "too deep"), (b"\x80\x02" + b"]" * 2_000_000, "more than 1000000 values"),
                (b"\x80\x02}j\xff\xff\xff\x7f.", "memo"), (b"\x80\x02}r\xff\xff\xff\x7f.", "memo"),
                (b"\x80\x02X\xff\xff\xff\xffa.", ""), (b"\x80\x02}", ""), (b"\x80\x09}.", "protocol 9"),
                (pickle.dumps([1, 2], 2), "a list, not a state dict"), (pickle.dumps({"a": 1}, 2), "'a' is an integer")]:
            with self.subTest(pickled=pickled[:20]):
                self.assert_refused_as_model(zipped(pickled), word)

    def test_zip_bomb(self):
        self.assert_refused_as_model(zipped(bytes(200 << 20), zipfile.ZIP_DEFLATED), "compressed")
        bomb = zipped(b"\x80\x02}.")
        end = bomb.rindex(b"PK\x05\x06")  # the sizes of the entry, in the directory of the zip, become 4 GB
        start = bomb.index(b"PK\x01\x02")
        grown = bomb[:start + 20] + b"\xfe\xff\xff\xff" * 2 + bomb[start + 28:end] + bomb[end:]
        self.assert_refused_as_model(grown, "model/data.pkl")

    def test_specs_of_unknown_networks(self):
        for old, new, word in [
                (b"resnet18", b"resnet19", "resnet19"), (b"class: ResNet", b"class: Transformer", "Transformer"),
                (b"class: ResNet", b"class: DenseNet", "not a known DenseNet"), (b"model_file", b"mode", "model_file"),
                (b"model_file: model", b"model_file: ../model", "a path"), (b"model_name: resnet18", b"model_name: [1]",
                                                                            "model_name"),
                (b"name: pytorch", b"name: tensorflow", "tensorflow"), (b"state_dict", b"pickle", "serialization_method"),
                (b"init_params:", b"parameters:", "init_params"), (b"pretrained: false", b"trained: false", "pretrained")]:
            with self.subTest(new=new):
                folder = self.spoiled("model_spec.yaml", lambda text: text.replace(old, new))
                self.assert_fails(self.train(untrained_model_path=folder), 1, 159, "model_spec.yaml", word)

    def test_specs_with_unknown_parameters(self):
        for line, word in [
                ("layers: [2, 2, 2, 2]", "no parameter 'layers'"), ("layers: [-1, 2000000000]", "'layers'"),
                ("growth_rate: many", "no parameter 'growth_rate'"), ("width_per_group: -64", "'width_per_group'"),
                ("memory_efficient: true", "no parameter 'memory_efficient'"), ("? [1]\n    : 2", "not a string"),
                ("num_classes: -1", "'num_classes' is not"), ("num_classes: 0", "'num_classes' is not"),
                ("num_classes: many", "'num_classes' is not"), ("num_classes: 1e30", "'num_classes' is not"),
                ("num_classes: 99999999999999999999", "'num_classes' is not"), ("num_classes: 1000001", "'num_classes' is not"),
                ("zero_init_residual: maybe", "neither true nor false")]:
            with self.subTest(line=line):
                old, new = b"    zero_init_residual: false", b"    " + line.encode()
                folder = self.spoiled("model_spec.yaml", lambda text: text.replace(old, new))
                self.assert_fails(self.train(untrained_model_path=folder), 1, 159, "model_spec.yaml", word)

    def test_specs_that_are_no_yaml(self):
        for name in ("model_spec.yaml", "_meta.yaml"):
            for content in (b"", b"[1, 2]", b"a: [", b"\0\xff\xfe", b"[" * 60000, b"a" * 70000, b"a: &a [*a, *a]"):
                with self.subTest(name=name, content=content[:10]):
                    folder = self.spoiled(name, lambda _: content)
                    self.assert_fails(self.train(untrained_model_path=folder), 1, 159, name)


if __name__ == "__main__":
    main()
