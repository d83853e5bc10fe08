"""Small images for tests, written as users have them."""

from pathlib import Path

from PIL import Image

Color = int | tuple[int, ...]


def paint(path: Path, color: Color = (10, 20, 30), *, size: tuple[int, int] = (6, 4), mode: str = "RGB") -> Path:
    """Write an image of one color, width times height, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, color).save(path)
    return path
