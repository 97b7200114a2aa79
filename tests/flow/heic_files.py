"""HEIC files that libheif's encoder does not make: of tiles, turned, mirrored and cropped. Pictures come from that encoder; the
boxes around them (ISO/IEC 14496-12 and 23008-12) are written here. Standard library only."""
import struct
import subprocess

COLUMNS = 2  # of a grid


def box(kind, *parts):
    body = b"".join(parts)
    return struct.pack(">I4s", 8 + len(body), kind) + body


def full_box(kind, *parts, version=0, flags=0):
    return box(kind, struct.pack(">I", version << 24 | flags), *parts)


def boxes_in(data):
    """(kind, content) of each box."""
    at = 0
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8:at + size]
        at += size


def encoded(png, path, *options):
    """The bytes of a HEIC that heif-enc makes of a PNG; `path` is a file to work with, without its extension."""
    path.with_suffix(".png").write_bytes(png)
    subprocess.run(["heif-enc", *options, "-o", path.with_suffix(".heic"), path.with_suffix(".png")], check=True,
                   capture_output=True)
    return path.with_suffix(".heic").read_bytes()


def tile_of(heic):
    """The configuration of the decoder, the size and the coded picture of a HEIC of 64 x 64 pixels, which has no more."""
    boxes = dict(boxes_in(heic))
    meta = dict(boxes_in(boxes[b"meta"][4:]))
    properties = list(boxes_in(dict(boxes_in(meta[b"iprp"]))[b"ipco"]))
    configuration, extent = (next(content for kind, content in properties if kind == wanted) for wanted in (b"hvcC", b"ispe"))
    return configuration, struct.unpack(">II", extent[4:]), boxes[b"mdat"]


def turn(quarters):
    """Counterclockwise."""
    return box(b"irot", bytes([quarters]))


def mirror(axis):
    return box(b"imir", bytes([axis]))


def crop(width, height):
    """Around the middle."""
    return box(b"clap", struct.pack(">IIIIiIiI", width, 1, height, 1, 0, 1, 0, 1))


def exif(orientation):
    return b"\0\0\0\0II*\0" + struct.pack("<IHHHIII", 8, 1, 274, 3, 1, orientation, 0)


def heic(tiles, properties=(), size=None, orientation=None):
    """A photo of one picture, or of a grid of them with that size; turned and so on by its own properties, and with EXIF data
    if there is an orientation."""
    shared = [box(b"hvcC", tiles[0][0]), full_box(b"ispe", struct.pack(">II", *tiles[0][1]))]
    own = [full_box(b"ispe", struct.pack(">II", *size))] if size else []
    places = bytes(range(3, 3 + len(own) + len(properties)))
    items = [(b"hvc1", data, b"\1\2" + (b"" if size else places)) for _, _, data in tiles]
    references = []
    if size:
        rows = -(-len(tiles) // COLUMNS)
        items.append((b"grid", struct.pack(">BBBBHH", 0, 0, rows - 1, COLUMNS - 1, *size), places))
        references.append(box(b"dimg", struct.pack(f">HH{len(tiles)}H", len(items), len(tiles), *range(1, len(items)))))
    primary = len(items)
    if orientation:
        items.append((b"Exif", exif(orientation), b""))
        references.append(box(b"cdsc", struct.pack(">HHH", len(items), 1, primary)))
    numbered = list(enumerate(items, 1))
    entries = [full_box(b"infe", struct.pack(">HH4sB", number, 0, kind, 0), version=2, flags=number != primary)  # hidden
               for number, (kind, _, _) in numbered]
    uses = [struct.pack(">HB", number, len(used)) + used for number, (_, _, used) in numbered]

    def front(begin):
        at, places_of_items = begin, []
        for number, (_, data, _) in numbered:
            places_of_items.append(struct.pack(">HHHII", number, 0, 1, at, len(data)))
            at += len(data)
        meta = full_box(
            b"meta", full_box(b"hdlr", bytes(4), b"pict", bytes(13)), full_box(b"pitm", struct.pack(">H", primary)),
            full_box(b"iloc", struct.pack(">BBH", 0x44, 0, len(items)), *places_of_items),
            full_box(b"iinf", struct.pack(">H", len(items)), *entries),
            box(b"iprp", box(b"ipco", *shared, *own, *properties), full_box(b"ipma", struct.pack(">I", len(items)), *uses)),
            *([full_box(b"iref", *references)] if references else []))
        return box(b"ftyp", b"heic", bytes(4), b"mif1heic") + meta
    content = b"".join(data for _, data, _ in items)
    return front(len(front(0)) + 8) + box(b"mdat", content)
