"""Compares Kiln's decoding and resizing with Pillow's: decode_parity.py TOOL (the program of decode_tool.cpp).

Images of every kind are drawn here; photographs are added where ../shared/data/photos exists. Exit code 77: no Pillow.
"""

import io
import os
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
PYTHON_PACKAGES = SOURCE / ".deps" / "parity"
if PYTHON_PACKAGES.is_dir():
    sys.path.insert(0, str(PYTHON_PACKAGES))

try:
    import numpy as np
    from PIL import Image, ImageOps
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

HEIGHT, WIDTH = 75, 117
RANDOM = np.random.default_rng(7)


def picture():
    """Smooth colors, edges and noise, [H, W, 3]."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    smooth = np.stack([x * 2, y * 3, 255 - x - y], -1) % 256
    smooth[20:40, 30:60] = (250, 10, 40)
    noise = RANDOM.integers(-20, 20, smooth.shape)
    return np.clip(smooth + noise, 0, 255).astype(np.uint8)


def alpha_of(height, width):
    alpha = RANDOM.integers(0, 256, (height, width, 1)).astype(np.uint8)
    alpha[:5] = 0
    alpha[5:10] = 255
    return alpha


def png_chunks(header, data, extra=b""):
    """A PNG by hand, for the forms that Pillow does not write."""
    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra
            + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def raw_png(samples, bits, color_type):
    """`samples` [H, bytes a row], unfiltered."""
    height, width = samples.shape[0], WIDTH
    header = struct.pack(">IIBBBBB", width, height, bits, color_type, 0, 0, 0)
    return png_chunks(header, b"".join(b"\0" + row.tobytes() for row in samples))


def packed(values, bits):
    """[H, W] values of `bits` bits -> [H, bytes a row]."""
    planes = np.unpackbits(values.astype(np.uint8)[..., None], axis=-1)[..., 8 - bits:]
    return np.packbits(planes.reshape(values.shape[0], -1), axis=1)


def encoded(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


class Cases:
    """Files written, what they must decode to, and how far off they may be."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.list = []

    def add(self, name, data, expected=None, tolerance=0, size=0, exif="ignore", fit="crop"):
        path = self.folder / f"{len(self.list)}.bin"
        path.write_bytes(data)
        if expected is None:
            with Image.open(io.BytesIO(data)) as image:
                expected = np.asarray((ImageOps.exif_transpose(image) if exif == "apply" else image).convert("RGB"))
        self.list.append((name, path, size, expected, tolerance, exif, fit))


def add_jpeg(cases, rgb):
    image = Image.fromarray(rgb)
    for subsampling in (0, 1, 2):
        for progressive in (False, True):
            data = encoded(image, "JPEG", quality=88, subsampling=subsampling, progressive=progressive)
            cases.add(f"JPEG subsampling {subsampling} progressive {progressive}", data)
    cases.add("JPEG optimized, low quality", encoded(image, "JPEG", quality=20, optimize=True))
    cases.add("JPEG stored as RGB", encoded(image, "JPEG", keep_rgb=True))
    cases.add("JPEG restart markers", encoded(image, "JPEG", restart_marker_rows=1))
    cases.add("JPEG gray", encoded(image.convert("L"), "JPEG"))
    cases.add("JPEG gray progressive", encoded(image.convert("L"), "JPEG", progressive=True))
    inks = np.concatenate([rgb, alpha_of(HEIGHT, WIDTH)], -1)
    cases.add("JPEG CMYK", encoded(Image.fromarray(inks, "CMYK"), "JPEG"), tolerance=2)
    # The same four channels, declared as YCCK: Adobe's transform byte is the last of its marker.
    data = bytearray(encoded(Image.fromarray(inks, "CMYK"), "JPEG"))
    data[data.index(b"Adobe") + 11] = 2
    cases.add("JPEG YCCK", bytes(data), tolerance=2)
    exif = Image.Exif()
    exif[0x0112] = 6
    cases.add("JPEG with EXIF rotation", encoded(image, "JPEG", exif=exif))


