"""Reports of users of other trainers, and files from them, through the real program: archives and shards."""
import shutil
import subprocess
import tarfile

from flow import KILN, kiln, main
from forms import FormsTest


class Archives(FormsTest):
    """What lies in an archive or a shard is read as the folder that unpacking would give."""
    CLASSES = ["cat", "dog", "owl"]
    APPLE = b"\0\5\x16\7\0\2\0\0Mac OS X        " + bytes(60)

    def stream_counts(self, path):
        """Images by class of a validation stream."""
        with open(path, "rb") as tar:
            words = [KILN, *self.train_arguments(train_data_path=self.data / "train", valid_data_path="-", threads=1)]
            result = subprocess.run([*map(str, words)], stdin=tar, capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return self.start_event()["data"]["valid_counts"]

    def test_one_rule_in_every_form(self):
        """Cases 01, 02, 03, 64, 67: the label of each image is the same in every form, and what is left out is named."""
        of, image = self.CLASSES, self.pictures
        name = "img_0.{:02}".format
        dotted = [entry for i in range(6) for entry in ((name(i) + self.suffix, image[i]), (name(i) + ".cls", of[i % 3].encode()))]
        apple = [("._" + member, self.APPLE) for member, _ in dotted]
        masks = [(name(i) + ".seg" + self.suffix, image[10 + i]) for i in range(6)]
        expected = sorted((image[i], of[i % 3]) for i in range(6))
        for path in self.forms(dotted + apple + masks):
            with self.subTest(path=path.name):
                found, said = self.labels(path)
                self.assertEqual(found, expected)
                self.assert_names(said, "6 images")
        shutil.rmtree(self.folder / "folder")
        classes = [(f"{label}/{i}{self.suffix}", image[3 * i + k]) for k, label in enumerate(of[:2]) for i in range(2)]
        junk = [(f"{folder}/9{self.suffix}", image[20]) for folder in ("@eaDir", "__MACOSX", ".ipynb_checkpoints", "cat/@eaDir")]
        links = [(f"owl/{i}{self.suffix}", tarfile.SYMTYPE, f"../cat/{i}{self.suffix}") for i in range(2)]
        lost = [(f"owl/lost{self.suffix}", tarfile.SYMTYPE, "nothing")]
        expected = sorted([(image[3 * i + k], label) for k, label in enumerate(of[:2]) for i in range(2)] +
                          [(image[3 * i], "owl") for i in range(2)])
        for path in self.forms(classes + junk + links + lost):
            with self.subTest(path=path.name):
                found, said = self.labels(path)
                self.assertEqual(found, expected)
                self.assertIn("owl/lost" + self.suffix, said)
        hard = [(member, tarfile.LNKTYPE, "cat/" + member.split("/")[1]) for member, _, _ in links]
        self.assertEqual(self.labels(self.write_tar("hard.tar", classes + hard))[0], expected)

    def test_a_stream_has_the_labels_of_the_archive(self):
        names = sorted(path.name for path in (self.data / "train").iterdir())
        members = [entry for i in range(9) for entry in ((f"set_0.{i}{self.suffix}", self.pictures[i]),
                                                         (f"set_0.{i}.seg{self.suffix}", self.pictures[20]),
                                                         (f"set_0.{i}.cls", names[i // 3].encode()))]
        self.assertEqual(self.stream_counts(self.write_tar("stream.tar", members)), [3, 3, 3])

    def test_contradictions_are_refused(self):
        """Two rules with two labels, a name twice, numbers and names, a number written in two ways: both sides are named."""
        one, other = self.pictures[:2]
        image, second = "a.x" + self.suffix, "b" + self.suffix
        for members, words in (
                ([(image, one), ("a.x.cls", b"1"), ("a.cls", b"0")], ("'a.x.cls'", "'a.cls'")),
                ([(image, one), (image, other)], (f"'{image}'", "twice")),
                ([(image, one), ("a.x.cls", b"0"), (second, other), ("b.cls", b"cat")], ("'0'", "'cat'")),
                ([(image, one), ("a.x.cls", b"1"), (second, other), ("b.cls", b"01")], ("'1'", "'01'")),
                ([(image, one), ("a.x.cls", b" ")], ("'a.x.cls'", "empty"))):
            with self.subTest(words=words):
                made = kiln("convert", "--input-path", self.write_tar("bad.tar", members), "--output-path", self.folder / "out")
                self.assertEqual(made.returncode, 1, made.stdout)
                self.assert_names(made.stderr, *words)

    def test_names_and_links_in_every_form(self):
        """Empty parts of names, and links to what is hidden, as git-annex keeps it."""
        image = self.pictures
        members = [(f"cat/./0{self.suffix}", image[0]), (f"dog//1{self.suffix}", image[1]), (".annex/k2", image[2]),
                   (f"cat//2{self.suffix}", tarfile.SYMTYPE, "..//.annex/./k2")]
        for path in self.forms(members):
            with self.subTest(path=path.name):
                self.assertEqual(self.labels(path)[0], sorted([(image[0], "cat"), (image[1], "dog"), (image[2], "cat")]))

    def test_archives_of_other_programs(self):
        """Cases 04 and 60: backslashes as separators; frames that are to be skipped, as pzstd writes."""
        members = [(f"train\\{label}\\{i}{self.suffix}", self.pictures[3 * i + k])
                   for k, label in enumerate(self.CLASSES) for i in range(2)]
        expected = sorted((content, member.split("\\")[1]) for member, content in members)
        self.assertEqual(self.labels(self.write_zip("windows.zip", members))[0], expected)
        tar = self.write_tar("plain.tar", [(member.replace("\\", "/"), content) for member, content in members])
        if not (program := shutil.which("zstd")):
            self.skipTest("there is no zstd")
        packed = subprocess.run([program, "-qc", tar], capture_output=True, check=True).stdout
        (self.folder / "p.tar.zst").write_bytes(b"\x50\x2a\x4d\x18\4\0\0\0abcd" + packed)
        self.assertEqual(self.labels(self.folder / "p.tar.zst")[0], expected)


if __name__ == "__main__":
    main()
