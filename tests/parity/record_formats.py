"""Record files from their published formats, without Kiln: RecordIO read and written with `struct` alone, tf.train.Example by
protobuf's own classes, made from descriptors; TFRecord read by TensorBoard's reader."""
import pathlib
import struct

MAGIC = 0xCED7230A


def read_recordio(data):
    """(offset, payload) of each record: dmlc-core, include/dmlc/recordio.h."""
    records, at = [], 0
    while at < len(data):
        begin, parts = at, []
        while True:
            magic, word = struct.unpack_from("<II", data, at)
            assert magic == MAGIC, (at, hex(magic))
            kind, size = word >> 29, word & (1 << 29) - 1
            assert kind in ((0, 1) if not parts else (2, 3)), kind
            parts.append(data[at + 8:at + 8 + size])
            assert len(parts[-1]) == size
            at += 8 + (size + 3) // 4 * 4
            if kind in (0, 3):
                break
        records.append((begin, struct.pack("<I", MAGIC).join(parts)))
    assert at == len(data)
    return records


def read_image_header(payload):
    """(labels, id, image): MXNet, python/mxnet/recordio.py, IRHeader."""
    flag, label, number, _ = struct.unpack_from("<IfQQ", payload)
    if flag == 0:
        return [label], number, payload[24:]
    return list(struct.unpack_from(f"<{flag}f", payload, 24)), number, payload[24 + 4 * flag:]


def write_recordio(path, images):
    """`images`: (labels, bytes); of one label as im2rec.py writes it."""
    with open(path, "wb") as file:
        for number, (labels, image) in enumerate(images):
            flag = len(labels) if len(labels) > 1 else 0
            head = struct.pack("<IfQQ", flag, 0 if flag else labels[0], number, 0)
            payload = head + (struct.pack(f"<{flag}f", *labels) if flag else b"") + image
            cuts = [at for at in range(0, len(payload) - 3, 4) if payload[at:at + 4] == struct.pack("<I", MAGIC)]
            ends = cuts + [len(payload)]
            begin = 0
            for part, end in enumerate(ends):
                kind = 0 if not cuts else 1 if part == 0 else 3 if part == len(cuts) else 2
                piece = payload[begin:end]
                file.write(struct.pack("<II", MAGIC, kind << 29 | len(piece)) + piece + bytes(-len(piece) % 4))
                begin = end + 4


def example_class():
    """tf.train.Example: tensorflow/core/example/feature.proto and example.proto."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example_for_test.proto", package="t", syntax="proto3")

    def message(name, *fields):
        made = file.message_type.add(name=name)
        for number, (field_name, kind, label, type_name) in enumerate(fields, 1):
            made.field.add(name=field_name, number=number, type=kind, label=label, type_name=type_name or None)
        return made
    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    message("BytesList", ("value", field.TYPE_BYTES, many, ""))
    message("FloatList", ("value", field.TYPE_FLOAT, many, ""))
    message("Int64List", ("value", field.TYPE_INT64, many, ""))
    feature = message("Feature", ("bytes_list", field.TYPE_MESSAGE, one, ".t.BytesList"),
                      ("float_list", field.TYPE_MESSAGE, one, ".t.FloatList"),
                      ("int64_list", field.TYPE_MESSAGE, one, ".t.Int64List"))
    feature.oneof_decl.add(name="kind")
    for member in feature.field:
        member.oneof_index = 0
    features = message("Features", ("feature", field.TYPE_MESSAGE, many, ".t.Features.FeatureEntry"))
    entry = features.nested_type.add(name="FeatureEntry")
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=one)
    entry.field.add(name="value", number=2, type=field.TYPE_MESSAGE, label=one, type_name=".t.Feature")
    entry.options.map_entry = True
    message("Example", ("features", field.TYPE_MESSAGE, one, ".t.Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


def read_tfrecord(path):
    """The records of a file, as TensorBoard reads them: it compares both checksums."""
    from tensorboard.compat.tensorflow_stub import pywrap_tensorflow
    reader = pywrap_tensorflow.PyRecordReader_New(str(path))
    records = []
    while True:
        try:
            reader.GetNext()
        except pywrap_tensorflow.errors.OutOfRangeError:
            return records
        records.append(reader.record())


def write_tfrecord(path, records):
    from tensorboard.summary.writer.record_writer import RecordWriter
    with open(path, "wb") as file:
        writer = RecordWriter(file)
        for record in records:
            writer.write(record)
        writer.flush()


def read_pairs(path):
    """(key, offset) of an .idx file."""
    return [tuple(map(int, line.split("\t"))) for line in pathlib.Path(path).read_text().splitlines()]
