"""The layout: tests mirror the packages, class names are used once, import layers are few."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS, PACKAGE = ROOT / "tests", ROOT / "src" / "scrl"
OF_NO_MODULE = {"test_docs", "test_examples", "test_layout", "test_shapes"}
"""Top-level tests of something else than a module of the package."""
MOST_LAYERS = 20


def folders_of_tests() -> set[Path]:
    return {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - {Path()}


def packages() -> set[Path]:
    return {path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("__init__.py")} - {Path()}


def test_every_folder_of_tests_mirrors_a_package() -> None:
    assert folders_of_tests() <= packages()


def test_every_package_has_tests() -> None:
    with_tests = {folder.parts[0] for folder in folders_of_tests()}
    assert with_tests == {package.parts[0] for package in packages()}


def test_every_test_beside_them_names_a_module() -> None:
    modules = {f"test_{path.stem}" for path in PACKAGE.iterdir()}
    found = {path.stem for path in TESTS.glob("test_*.py")}
    assert found >= OF_NO_MODULE
    assert found - modules == OF_NO_MODULE


def test_no_class_name_is_used_twice() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")]
    named = Counter(
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    assert len(named) > 100
    assert [name for name, count in named.items() if count > 1] == []


def test_the_import_contract_has_few_layers() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    assert contract["exhaustive"] is True
    assert len(contract["layers"]) <= MOST_LAYERS
