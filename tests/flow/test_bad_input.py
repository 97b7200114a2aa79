"""Everything a user can get wrong: one clear sentence, the right exit code and error number, nothing half-written."""
import os
import shutil
import struct
import subprocess
import zlib

from flow import FlowTest, kiln, main


def huge_png():
    """A valid header that promises 30000x30000 pixels."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 30000, 30000, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b""))


class CommandLineTest(FlowTest):
    def test_unknown_flag_suggests_the_right_one(self):
        result = self.train(epoch=3)
        self.assert_fails(result, 2, 2, "--epoch", "--epochs")

    def test_values_out_of_range(self):
        for option, value, code in [("epochs", 0, 4), ("epochs", -1, 4), ("batch_size", 0, 4), ("learning_rate", 0, 4),
                                    ("learning_rate", "-0.1", 4), ("learning_rate", "nan", 32),
                                    ("learning_rate", "inf", 33), ("patience", 0, 4), ("print_freq", 0, 4),
                                    ("num_warmup_steps", -1, 5)]:
            with self.subTest(option=option, value=value):
                self.assert_fails(self.train(**{option: value}), 1, code, "--" + option.replace("_", "-"))

    def test_values_that_are_not_numbers(self):
        for option, value in [("epochs", "two"), ("epochs", "2.0"), ("epochs", ""), ("learning_rate", "fast")]:
            with self.subTest(option=option, value=value):
                self.assert_fails(self.train(**{option: value}), 2, 2, "--" + option.replace("_", "-"))

    def test_option_given_twice(self):
        result = kiln(*self.train_arguments(), "--epochs", "2")
        self.assert_fails(result, 2, 2, "--epochs")

    def test_all_problems_are_told_together(self):
        result = self.train(epochs=0, patience=0)
        self.assert_fails(result, 1, 4, "--epochs", "--patience")

    def test_unknown_command(self):
        result = kiln("trian")
        self.assertEqual(result.returncode, 2)
        self.assertIn("train", result.stderr)


class DataTest(FlowTest):
    def test_missing_empty_and_unlabeled_directories(self):
        self.assert_fails(self.train(train_data_path=self.folder / "nowhere"), 1, 18, "nowhere")
        (self.folder / "empty").mkdir()
        self.assert_fails(self.train(valid_data_path=self.folder / "empty"), 1, 18, "Validation dataset")
        flat = self.folder / "flat"
        flat.mkdir()
        for number, image in enumerate(sorted((self.data / "train").rglob("*.png"))[:3]):
            shutil.copy(image, flat / f"{number}.png")
        self.assert_fails(self.train(train_data_path=flat), 1, 24, "flat")

    def test_data_and_model_faults_are_told_together(self):
        result = self.train(train_data_path=self.folder / "nodata", untrained_model_path=self.folder / "nomodel")
        self.assert_fails(result, 1, 18, "nodata", "nomodel")

    def test_validation_class_that_training_lacks(self):
        valid = self.copy_data("val")
        next(path for path in valid.iterdir() if path.is_dir()).rename(valid / "zebra")
        self.assert_fails(self.train(valid_data_path=valid), 1, 18, "zebra")

    def test_fewer_classes_in_validation_are_mapped_by_name(self):
        valid = self.copy_data("val")
        shutil.rmtree(sorted(path for path in valid.iterdir() if path.is_dir())[0])
        self.assertEqual(self.train(valid_data_path=valid).returncode, 0)

    def test_one_class_trains_with_a_warning(self):
        only = self.folder / "one"
        shutil.copytree(next((self.data / "train").iterdir()), only / "shape")
        result = self.train(train_data_path=only, valid_data_path=only)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("only one class", result.stdout)

    def test_bad_images_stop_a_small_set_and_can_be_allowed(self):
        for name, content in [("cut.jpg", b"\xff\xd8\xff\xe0\0"), ("empty.png", b""), ("page.jpg", b"<!DOCTYPE html>"),
                              ("huge.png", huge_png())]:
            with self.subTest(name=name):
                train = self.copy_data()
                folder = next(path for path in train.iterdir() if path.is_dir())
                (folder / name).write_bytes(content)
                result = self.train(train_data_path=train, image_size=32)
                self.assert_fails(result, 1, 18, name, "--max-bad-images")
                allowed = self.train(train_data_path=train, image_size=32, max_bad_images=1)
                self.assertEqual(allowed.returncode, 0, allowed.stderr)
                self.assertIn(name, allowed.stdout)
                self.assertIn("bad images        1 training", allowed.stdout)
                strict = self.train(train_data_path=train, image_size=32, max_bad_images=1, on_bad_image="fail",
                                    trained_model_path=self.folder / "other")
                self.assertEqual(strict.returncode, 1)
                shutil.rmtree(train)
                shutil.rmtree(self.folder / "model")

    def test_mixed_sizes_become_224(self):
        other = self.folder / "larger"
        kiln("demo-data", "--output-path", other, "--images", 12, "--classes", 3, "--size", 48)
        result = self.train(valid_data_path=other / "val", batch_size=16)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("224x224", result.stdout)

    def test_names_with_spaces_accents_and_links(self):
        train = self.copy_data()
        classes = sorted(path for path in train.iterdir() if path.is_dir())
        first = sorted(classes[0].iterdir())[0]
        first.rename(first.with_name("ein schönes Bild" + first.suffix))
        elsewhere = self.folder / "elsewhere"
        classes[1].rename(elsewhere)
        classes[1].symlink_to(elsewhere)
        self.assertEqual(self.train(train_data_path=train).returncode, 0)

    def test_hostile_list(self):
        made = self.folder / "directory"
        self.assertEqual(kiln("convert", "--input-path", self.data / "train", "--output-path", made).returncode, 0)
        lines = (made / "images.lst").read_text().splitlines()
        for fault in ['{"image_info": {"file_name": "../secret.png"}, "category": "x", "id": 0}', "not json", "[1, 2]",
                      '{"image_info": {"file_name": 7}, "category": "x", "id": 0}', lines[0]]:
            with self.subTest(fault=fault[:50]):
                (made / "images.lst").write_text("\n".join(lines[:3] + [fault] + lines[3:]) + "\n")
                self.assert_fails(self.train(train_data_path=made), 1, 18, "images.lst", "4")

    def test_batch_larger_than_the_set(self):
        self.assert_fails(self.train(batch_size=1000), 1, 7, "Batch size")

    def test_batch_of_one_on_one_pixel_maps(self):
        self.assert_fails(self.train(batch_size=1), 1, 5, "Batch size")


class ModelTest(FlowTest):
    def test_missing_and_empty_folder(self):
        (self.folder / "empty").mkdir()
        for folder in ("nowhere", "empty"):
            with self.subTest(folder=folder):
                self.assert_fails(self.train(untrained_model_path=self.folder / folder), 1, 2000, folder)

    def test_wrong_kind_of_directory(self):
        made = self.folder / "images"
        kiln("convert", "--input-path", self.data / "train", "--output-path", made)
        self.assert_fails(self.train(untrained_model_path=made), 1, 159, "ImageDirectory")

    def spoiled(self, name, change):
        folder = self.folder / "untrained"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.untrained, folder)
        path = folder / name
        path.write_bytes(change(path.read_bytes()))
        return folder

    def test_hostile_model_files(self):
        whole = (self.untrained / "model").read_bytes()
        changes = [whole[:len(whole) * part // 20] for part in range(20)] + [b"GGUF" + whole[4:], whole[:-8]]
        for number, content in enumerate(changes):
            with self.subTest(number=number):
                folder = self.spoiled("model", lambda _: content)
                self.assert_fails(self.train(untrained_model_path=folder), 1, 159, "model")

    def test_specs_of_unknown_networks(self):
        for old, new in [(b"resnet18", b"resnet19"), (b"class: ResNet", b"class: Transformer"), (b"model_file", b"mode")]:
            with self.subTest(new=new):
                folder = self.spoiled("model_spec.yaml", lambda text: text.replace(old, new))
                self.assert_fails(self.train(untrained_model_path=folder), 1, 159, "model_spec.yaml")


class OutputTest(FlowTest):
    def test_target_with_other_things_in_it(self):
        (self.folder / "model").mkdir()
        (self.folder / "model/thesis.tex").write_text("precious")
        result = self.train()
        self.assert_fails(result, 3, 160, "thesis.tex")
        self.assertEqual((self.folder / "model/thesis.tex").read_text(), "precious")

    def test_unwritable_target(self):
        self.assert_fails(self.train(trained_model_path="/proc/model"), 3, 160, "/proc/model")

    def test_full_disk(self):
        target = self.folder / "model"
        target.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(target)], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("mounting a small tmpfs needs more rights")
        self.addCleanup(subprocess.run, ["umount", str(target)])
        self.assert_fails(self.train(), 3, 160, "space")
        left = os.listdir(target)
        self.assertFalse([name for name in left if name.startswith(".kiln-tmp-") or name in ("_meta.yaml", "model")], left)

    def test_log_path_that_cannot_be_written(self):
        result = kiln(*self.train_arguments(log_path="/proc/logs"))
        self.assertEqual(result.returncode, 3)
        self.assertIn("/proc/logs", result.stderr)


if __name__ == "__main__":
    main()