def add_png(cases, rgb):
    image = Image.fromarray(rgb)
    alpha = alpha_of(HEIGHT, WIDTH)
    cases.add("PNG RGB", encoded(image, "PNG"))
    cases.add("PNG RGBA", encoded(Image.fromarray(np.concatenate([rgb, alpha], -1)), "PNG"))
    cases.add("PNG RGB with a transparent color", encoded(image, "PNG", transparency=(250, 10, 40)))
    cases.add("PNG gray", encoded(image.convert("L"), "PNG"))
    cases.add("PNG gray and alpha", encoded(image.convert("LA"), "PNG"))
    for colors in (2, 4, 16, 256):
        paletted = image.quantize(colors)
        cases.add(f"PNG palette {colors}", encoded(paletted, "PNG"))
        cases.add(f"PNG palette {colors} transparent", encoded(paletted, "PNG", transparency=1))
    cases.add("PNG bilevel", encoded(image.convert("1"), "PNG"))
    gray = rgb[..., 0]
    for bits in (1, 2, 4):
        cases.add(f"PNG gray {bits} bits", raw_png(packed(gray >> (8 - bits), bits), bits, 0))
    low = RANDOM.integers(0, 256, rgb.shape).astype(np.uint8)
    for name, samples, color_type in (
            ("gray", rgb[..., :1], 0), ("RGB", rgb, 2),
            ("gray and alpha", np.concatenate([rgb[..., :1], alpha], -1), 4),
            ("RGBA", np.concatenate([rgb, alpha], -1), 6)):
        low = RANDOM.integers(0, 256, samples.shape).astype(np.uint8)
        wide = np.stack([samples, low], -1).reshape(HEIGHT, -1)
        expected = np.repeat(samples[..., :1], 3, -1) if color_type in (0, 4) else rgb
        cases.add(f"PNG {name} 16 bits", raw_png(wide, 16, color_type), expected)


def add_tiff(cases, rgb):
    image = Image.fromarray(rgb)
    alpha = alpha_of(HEIGHT, WIDTH)
    for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
        cases.add(f"TIFF RGB {compression}", encoded(image, "TIFF", compression=compression))
        cases.add(f"TIFF gray {compression}", encoded(image.convert("L"), "TIFF", compression=compression))
    cases.add("TIFF RGBA", encoded(Image.fromarray(np.concatenate([rgb, alpha], -1)), "TIFF"))
    cases.add("TIFF palette", encoded(image.quantize(200), "TIFF"))
    cases.add("TIFF bilevel", encoded(image.convert("1"), "TIFF"))
    cases.add("TIFF fax", encoded(image.convert("1"), "TIFF", compression="group4"))
    inks = np.concatenate([rgb, alpha], -1)
    cases.add("TIFF CMYK", encoded(Image.fromarray(inks, "CMYK"), "TIFF"), tolerance=2)
    muted = Image.blend(image, Image.new("RGB", image.size, "gray"), 0.5)
    # The colors before: Pillow's way back from Lab interpolates, and is up to 14 levels off where they are pure.
    cases.add("TIFF Lab", encoded(muted.convert("LAB"), "TIFF"), np.asarray(muted), tolerance=4)
    cases.add("TIFF JPEG inside", encoded(image, "TIFF", compression="jpeg", quality=90))
    cases.add("TIFF gray JPEG inside", encoded(image.convert("L"), "TIFF", compression="jpeg"))
    cases.add("TIFF predictor", encoded(image, "TIFF", compression="tiff_lzw", tiffinfo={317: 2}))
    wide = RANDOM.integers(0, 65536, (HEIGHT, WIDTH)).astype(np.uint16)
    high = np.repeat((wide >> 8).astype(np.uint8)[..., None], 3, -1)
    cases.add("TIFF gray 16 bits", encoded(Image.fromarray(wide), "TIFF"), high)
    cases.add("TIFF tiled", tiled_tiff(rgb, 32))
    cases.add("TIFF planes", planar_tiff(rgb))
    cases.add("TIFF white is zero", planar_tiff(rgb[..., :1], photometric=0))
    cases.add("TIFF premultiplied", planar_tiff(inks, photometric=2, extra=1))


