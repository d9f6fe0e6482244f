"""The page: which files it is made of, and where it is served.

Owns the paths: the page itself at `/`, its modules below `/page/`, and the library that draws charts, which comes
inside a Python package and is there only if that is installed.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from penstock.web.asgi import App
from penstock.web.page.static_files import StaticFiles, files_below

PREFIX: Final = "/page/"
CHARTS: Final = "/page/plotly.min.js"


def with_page(site: App) -> App:
    """A site with the page in front of it."""
    found = files_below(files("penstock.web.page") / "static", PREFIX)
    index = found.pop(f"{PREFIX}index.html")
    return StaticFiles({"/": index, **found}, _charts(), site)


def _charts() -> dict[str, Traversable]:
    spec = find_spec("plotly")
    # By its folder: nothing of the package is imported.
    folders = () if spec is None else spec.submodule_search_locations or ()
    libraries = (Path(folder, "package_data", "plotly.min.js") for folder in folders)
    library = next((each for each in libraries if each.is_file()), None)
    return {} if library is None else {CHARTS: library}
