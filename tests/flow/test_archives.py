"""Images in archives, through the real binary: what good ones train to, and what bad ones are told."""
import io
import os
import pathlib
import signal
import struct
import subprocess
import tarfile
import zipfile

from flow import KILN, FlowTest, driver_log, files_below, kiln, main


class ArchiveTest(FlowTest):
    def images(self, part="train"):
        return sorted(files_below(self.data / part).items())

    def zip(self, name, images, method=zipfile.ZIP_STORED):
        path = self.folder / name
        with zipfile.ZipFile(path, "w", method) as archive:
            for file, content in images:
                archive.writestr(file, content)
        return path

    def tar(self, name, images, mode="w"):
        path = self.folder / name
        with tarfile.open(path, mode) as archive:
            for file, content in images:
                member = tarfile.TarInfo(file)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        return path

    def model(self, data, **options):
        result = self.train(train_data_path=data, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return (self.folder / "model/model").read_bytes()

    def inspect(self, path):
        return kiln("inspect", path, "--check")

    def test_every_kind_trains_to_the_bits_of_the_folder(self):
        expected = self.model(self.data / "train")
        images = self.images()
        shuffled = images[::-1]
        inside = [("top/" + file, content) for file, content in images]
        for archive in (self.zip("deflated.ZIP", inside, zipfile.ZIP_DEFLATED), self.tar("plain.tar", shuffled),
                        self.tar("gzip.tgz", images, "w:gz")):
            with self.subTest(archive=archive.name):
                self.assertTrue(self.model(archive) == expected, "the models differ")

    def test_convert_unpacks_to_the_same_image_directory(self):
        images = self.images()
        inside = [("top/" + file, content) for file, content in images]
        sources = (self.data / "train", self.zip("a.zip", images, zipfile.ZIP_DEFLATED), self.zip("stored.zip", images[::-1]),
                   self.tar("bzip2.TAR.BZ2", inside, "w:bz2"))
        for number, source in enumerate(sources):
            made = kiln("convert", "--input-path", source, "--output-path", self.folder / str(number))
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertEqual(files_below(self.folder / str(number)), files_below(self.folder / "0"), source)

    def test_a_wrong_checksum_is_one_bad_image(self):
        path = self.zip("a.zip", self.images())
        content = self.images()[5][1]
        data = path.read_bytes()
        at = data.index(content)
        path.write_bytes(data[:at + 40] + bytes([data[at + 40] ^ 1]) + data[at + 41:])
        self.assert_fails(self.train(train_data_path=path, on_bad_image="fail"), 1, 18, "its zip checksum is wrong")
        result = self.train(train_data_path=path, max_bad_images=1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(self.training()["image_faults"]), 1)

    def test_bad_zips_are_refused(self):
        good = self.zip("good.zip", [("cat/1.png", b"a" * 50), ("dog/2.png", b"b" * 50)]).read_bytes()
        cases = {"cut.zip": (good[:-30], "no zip directory"), "empty.zip": (b"", "is empty"),
                 "overlap.zip": (self.overlapping(good), "overlap"),
                 "far.zip": (good.replace(struct.pack("<I", good.index(b"PK\1\2")), b"\xf0\xff\xff\x7f"), "beyond its end")}
        for name, (content, words) in cases.items():
            with self.subTest(name=name):
                (self.folder / name).write_bytes(content)
                self.assert_refused(self.inspect(self.folder / name), 1, name, words)
        for file, words in (("/etc/1.png", "is absolute"), ("cat/../../1.png", "contains '..'")):
            with self.subTest(file=file):
                self.assert_refused(self.inspect(self.zip("p.zip", [(file, b"")])), 1, words)

    @staticmethod
    def overlapping(data):
        """The directory's second entry points to the first one's bytes."""
        second = data.index(b"PK\1\2", data.index(b"PK\1\2") + 4)
        return data[:second + 42] + struct.pack("<I", 0) + data[second + 46:]

    def test_names_that_are_there_twice_are_refused(self):
        path = self.folder / "twice.zip"
        with self.assertWarns(UserWarning):
            path = self.zip("twice.zip", [("cat/1.png", b"a"), ("cat/1.png", b"b")])
        self.assert_refused(self.inspect(path), 1, "'cat/1.png' appears in it twice")

    def test_a_zip_entry_that_lies_about_its_size(self):
        path = self.zip("a.zip", [("cat/1.png", b"a" * 5000)], zipfile.ZIP_DEFLATED)
        data = path.read_bytes()
        entry = data.index(b"PK\1\2") + 24
        path.write_bytes(data[:entry] + struct.pack("<I", 7000) + data[entry + 4:])
        result = self.inspect(path)
        self.assertIn("does not inflate to the size", result.stdout)
        path.write_bytes(data[:entry] + struct.pack("<I", 0x7fffffff) + data[entry + 4:])
        self.assert_refused(self.inspect(path), 1, "an impossible size")

    def test_a_zip_bomb_is_one_bad_image(self):
        path = self.zip("a.zip", [("cat/1.png", bytes(80 << 20))], zipfile.ZIP_DEFLATED)
        result = kiln("inspect", path, "--check")
        self.assertIn("it inflates to more than 100 times its size", result.stdout)

    def test_nothing_is_left_of_a_compressed_archive_after_a_kill(self):
        temporary = self.folder / "tmp"
        temporary.mkdir()
        path = self.tar("a.tgz", self.images(), "w:gz")
        run = subprocess.Popen([KILN, *self.train_arguments(train_data_path=path, epochs=1000)],
                               env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.PIPE, text=True)
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.kill)
        log = driver_log(run, self.folder / "logs")
        self.assertTrue(any("is compressed" in line and str(temporary) in line for line in log), "it was not unpacked")
        self.assertTrue(any("Iter:" in line for line in log), "it never trained")
        run.send_signal(signal.SIGSTOP)
        os.waitpid(run.pid, os.WUNTRACED)
        open_files = [os.readlink(link) for link in pathlib.Path(f"/proc/{run.pid}/fd").iterdir()]
        self.assertTrue(any(name.startswith(f"{temporary.resolve()}/") for name in open_files), open_files)
        run.send_signal(signal.SIGKILL)
        run.wait()
        self.assertEqual(list(temporary.iterdir()), [])

    def test_a_folder_for_temporary_files_that_takes_nothing(self):
        path = self.tar("a.tgz", self.images(), "w:gz")
        for folder, words in (("/no/such/folder", "is not a folder"), ("/proc", "'/proc' cannot hold it")):
            with self.subTest(folder=folder):
                result = kiln("inspect", path, environment={"TMPDIR": folder})
                self.assert_refused(result, 1, "a.tgz' is compressed", words, "Set TMPDIR to a folder")
                self.assertNotIn("permissions", result.stderr)

    def test_shards_that_vanish_in_mid_epoch_are_read_to_the_end(self):
        shards = self.folder / "shards"
        shards.mkdir()
        path = self.tar("shards/a-000000.tar", self.images())
        run = subprocess.Popen([KILN, *self.train_arguments(train_data_path=shards, epochs=3)], stdout=subprocess.PIPE,
                               text=True)
        self.addCleanup(run.stdout.close)
        for line in driver_log(run, self.folder / "logs"):
            if "Iter:" in line:
                path.unlink()
                break
        output = run.stdout.read()
        self.assertEqual(run.wait(), 0, output)
        self.assertEqual(len(self.training()["epochs"]), 3)
        self.assertNotIn("bad training image", output)

    def test_a_folder_that_changes_during_training(self):
        data = self.copy_data()
        files = sorted(path for path in data.rglob("*") if path.is_file())
        run = subprocess.Popen([KILN, *self.train_arguments(train_data_path=data, epochs=3, max_bad_images=2,
                                                            cache="none")], stdout=subprocess.PIPE, text=True)
        self.addCleanup(run.stdout.close)
        for line in run.stdout:
            if "Epoch 1," in line:
                files[0].with_name("new.jpg").write_bytes(files[0].read_bytes())
                files[1].write_bytes(b"something else")
                files[2].unlink()
                break
        output = run.stdout.read()
        self.assertEqual(run.wait(), 0, output)
        self.assertEqual(output.count("(skipped)"), 2, output)
        self.assertEqual(len(self.training()["epochs"]), 3)


if __name__ == "__main__":
    main()