def add_turned(cases, rgb):
    """Every EXIF orientation in the four formats that have one: as stored, upright, and upright and resized."""
    image = Image.fromarray(rgb)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        for kind in ("JPEG", "PNG", "WEBP", "TIFF"):
            data = encoded(image, kind, **({"tiffinfo": {0x0112: orientation}} if kind == "TIFF" else {"exif": exif}))
            cases.add(f"{kind} orientation {orientation}, as stored", data, rgb if kind == "TIFF" else None)
            cases.add(f"{kind} orientation {orientation}", data, exif="apply")
            with Image.open(io.BytesIO(data)) as stored:
                upright = ImageOps.exif_transpose(stored).convert("RGB")
            cases.add(f"{kind} orientation {orientation}, resized", data, resized(upright, 32), 1, 32, exif="apply")


def add_odd_orientations(cases, rgb):
    """Entries of every type and of strange values, in both byte orders, and cut off. Bytes, floats and lists do not count."""
    image = Image.fromarray(rgb)
    for order, mark in ("<", b"II*\0"), (">", b"MM\0*"):
        for value in (0, 6, 8, 9, 255, 65535):
            for kind, code in (1, "B3x"), (2, "B3x"), (3, "H2x"), (4, "I"), (7, "B3x"), (8, "H2x"), (9, "I"):
                for count in (0, 1, 2):
                    entry = struct.pack(order + "HHI" + code, 0x0112, kind, count, value & (255 if code[0] == "B" else 65535))
                    directory = struct.pack(order + "IH", 8, 2) + entry + entry
                    for length in (len(directory), 12, 20):
                        data = encoded(image.crop((0, 0, 2, 2)), "JPEG", exif=b"Exif\0\0" + mark + directory[:length])
                        cases.add(f"JPEG EXIF {mark} type {kind}, {count} of {value}, {length} bytes", data)


def orientation_of(path):
    """Pillow's answer, 1 where it fails or answers what does not turn."""
    with Image.open(path) as image:
        try:
            found = image.getexif().get(0x0112, 1)
        except (SyntaxError, ValueError, struct.error):
            found = 1
    return found if isinstance(found, int) and 1 <= found <= 8 else 1


def tiff(entries, blocks, shape, big_endian=False):
    """A TIFF by hand. `entries` holds tag -> list of shorts; offsets and byte counts are added for `blocks`."""
    order = ">" if big_endian else "<"
    tiled = 322 in entries
    offsets, at = [], 8
    for block in blocks:
        offsets.append(at)
        at += len(block)
    entries = {256: [shape[1]], 257: [shape[0]], 259: [1], **entries}
    longs = {324 if tiled else 273: offsets, 325 if tiled else 279: [len(b) for b in blocks]}
    values = [(tag, 3, "H", value) for tag, value in entries.items()]
    values += [(tag, 4, "I", value) for tag, value in longs.items()]
    body, directory = b"".join(blocks), b""
    for tag, kind, code, value in sorted(values):
        packed_value = struct.pack(order + code * len(value), *value)
        if len(packed_value) > 4:
            place = 8 + len(body)
            body += packed_value
            packed_value = struct.pack(order + "I", place)
        directory += struct.pack(order + "HHI", tag, kind, len(value)) + packed_value.ljust(4, b"\0")
    magic = b"MM\0*" if big_endian else b"II*\0"
    return (magic + struct.pack(order + "I", 8 + len(body)) + body
            + struct.pack(order + "H", len(values)) + directory + b"\0\0\0\0")


