"""Everything public in the package, found by looking."""

import inspect

import melisma
from melisma import _melisma, audio, dataset, mel, optimize, pack, snac, speak, synth

ROOMS = [melisma, audio, dataset, mel, optimize, pack, snac, speak, synth]
MODULES = {module.__name__.rpartition(".")[2]: module for module in ROOMS}
#: What calls return and no module exports.
RETURNED = {"melisma.Track": _melisma.Track}
#: Classes whose objects come from elsewhere only.
NOT_MADE = frozenset(
    {"melisma.PrecisionScope", "melisma.Server", "melisma.Tensor", "melisma.Track", "speak.SpeechStream"}
)
#: Methods without a public name that people or protocols call.
PROTOCOLS = frozenset(
    "__getitem__ __getitems__ __len__ __iter__ __call__ __enter__ __exit__ __array__ __str__ __repr__ __reduce__ "
    "_repr_html_".split()
)


def names():
    """Everything public: functions, classes, their methods and properties, with the object that says what it takes."""
    found = dict(RETURNED)
    for room, module in MODULES.items():
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value) and getattr(value, "__module__", "").startswith("melisma"):
                found[f"{room}.{name}"] = value
    for name, value in list(found.items()):
        if isinstance(value, type):
            for method in dir(value):
                owner = next(kind for kind in value.__mro__ if method in vars(kind))
                if owner.__module__.startswith("melisma") and (not method.startswith("_") or method in PROTOCOLS):
                    found[f"{name}.{method}"] = getattr(value, method)
    return {name: value for name, value in found.items() if name not in NOT_MADE}


def parameters(function):
    """The names of what a function takes, without `self`."""
    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in listed if one.kind not in kinds and one.name not in ("self", "cls")]
