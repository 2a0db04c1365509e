"""Label images and arrays: every bit depth, GeoTIFF places, resampling, and what is refused."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import DTypeLike
from PIL import Image, TiffImagePlugin

from scrl.errors import MapError
from scrl.worlds.sweep.maps import MapOptions, load_map
from scrl.worlds.sweep.regions import RegionMap

LABELS = np.array([[0, 1, 1], [2, 2, 1]])
DOUBLE, SHORT = 12, 3


def refusal(path: Path, options: MapOptions = MapOptions()) -> str:  # noqa: B008  frozen
    with pytest.raises(MapError) as caught:
        load_map(path, options)
    return str(caught.value).removeprefix(f"{path}: ")


def assert_same_labels(region_map: RegionMap) -> None:
    assert region_map.names == ("S1", "S2")
    assert (region_map.masks[0] == (LABELS == 1)).all()
    assert (region_map.masks[1] == (LABELS == 2)).all()


@pytest.mark.parametrize(
    ("suffix", "kind"),
    [
        ("png", np.uint8),
        ("png", np.uint16),
        ("tif", np.uint8),
        ("TIFF", np.uint16),
        ("tif", np.int32),
        ("tif", np.float32),
        ("bmp", np.uint8),
        ("gif", np.uint8),
    ],
)
def test_grey_values_are_labels(tmp_path: Path, suffix: str, kind: DTypeLike) -> None:
    path = tmp_path / f"map.{suffix}"
    Image.fromarray(LABELS.astype(kind)).save(path)
    assert_same_labels(load_map(path))
    assert load_map(path).georeference is None


@pytest.mark.parametrize("suffix", ["png", "tif", "bmp", "gif"])
def test_palette_indices_are_labels(tmp_path: Path, suffix: str) -> None:
    image = Image.fromarray(LABELS.astype(np.uint8))
    image.putpalette([9, 9, 9, 200, 0, 0, 0, 200, 0])
    path = tmp_path / f"map.{suffix}"
    image.save(path)
    if suffix != "gif":  # GIF may reorder its palette, so only the shape of the regions is kept
        assert_same_labels(load_map(path))
    assert load_map(path).shape == (2, 3)


def test_a_picture_of_bits_has_one_region(tmp_path: Path) -> None:
    Image.fromarray(LABELS > 0).save(tmp_path / "bits.png")
    assert load_map(tmp_path / "bits.png").sizes.tolist() == [5]


@pytest.mark.parametrize(("bits", "row"), [(2, 0b00_01_10_11), (4, 0x0123)])
def test_small_bit_depths_keep_their_labels(tmp_path: Path, bits: int, row: int) -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 1, bits, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"\0" + row.to_bytes(4 * bits // 8, "big")))
    path = tmp_path / "small.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + pixels + chunk(b"IEND", b""))
    region_map = load_map(path)
    assert region_map.names == ("S1", "S2", "S3")
    assert region_map.masks[:, 0].argmax(axis=1).tolist() == [1, 2, 3]


def save_geotiff(
    path: Path,
    keys: tuple[int, ...],
    tie: tuple[float, ...] = (0, 0, 0, 5.0, 60.0, 0),
    scale: tuple[float, ...] = (0.5, 0.25, 0),
) -> None:
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    for tag, kind, value in ((33550, DOUBLE, scale), (33922, DOUBLE, tie), (34735, SHORT, keys)):
        tags[tag] = tuple(value)
        tags.tagtype[tag] = kind
    Image.fromarray(LABELS.astype(np.uint8)).save(path, tiffinfo=tags)


@pytest.mark.parametrize(
    ("model", "pixel", "kind", "left", "top"),
    [
        (2, 1, "geographic", 5.0, 60.0),
        (1, 1, "plain", 5.0, 60.0),
        (2, 2, "geographic", 4.75, 60.125),  # the tie point is the centre of the first pixel
    ],
)
def test_a_geotiff_keeps_its_place(
    tmp_path: Path, model: int, pixel: int, kind: str, left: float, top: float
) -> None:
    path = tmp_path / "field.tif"
    save_geotiff(path, (1, 1, 0, 2, 1024, 0, 1, model, 1025, 0, 1, pixel))
    where = load_map(path).georeference
    assert where is not None
    assert (where.kind, where.left, where.top) == (kind, left, top)
    assert (where.cell_width, where.cell_height, where.shape) == (0.5, 0.25, (2, 3))
    finer = load_map(path, MapOptions(grid=(4, 6))).georeference
    assert finer is not None
    assert (finer.extent, finer.cell_width, finer.cell_height) == (where.extent, 0.25, 0.125)


def test_a_geotiff_tied_at_an_inner_pixel(tmp_path: Path) -> None:
    path = tmp_path / "field.tif"
    save_geotiff(path, (1, 1, 0, 0), tie=(2, 1, 0, 6.0, 59.75, 0))
    where = load_map(path).georeference
    assert where is not None
    assert (where.left, where.top, where.kind) == (5.0, 60.0, "plain")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tie": (0, 0, 0)}, "the GeoTIFF's pixel scale or tie point is broken"),
        ({"scale": (0, 1, 0)}, "a cell must be wider and higher than 0 map units, not 0 x 1"),
        ({"scale": (float("nan"), 1, 0)}, "the georeference holds a number that is not finite"),
        ({"tie": (0, 0, 0, 5e5, 6e6, 0)}, "these are not degrees of longitude and latitude"),
    ],
)
def test_a_broken_geotiff(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "field.tif"
    save_geotiff(path, (1, 1, 0, 1, 1024, 0, 1, 2), **change)
    assert refusal(path).startswith(message)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "CMYK"])
def test_colours_are_no_labels(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "photo.tif"
    Image.new(mode, (2, 2)).save(path)
    assert refusal(path) == (
        f"the image has colours ({mode}) and labels are needed: "
        "save it as greyscale or with a palette, one value for each region"
    )


def test_images_refused(tmp_path: Path) -> None:
    path = tmp_path / "map.png"
    path.write_bytes(b"no picture")
    assert refusal(path) == "its contents are not those of an image"
    whole = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 9, (100, 100), dtype=np.uint8)
    Image.fromarray(noise).save(whole, "PNG")
    path.write_bytes(whole.getvalue()[:900])
    assert refusal(path).startswith("not a readable image: ")
    Image.new("L", (3, 3)).save(path)
    assert refusal(path) == "the map has no region: every cell is unlabelled"
    path = tmp_path / "film.gif"
    frames = [Image.new("L", (3, 3), colour) for colour in (10, 200)]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    assert refusal(path) == "the image has 2 frames and one is needed"


@pytest.mark.parametrize("side", [9_000, 12_000, 20_000])
def test_decompression_bombs_are_refused(tmp_path: Path, side: int) -> None:
    """Over our own limit, over Pillow's warning and over Pillow's error."""
    path = tmp_path / "bomb.png"
    Image.new("1", (side, side)).save(path)
    assert refusal(path) == "the image is larger than 64,000,000 pixels"


def test_resampling_takes_the_value_at_the_centre(tmp_path: Path) -> None:
    np.save(tmp_path / "map.npy", np.array([[1, 2, 3], [4, 5, 6]]))
    region_map = load_map(tmp_path / "map.npy", MapOptions(grid=(1, 2)))
    # The centres are at half the height (the second row) and at columns 0.75 and 2.25.
    assert region_map.names == ("S4", "S6")
    doubled = load_map(tmp_path / "map.npy", MapOptions(grid=(4, 6)))
    assert doubled.sizes.tolist() == [4] * 6


@pytest.mark.parametrize("kind", ["image", "labels", "masks"])
def test_on_another_grid_a_forbidden_label_takes_every_cell_that_it_overlaps(
    tmp_path: Path, kind: str
) -> None:
    """Of 4 x 6 pixels, one is forbidden; on 2 x 4 cells, a cell is 2 pixels by 1.5."""
    labels = np.ones((4, 6), int)
    labels[0, 1] = 2
    if kind == "image":
        path = tmp_path / "map.png"
        Image.fromarray(labels.astype(np.uint8)).save(path)
    else:
        path = tmp_path / "map.npy"
        np.save(path, labels if kind == "labels" else np.stack([labels == 1, labels == 2]))
    found = load_map(path, MapOptions(grid=(2, 4), forbidden="S2"))
    assert found.forbidden.tolist() == [[True, True, False, False], [False] * 4]
    named = MapOptions(grid=(2, 4), forbidden="pond", regions=("farm", "pond"))
    assert (load_map(path, named).forbidden == found.forbidden).all()


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_labels_and_of_masks(tmp_path: Path, order: Literal["C", "F"]) -> None:
    path = tmp_path / "map.npy"
    np.save(path, np.asarray(LABELS, order=order))
    assert_same_labels(load_map(path))
    stack = np.asarray([LABELS == 1, LABELS > 0], order=order)
    for masks in (stack, stack.astype(np.uint8), stack.astype(float)):
        np.save(path, masks)
        assert load_map(path, MapOptions(regions=("a", "b"))).sizes.tolist() == [3, 5]
    np.save(path, LABELS.astype(">u2"))
    assert_same_labels(load_map(path))


SHAPES = (
    ": (row, column) for labels or (region, row, column) for masks is needed, none of them empty"
)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[1, np.nan]]), "labels must be whole numbers from 0: row 0, column 1 holds nan"),
        (np.array([[1, -1]]), "labels must be whole numbers from 0: row 0, column 1 holds -1"),
        (np.array([[0.5]]), "labels must be whole numbers from 0: row 0, column 0 holds 0.5"),
        (np.array([[1j]]), "labels must be whole numbers, not values of type complex128"),
        (np.array([[None]]), "labels must be whole numbers, not values of type object"),
        (np.array([["a"]]), "labels must be whole numbers, not values of type <U1"),
        (np.zeros((0, 3)), "the array has shape (0, 3)" + SHAPES),
        (np.array(3), "the array has shape ()" + SHAPES),
        (np.ones((1, 1, 1, 1)), "the array has shape (1, 1, 1, 1)" + SHAPES),
        (np.full((1, 1, 2), 2), "a stack of masks may hold only true and false, or 1 and 0"),
        (np.array([[[np.nan]]]), "a stack of masks may hold only true and false, or 1 and 0"),
    ],
)
def test_arrays_refused(tmp_path: Path, array: np.ndarray, message: str) -> None:
    path = tmp_path / "map.npy"
    np.save(path, array)
    assert refusal(path) == message


def test_a_header_that_lies_allocates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "map.npy"
    np.save(path, np.ones((2, 3), np.uint8))
    honest = path.read_bytes()
    path.write_bytes(honest.replace(b"(2, 3), }    ", b"(7000, 9000)}"))
    assert refusal(path) == "the header promises 63,000,000 bytes of data, the file has 6"
    path.write_bytes(honest.replace(b"(2, 3), }      ", b"(99999, 99999)}"))
    assert refusal(path) == "the array has 9,999,800,001 values, more than 64,000,000"
    path.write_bytes(honest.replace(b"(2, 3), }", b"(-2, -3)}"))
    assert refusal(path) == "the array has shape (-2, -3)" + SHAPES
    path.write_bytes(honest[:-1])
    assert refusal(path) == "the header promises 6 bytes of data, the file has 5"
    path.write_bytes(b"")
    assert refusal(path).startswith("not a readable .npy array: ")
