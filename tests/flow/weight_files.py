"""Weights files as their publishers write them, made with the standard library: torch.save's zip, its older plain
pickles, safetensors; and the reader of the first. A state is a dictionary of name -> Tensor."""
import collections
import dataclasses
import io
import json
import pickle
import re
import struct
import sys
import types
import zipfile

WIDTHS = {"Float": 4, "Double": 8, "Long": 8}
SAFETENSORS_TYPES = {"Float": "F32", "Double": "F64", "Long": "I64"}


class Storage:
    """What a pickle refers to and a file holds beside it."""

    def __init__(self, kind, data, key=None):
        self.kind, self.data, self.key = kind, data, key


def _rebuild_tensor_v2(storage, offset, shape, strides, *_):
    return Tensor(storage.kind, tuple(shape), storage.data)


@dataclasses.dataclass
class Tensor:
    kind: str  # "Float", "Double" or "Long"
    shape: tuple
    data: bytes

    def __reduce__(self):
        strides = [1] * len(self.shape)
        for axis in reversed(range(len(self.shape) - 1)):
            strides[axis] = strides[axis + 1] * self.shape[axis + 1]
        return _rebuild_tensor_v2, (Storage(self.kind, self.data), 0, self.shape, tuple(strides), False,
                                    collections.OrderedDict())


# pickle finds a function by the module that it says it is from: these stand in for torch's.
torch, torch_utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
for kind in WIDTHS:
    setattr(torch, kind + "Storage", type(kind + "Storage", (), {"__module__": "torch"}))
torch._utils, torch_utils._rebuild_tensor_v2 = torch_utils, _rebuild_tensor_v2
_rebuild_tensor_v2.__module__ = "torch._utils"
sys.modules.setdefault("torch", torch)
sys.modules.setdefault("torch._utils", torch_utils)


class StatePickler(pickle.Pickler):
    """Notes the storages on the way. The older format's references have a sixth part, the view, which is None."""

    def __init__(self, file, more=()):
        super().__init__(file, 2)
        self.storages, self.more = [], more

    def persistent_id(self, item):
        if not isinstance(item, Storage):
            return None
        item.key = str(len(self.storages))
        self.storages.append(item)
        return ("storage", getattr(torch, item.kind + "Storage"), item.key, "cpu",
                len(item.data) // WIDTHS[item.kind], *self.more)


class StateUnpickler(pickle.Unpickler):
    def __init__(self, file, archive, folder):
        super().__init__(file)
        self.archive, self.folder = archive, folder

    def persistent_load(self, reference):
        _, storage, key, _, _ = reference
        return Storage(storage.__name__.removesuffix("Storage"), self.archive.read(f"{self.folder}/data/{key}"), key)


def read_zip(path):
    """The state in kiln's `model`, or in any file of torch.save."""
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        return dict(StateUnpickler(io.BytesIO(archive.read(name)), archive, name.split("/")[0]).load())


def write_zip(path, state):
    """As torch.save writes today."""
    text = io.BytesIO()
    pickler = StatePickler(text)
    pickler.dump(collections.OrderedDict(state))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", text.getvalue())
        for storage in pickler.storages:
            archive.writestr(f"archive/data/{storage.key}", storage.data)
        archive.writestr("archive/version", "3\n")


def write_legacy(path, state):
    """As torch.save wrote before 1.6, in which torchvision's published files still come."""
    with open(path, "wb") as file:
        pickle.dump(0x1950A86A20F9469CFC6C, file, 2)
        pickle.dump(1001, file, 2)
        pickle.dump({"protocol_version": 1001, "little_endian": True, "type_sizes": {"int": 4}}, file, 2)
        pickler = StatePickler(file, more=(None,))
        pickler.dump(collections.OrderedDict(state))
        pickle.dump([storage.key for storage in pickler.storages], file, 2)
        for storage in pickler.storages:
            file.write(struct.pack("<q", len(storage.data) // WIDTHS[storage.kind]) + storage.data)


def write_safetensors(path, state, metadata=None):
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, tensor in state.items():
        header[name] = {"dtype": SAFETENSORS_TYPES[tensor.kind], "shape": tensor.shape,
                        "data_offsets": [at, at + len(tensor.data)]}
        at += len(tensor.data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(tensor.data for tensor in state.values()))


def read_safetensors(path):
    """Name -> (type, shape, bytes)."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    return {name: (about["dtype"], about["shape"], data[8 + length:][slice(*about["data_offsets"])])
            for name, about in json.loads(data[8:8 + length]).items() if name != "__metadata__"}


def torchvision_names(state):
    """The names of a published file: without the prefix of kiln's and of the designer's directories."""
    return {name.removeprefix("model."): tensor for name, tensor in state.items()}


def old_densenet_names(state):
    """Published DenseNets say 'norm.1' for 'norm1', and are older than the counters of batches."""
    return {re.sub(r"(denselayer\d+\.(?:norm|conv))([12])\.", r"\1.\2.", name): tensor
            for name, tensor in state.items() if not name.endswith("num_batches_tracked")}