def tiled_tiff(rgb, side):
    down, across = -(-HEIGHT // side), -(-WIDTH // side)
    padded = np.zeros((down * side, across * side, 3), np.uint8)
    padded[:HEIGHT, :WIDTH] = rgb
    blocks = [padded[y * side:(y + 1) * side, x * side:(x + 1) * side].tobytes()
              for y in range(down) for x in range(across)]
    entries = {258: [8] * 3, 262: [2], 277: [3], 322: [side], 323: [side]}
    return tiff(entries, blocks, rgb.shape, big_endian=True)


def planar_tiff(samples, photometric=2, extra=None):
    count = samples.shape[-1]
    entries = {258: [8] * count, 262: [photometric], 277: [count], 278: [HEIGHT]}
    if extra is not None:
        entries[338] = [extra]
        return tiff(entries, [samples.tobytes()], samples.shape)
    if count > 1:
        entries[284] = [2]
    return tiff(entries, [samples[..., i].tobytes() for i in range(count)], samples.shape)


def add_others(cases, rgb):
    image = Image.fromarray(rgb)
    with_alpha = Image.fromarray(np.concatenate([rgb, alpha_of(HEIGHT, WIDTH)], -1))
    for name, source in (("RGB", image), ("RGBA", with_alpha)):
        cases.add(f"WebP lossy {name}", encoded(source, "WEBP", quality=80))
        cases.add(f"WebP lossless {name}", encoded(source, "WEBP", lossless=True, exact=True))
    frames = [image.rotate(180)]
    cases.add("WebP animation", encoded(image, "WEBP", save_all=True, append_images=frames, lossless=True))
    cases.add("PPM", encoded(image, "PPM"))
    cases.add("PGM", encoded(image.convert("L"), "PPM"))
    narrow = (rgb // 3).tobytes()
    cases.add("PPM maximum 85", f"P6 {WIDTH} {HEIGHT} 85\n".encode() + narrow)
    wide = RANDOM.integers(0, 65536, (HEIGHT, WIDTH)).astype(">u2")
    high = np.repeat((wide >> 8).astype(np.uint8)[..., None], 3, -1)
    cases.add("PGM 16 bits", f"P5 {WIDTH} {HEIGHT} 65535\n".encode() + wide.tobytes(), high)


def bmp(bits, rows, palette=b"", *, header=40, compression=0, colors=0, masks=(), gap=0, offset=None, top_down=False):
    """`rows`: bytes of each row from the top, or the run lengths of all. `colors`: what the header says of the palette."""
    runs = isinstance(rows, bytes)
    data = rows if runs else b"".join(row.ljust((len(row) + 3) // 4 * 4, b"\0") for row in rows[::1 if top_down else -1])
    height = BMP_HEIGHT if runs else len(rows)
    head = struct.pack("<IIiHHIIIIII", header, BMP_WIDTH, -height if top_down else height, 1, bits, compression, 0, 0, 0,
                       colors, 0)
    head += struct.pack(f"<{len(masks)}I", *masks)
    head = head.ljust(header, b"\0")
    begin = 14 + len(head) + len(palette) + gap
    return (b"BM" + struct.pack("<IHHI", begin + len(data), 0, 0, begin if offset is None else offset) + head + palette
            + bytes(gap) + data)


BMP_WIDTH, BMP_HEIGHT = 21, 7
BMP_RUNS = b"".join((  # rows of run lengths, of pixels as they are, with skipped pixels, with more than the row holds
    bytes([20, 0x12, 1, 3, 0, 0]), bytes([0, 6]) + bytes(range(6)) + bytes([0, 5]) + bytes(range(9, 15)),
    bytes([10, 0x7f, 0, 0, 5, 0x21, 0, 2, 3, 1, 9, 7, 0, 0]), bytes([255, 0x34, 0, 0]), bytes([0, 2, 200, 9])))
BMP_MASKS = {16: ((0xF800, 0x7E0, 0x1F), (0x7C00, 0x3E0, 0x1F)), 24: ((0xFF0000, 0xFF00, 0xFF),),
             32: ((0xFF0000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0), (0xFF000000, 0xFF00, 0xFF, 0),
                  (0xFF000000, 0xFF0000, 0xFF00, 0xFF), (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
                  (0xFF0000, 0xFF00, 0xFF, 0xFF000000), (0xFF000000, 0xFF00, 0xFF, 0xFF0000), (0, 0, 0, 0))}


def add_bmp(cases, rgb):
    image = Image.fromarray(rgb)
    for mode in ("RGB", "RGBA", "L", "1", "P"):
        cases.add(f"BMP {mode}", encoded(image.convert(mode), "BMP"))
    rows = {bits: [RANDOM.bytes((BMP_WIDTH * bits + 7) // 8) for _ in range(BMP_HEIGHT)] for bits in (1, 4, 8, 16, 24, 32)}
    for header in (40, 52, 56, 108, 124):
        for bits, samples in rows.items():
            palette = RANDOM.bytes(4 << bits) if bits <= 8 else b""
            for gap in (0, 1, 70):
                cases.add(f"BMP {bits} bits, header {header}, gap {gap}", bmp(bits, samples, palette, header=header, gap=gap))
            cases.add(f"BMP {bits} bits, header {header}, top row first",
                      bmp(bits, samples, palette, header=header, top_down=True))
            for masks in BMP_MASKS.get(bits, ()) if header >= 56 else ():
                cases.add(f"BMP {bits} bits, header {header}, {masks}",
                          bmp(bits, samples, header=header, masks=masks, compression=3))
    for bits, all_masks in BMP_MASKS.items():
        cases.add(f"BMP {bits} bits, fields after the header", bmp(bits, rows[bits], masks=all_masks[0][:3], compression=3))
    for count in (1, 2, 5, 255):
        grays = b"".join(bytes([level, level, level, 0]) for level in range(count))
        for name, palette in (("colors", RANDOM.bytes(4 * count)), ("grays", grays)):
            if count > 2 or name == "colors":
                cases.add(f"BMP 8 bits, {count} {name}", bmp(8, rows[8], palette, colors=count))
            for bits in (1, 4, 8):
                for compression in (1, 2):
                    cases.add(f"BMP runs {compression}, {bits} bits, {count} {name}",
                              bmp(bits, BMP_RUNS, palette, colors=count, compression=compression, top_down=count == 5))
    cases.add("BMP where the pixels are within the palette", bmp(8, rows[8], RANDOM.bytes(20), colors=200, offset=60))
    cases.add("BMP offset 0", bmp(4, rows[4], RANDOM.bytes(64), offset=0))
    cases.add("BMP offset of the header's end", bmp(4, rows[4], RANDOM.bytes(20), colors=5, offset=54))
    cases.add("BMP 24 bits, suggested palette", bmp(24, rows[24], RANDOM.bytes(20), colors=5))


def resized(image, size):
    """torchvision's Resize(round(size * 256 / 224)) and CenterCrop(size)."""
    width, height = image.size
    short, long = min(width, height), max(width, height)
    target = round(size * 256 / 224)
    other = int(target * long / short)
    width, height = (target, other) if width <= height else (other, target)
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - size) / 2.0), round((height - size) / 2.0)
    return np.asarray(image.crop((left, top, left + size, top + size)))


def whole(image, size, fit):
    """Pillow's resize() to a square, or inside of one and pasted onto the mean color of ImageNet."""
    width, height = image.size
    inner = (size, size) if fit == "stretch" else tuple(max(1, size * side // max(width, height)) for side in (width, height))
    square = Image.new("RGB", (size, size), (124, 116, 104))
    square.paste(image.resize(inner, Image.Resampling.BILINEAR), tuple(round((size - side) / 2) for side in inner))
    return np.asarray(square)


def add_whole(cases, rgb):
    """--fit pad and stretch: wide and tall, larger and smaller, a line of pixels, and a JPEG that shrinks far."""
    large = np.repeat(np.repeat(RANDOM.integers(0, 256, (60, 240, 3)).astype(np.uint8), 9, 0), 9, 1)
    for shape in ((HEIGHT, WIDTH), (60, 80), (200, 50), (50, 200), (900, 1), (1, 900), (33, 33), large.shape[:2]):
        is_large = shape == large.shape[:2]
        image = Image.fromarray(large if is_large else rgb).resize((shape[1], shape[0]), Image.Resampling.BICUBIC)
        data = encoded(image, "JPEG", quality=92) if is_large else encoded(image, "PNG")
        with Image.open(io.BytesIO(data)) as stored:
            decoded = stored.convert("RGB")
        for fit in ("pad", "stretch"):
            for size in (32, 97, 224):
                cases.add(f"{fit} {shape} to {size}", data, whole(decoded, size, fit), 1, size, fit=fit)


def add_resized(cases, rgb):
    for shape in ((HEIGHT, WIDTH), (WIDTH, HEIGHT), (600, 401), (37, 300)):
        image = Image.fromarray(rgb).resize((shape[1], shape[0]), Image.Resampling.BICUBIC)
        for size in (32, 97, 224):
            cases.add(f"resize {shape} to {size}", encoded(image, "PNG"), resized(image, size), 1, size)


def add_large_jpeg(cases, _):
    """Shrunk so much that a decoder is tempted to begin with fewer pixels."""
    mosaic = RANDOM.integers(0, 256, (223, 334, 3)).astype(np.uint8)
    rgb = np.repeat(np.repeat(mosaic, 9, 0), 9, 1)[:2000, :3000]
    data = encoded(Image.fromarray(rgb), "JPEG", quality=92)
    with Image.open(io.BytesIO(data)) as image:
        decoded = image.convert("RGB")
    for size in (32, 97, 224):
        cases.add(f"large JPEG to {size}", data, resized(decoded, size), 1, size)


def photographs():
    shared = Path(os.environ.get("KILN_SHARED", SOURCE.parent / "shared"))
    return sorted(p for p in (shared / "data" / "photos").rglob("*") if p.is_file())[:60]


def add_photographs(cases):
    for path in photographs():
        data = path.read_bytes()
        try:
            image = Image.open(io.BytesIO(data)).convert("RGB")
        except (OSError, ValueError):
            continue
        cases.add(path.name, data)
        cases.add(f"{path.name} resized", data, resized(image, 224), 1, 224)


def read_pixels(path):
    width, height = map(int, (data := path.read_bytes()).split(b"\n", 1)[0].split()[1:3])
    return np.frombuffer(data.split(b"\n", 1)[1], np.uint8).reshape(height, width, 3)


def failures_of(cases, tool):
    listing = cases.folder / "list"
    listing.write_text("".join(f"{p}\t{size}\t{fit}\t{exif}\t{p}.ppm\n" for _, p, size, _, _, exif, fit in cases.list))
    output = subprocess.run([tool, listing], capture_output=True, text=True, check=True).stdout
    told = {path: answer for path, *answer in (line.split("\t", 2) for line in output.splitlines())}
    for name, path, _, expected, tolerance, *_ in cases.list:
        orientation, fault = told[str(path)]
        if fault:
            yield f"{name}: {fault}"
            continue
        if int(orientation) != orientation_of(path):
            yield f"{name}: orientation {orientation} instead of {orientation_of(path)}"
        got = read_pixels(Path(f"{path}.ppm"))
        if got.shape != expected.shape:
            yield f"{name}: {got.shape} instead of {expected.shape}"
            continue
        difference = np.abs(got.astype(int) - expected.astype(int))
        if difference.max() > tolerance:
            yield (f"{name}: differs by {difference.max()} in {(difference > tolerance).mean():.2%} "
                   f"of the samples (allowed: {tolerance})")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    rgb = picture()
    with tempfile.TemporaryDirectory() as folder:
        cases = Cases(folder)
        for add in (add_jpeg, add_png, add_tiff, add_bmp, add_others, add_turned, add_odd_orientations, add_resized,
                    add_whole, add_large_jpeg):
            add(cases, rgb)
        add_photographs(cases)
        failures = list(failures_of(cases, sys.argv[1]))
        for failure in failures:
            print(failure)
        print(f"{len(cases.list) - len(failures)} of {len(cases.list)} images as Pillow's")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
