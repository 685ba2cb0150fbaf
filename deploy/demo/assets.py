"""Fetches the demo's model and clips by version and sha256; does nothing where they are there already."""

import sys
from pathlib import Path

from edge_runtime.durable import sha256_file, write_file
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.packages import ensure_weights
from edge_runtime.packages.fetch import obtain
from edge_runtime.packages.recipe import read_recipe

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
CLIPS = REPOSITORY / ".cache" / "clips"
MODEL = REPOSITORY / "models" / "centerface"


def fetch_clip(recipe_path: Path, directory: Path) -> Path:
    """The clip that a recipe names, in `directory`, fetched if it is absent or damaged.

    Raises:
        EdgeRuntimeError: it cannot be obtained, or is another file than the recipe names.
    """
    recipe = read_recipe(recipe_path)
    clip = directory / (recipe_path.name.removesuffix(".recipe.json") + ".mp4")
    if not clip.is_file() or sha256_file(clip) != recipe.original_sha256:
        directory.mkdir(parents=True, exist_ok=True)
        data = obtain(recipe, recipe_path.parent)
        write_file(clip, data)
        sys.stderr.write(f"fetched {clip.relative_to(REPOSITORY)} ({recipe.source.describe()})\n")
    return clip


def main() -> int:
    """Fetches everything; the exit code says whether it is there."""
    try:
        for recipe in sorted(HERE.glob("*.recipe.json")):
            fetch_clip(recipe, CLIPS)
        ensure_weights(MODEL)
    except EdgeRuntimeError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
