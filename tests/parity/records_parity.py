"""Record files of `kiln pack`, read by others, and others' read by Kiln: records_parity.py KILN. Exit code 77: no tensorboard."""
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [os.environ.get("KILN_PARITY_PACKAGES") or str(SOURCE / ".deps" / "parity")]

try:
    import google.protobuf
    import tensorboard
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import record_formats  # noqa: E402  (needs the packages)


def run(*words):
    result = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def converted(kiln, source, target):
    """(class, bytes) of the images that Kiln reads from `source`, in order."""
    run(kiln, "convert", source, target)
    lines = [json.loads(line) for line in (target / "images.lst").read_text().splitlines()]
    return [(line["category"], (target / line["image_info"]["file_name"]).read_bytes()) for line in lines]


def check_packed(kiln, folder):
    data = folder / "data" / "train"
    classes = sorted(path.name for path in data.iterdir())
    files = sorted(path for path in data.rglob("*") if path.is_file())
    expected = [(classes.index(path.parent.name), path.read_bytes()) for path in files]
    run(kiln, "pack", data, folder / "tf", "--format", "tfrecord", "--shard-mb", "1")
    example, read = record_formats.example_class(), []
    for shard in sorted((folder / "tf").glob("*.tfrecord")):
        for record in record_formats.read_tfrecord(shard):
            feature = example.FromString(record).features.feature
            label, = feature["image/class/label"].int64_list.value
            assert feature["image/class/text"].bytes_list.value[0].decode() == classes[label]
            read.append((label, feature["image/encoded"].bytes_list.value[0]))
            name = feature["image/filename"].bytes_list.value[0].decode()
            assert (data / name).read_bytes() == read[-1][1], name
    assert read == expected, f"{len(read)} records are not the {len(expected)} that were packed"

    run(kiln, "pack", data, folder / "rec", "--format", "recordio", "--shard-mb", "1")
    read = []
    for shard in sorted((folder / "rec").glob("*.rec")):
        records = record_formats.read_recordio(shard.read_bytes())
        index = record_formats.read_pairs(shard.with_suffix(".idx"))
        assert [offset for offset, _ in records] == [offset for _, offset in index]
        for (_, payload), (key, _) in zip(records, index):
            labels, number, image = record_formats.read_image_header(payload)
            assert number == key
            read.append((int(labels[0]), image))
    assert read == expected, f"{len(read)} records are not the {len(expected)} that were packed"
    named = [(classes[label], image) for label, image in expected]
    for form in ("tf", "rec"):
        assert converted(kiln, folder / form, folder / f"from-{form}") == named, form
    print(f"TensorBoard {tensorboard.__version__} and protobuf {google.protobuf.__version__} read {len(read)} records")


def check_foreign(kiln, folder):
    rng = random.Random(1)
    images = [b"\xff\xd8\xff" + bytes(rng.randrange(256) for _ in range(rng.randrange(10, 20_000))) for _ in range(40)]
    images[3] = b"\xff\xd8\xff\xe0" + struct.pack("<I", record_formats.MAGIC) * 2 + b"jpeg"
    labels = [rng.randrange(1, 5) for _ in images]
    labels[:4] = [1, 2, 3, 4]
    example, records = record_formats.example_class(), []
    for image, label in zip(images, labels):
        made = example()
        feature = made.features.feature
        for key, value in (("image/height", 3), ("image/class/label", label)):
            feature[key].int64_list.value.append(value)
        feature["image/object/bbox/xmin"].float_list.value.extend([0.5, 0.25])
        feature["image/encoded"].bytes_list.value.append(image)
        feature["image/colorspace"].bytes_list.value.append(b"RGB")
        records.append(made.SerializeToString())
    record_formats.write_tfrecord(folder / "theirs.tfrecord", records)
    read = converted(kiln, folder / "theirs.tfrecord", folder / "from-theirs")
    assert read == [(str(label), image) for label, image in zip(labels, images)]
    record_formats.write_recordio(folder / "theirs.rec",
                                  [([float(label)] + [9.0] * (n % 2), image)
                                   for n, (label, image) in enumerate(zip(labels, images))])
    assert converted(kiln, folder / "theirs.rec", folder / "from-rec-2") == read
    print(f"kiln read {len(read)} records that protobuf and struct wrote")


def main(kiln):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        run(kiln, "demo-data", "--output-path", folder / "data", "--images", "60")
        check_packed(kiln, folder)
        check_foreign(kiln, folder)


main(sys.argv[1])
