import ast
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import certs

FOLDER = Path(certs.__file__).parent


PUBLIC = (
    "ensure renew Result Change Part Force Lifetimes",
    "issue_ca issue_leaf Authority Pair Names Address",
    "CA_LIFETIME LEAF_LIFETIME MIN_LIFETIME CLOCK_SKEW LOOK_AHEAD",
    "renewal_time needs_renewal bundle",
    "check_ca check_leaf Finding Problem",
    "is_managed load_bundle load_pair reading",
    "CertsError NameFormatError LifetimeError AuthorityError NotOursError",
    "FolderError LockTimeoutError MissingFileError UnreadableFileError",
    "PairError PairMismatchError PairExpiredError PairNotYetValidError",
)


def test_the_public_names_are_these():
    assert sorted(certs.__all__) == sorted(name for line in PUBLIC for name in line.split())


@pytest.mark.parametrize("name", certs.__all__)
def test_every_public_name_is_there_and_has_a_docstring_if_it_can(name):
    thing = getattr(certs, name)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        assert inspect.getdoc(thing)


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        ("ensure", "(folder, dns_names=(), addresses=(), *, now, lifetimes=, force=)"),
        ("renew", "(folder, *, now, force=)"),
        ("issue_ca", "(*, now, lifetime=)"),
        ("issue_leaf", "(authority, names, *, now, lifetime=)"),
        ("renewal_time", "(certificate)"),
        ("needs_renewal", "(certificate, now)"),
        ("bundle", "(current, previous, now)"),
        ("check_ca", "(certificate, key, *, now, look_ahead=)"),
        ("check_leaf", "(pair, trusted, names, *, now, look_ahead=)"),
        ("is_managed", "(folder)"),
        ("load_pair", "(folder)"),
        ("load_bundle", "(folder)"),
        ("reading", "(folder, wait=)"),
    ],
)
def test_the_public_functions_take_these_parameters(function, parameters):
    shown, keyword_only = [], False
    for parameter in inspect.signature(getattr(certs, function)).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            shown.append("*")
        default = "" if parameter.default is parameter.empty else "=()" if parameter.default == () else "="
        shown.append(parameter.name + default)
    assert f"({', '.join(shown)})" == parameters


def test_the_picture_of_the_errors_is_the_tree_of_the_errors():
    drawn, stack = {}, []
    for line in certs.__doc__.splitlines():
        match = re.match(r"    ((?:│   |    |├── |└── )*)([A-Za-z]+Error)\b", line)
        if match:
            depth = len(match[1]) // 4
            stack[depth:] = [match[2]]
            drawn[match[2]] = stack[depth - 1] if depth else "Exception"
    real = {
        name: thing.__bases__[0].__name__
        for name, thing in vars(certs).items()
        if inspect.isclass(thing) and issubclass(thing, Exception)
    }
    assert drawn == real


@pytest.mark.parametrize("error", [certs.NameFormatError, certs.LifetimeError])
def test_wrong_input_is_a_value_error_as_well(error):
    assert issubclass(error, ValueError)


def modules():
    return sorted(FOLDER / f"{module.name}.py" for module in pkgutil.iter_modules([str(FOLDER)]))


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.name)
def test_no_module_needs_the_server(path):
    assert not [name for name in imported(path) if name.split(".")[0] == "admission"]


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.name)
def test_only_the_command_reads_the_clock(path):
    calls = re.findall(r"\b(?:datetime\.(?:now|utcnow|today)|time\.time)\(", path.read_text())
    assert calls == (["datetime.now("] if path.name == "cli.py" else [])


def test_the_package_says_that_it_is_typed():
    assert (FOLDER / "py.typed").exists()
