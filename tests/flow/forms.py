"""The same files as a folder, archives and shards."""
import gzip
import io
import json
import shutil
import tarfile
import zipfile

from flow import FlowTest, kiln


def tar_of(members):
    """Pairs of a name and bytes."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return file.getvalue()


class FormsTest(FlowTest):
    """Writes the same files as a folder and as archives."""

    def setUp(self):
        super().setUp()
        files = sorted(path for path in (self.data / "train").rglob("*") if path.is_file())
        self.pictures = [path.read_bytes() for path in files]
        self.suffix = files[0].suffix

    def place(self, name):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_tar(self, name, members):
        """A member is (name, bytes), or (name, type of link, target)."""
        path = self.place(name)
        with tarfile.open(path, "w") as tar:
            for member, *content in members:
                entry = tarfile.TarInfo(member)
                if len(content) == 2:
                    entry.type, entry.linkname = content
                    tar.addfile(entry)
                else:
                    entry.size = len(content[0])
                    tar.addfile(entry, io.BytesIO(content[0]))
        return path

    def write_zip(self, name, members):
        path = self.place(name)
        with zipfile.ZipFile(path, "w") as archive:
            for member, *content in members:
                entry = zipfile.ZipInfo(member)
                if len(content) == 2:
                    entry.create_system, entry.external_attr = 3, 0o120777 << 16
                archive.writestr(entry, content[-1])
        return path

    def write_folder(self, name, members):
        for member, *content in members:
            path = self.place(f"{name}/{member}")
            if len(content) == 2:
                path.symlink_to(content[1])
            else:
                path.write_bytes(content[0])
        return self.folder / name

    def labels(self, path):
        """The bytes of each image that is read, with its class; and what was said."""
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        made = kiln("convert", "--input-path", path, "--output-path", out)
        self.assertEqual(made.returncode, 0, made.stderr)
        rows = [json.loads(line) for line in (out / "images.lst").read_text().splitlines()]
        return sorted(((out / row["image_info"]["file_name"]).read_bytes(), row.get("category")) for row in rows), made.stdout + made.stderr

    def forms(self, members):
        """The same files as a folder, archives and a folder of shards."""
        yield self.write_folder("folder", members)
        yield self.write_zip("a.zip", members)
        yield self.write_tar("a.tar", members)
        yield self.write_tar("shards/s-0.tar", members).parent
        with gzip.open(self.folder / "a.tgz", "wb", 1) as packed:
            packed.write((self.folder / "a.tar").read_bytes())
        yield self.folder / "a.tgz"
