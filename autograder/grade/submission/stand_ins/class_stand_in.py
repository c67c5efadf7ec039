"""A learner's class on the trusted side: a real class without the learner's code, so that isinstance and except work."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable
from typing import Any

from autograder.grade.submission.stand_ins.refusals import Asks, steers
from autograder.grade.submission.stand_ins.special_methods import is_hidden, special_methods
from autograder.grade.wire.values.data_subclasses import BASES, CODECS, data_base

LOCAL = frozenset(
    {
        "__name__", "__qualname__", "__module__", "__class__", "__subclasses__",
        "__basicsize__", "__itemsize__", "__dictoffset__", "__weakrefoffset__", "__instancecheck__",
        "__subclasscheck__", "__text_signature__", "__copy__", "__deepcopy__", "__prepare__",
        "__type_params__", "__hash__", "_asks", "_claims", "_data", "_path", "_lacks", "_bases", "_extends", "_own",
    }
)  # fmt: skip
"""Attributes that Python's own machinery reads; they are the stand-in's."""


ABSTRACT = 1 << 20
"""Py_TPFLAGS_IS_ABSTRACT (Include/object.h, Python 3.11)."""


class ClassStandIn(type):
    """The type of the stand-ins of classes: calls and attributes are asked of the learner's class."""

    _is_of_learners = True

    def __new__(cls, name: str, bases: tuple[type, ...], _: dict[str, Any]) -> Any:
        """Refuses a class statement of the test's; stand-ins are made by `make_class`."""
        raise asks_of(bases[0]).refuse(
            f"{name}: a test cannot extend a class of the learner's from outside its process"
        )

    def __init__(cls, *_: Any) -> None:
        pass

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        """Returns a new instance, or its stand-in."""
        return asks_of(cls).operate("call", cls, arguments, keywords)

    def __getattribute__(cls, name: str) -> Any:
        if name in SHOWN:
            return SHOWN[name](cls)
        if name in LOCAL or not type.__getattribute__(cls, "_ready"):
            return type.__getattribute__(cls, name)
        if name == "__signature__":
            return _signature(cls)
        if is_hidden(name):
            return getattr(type.__getattribute__(cls, "_extends"), name)  # AttributeError where None has it neither
        return asks_of(cls).operate("getattr", cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        asks_of(cls).operate("setattr", cls, name, value)

    def __delattr__(cls, name: str) -> None:
        asks_of(cls).operate("delattr", cls, name)

    def __dir__(cls) -> Any:
        return asks_of(cls).operate("__dir__", cls)

    def __repr__(cls) -> str:
        return f"<class '__main__.{cls.__qualname__}'>"

    # The members of an Enum.
    def __iter__(cls) -> Any:
        return asks_of(cls).operate("__iter__", cls)

    def __len__(cls) -> int:
        return asks_of(cls).operate("__len__", cls)

    def __bool__(cls) -> bool:
        return True

    def __getitem__(cls, key: Any) -> Any:
        return asks_of(cls).operate("__getitem__", cls, key)


class InstanceStandIn:
    """The base of all stand-ins of instances: attributes are asked of the learner's object."""

    def __getattribute__(self, name: str) -> Any:
        kind = type(self)
        if name == "__class__":
            return type.__getattribute__(kind, "_claims") or kind
        if name in ("__copy__", "__deepcopy__") or _is_of_base(kind, name):
            return object.__getattribute__(self, name)
        if is_hidden(name):
            raise AttributeError(name)
        value = asks_of(kind).operate("getattr", self, name)
        if callable(value):
            asks_of(kind).check_member(kind, type.__getattribute__(kind, "_claims"), name)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        asks_of(type(self)).operate("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        asks_of(type(self)).operate("delattr", self, name)

    def __dir__(self) -> Any:
        return asks_of(type(self)).operate("__dir__", self)

    def __repr__(self) -> str:
        return asks_of(type(self)).operate("__repr__", self)

    def __str__(self) -> str:
        return asks_of(type(self)).operate("__str__", self)

    def __format__(self, form: str) -> str:
        return asks_of(type(self)).operate("__format__", self, form)

    def __copy__(self) -> Any:
        return asks_of(type(self)).operate("copy", self)

    def __deepcopy__(self, _: Any) -> Any:
        return asks_of(type(self)).operate("deepcopy", self)

    def __init_subclass__(cls) -> None:
        pass


class ErrorStandIn(Exception):
    """The base of all stand-ins of the learner's own exceptions."""

    text = ""

    def __getattr__(self, name: str) -> Any:
        if is_hidden(name) or name.startswith("__"):
            raise AttributeError(name)
        return asks_of(type(self)).operate("getattr", self, name)

    def __str__(self) -> str:
        return self.text


def _shown_mro(cls: type) -> tuple[type, ...]:
    return tuple(base for base in type.__getattribute__(cls, "__mro__") if base not in (InstanceStandIn, ErrorStandIn))


def _shown_bases(cls: type) -> tuple[type, ...]:
    """Returns what the learner's class says that it extends; of what a stand-in extends, there is more."""
    found = type.__getattribute__(cls, "_bases") or type.__getattribute__(cls, "__bases__")
    return tuple(base for base in found if base not in (InstanceStandIn, ErrorStandIn)) or (object,)


def _shown_flags(cls: Any) -> int:
    """Returns the flags of the stand-in, and that it is abstract where the learner's class is: `inspect.isabstract` asks."""
    flags = type.__getattribute__(cls, "__flags__")
    own = type.__getattribute__(cls, "_own")
    return flags | ABSTRACT if "__abstractmethods__" in own and cls.__abstractmethods__ else flags


SHOWN: dict[str, Callable[[type], Any]] = {
    "__mro__": _shown_mro,
    "__bases__": _shown_bases,
    "__base__": lambda cls: _shown_bases(cls)[0],
    "mro": lambda cls: lambda: list(_shown_mro(cls)),
    "__flags__": _shown_flags,
}


def asks_of(kind: type) -> Asks:
    """Returns the session that a stand-in's class belongs to."""
    return type.__getattribute__(kind, "_asks")


def make_class(
    asks: Asks,
    name: str,
    qualified: str,
    specials: set[str],
    allowed: frozenset[str],
    bases: list[type],
    claims: Any = None,
    own: frozenset[str] = frozenset(),
) -> type:
    """Returns the stand-in of a class.

    Args:
        asks: the session.
        name: the class's.
        qualified: its `__qualname__`.
        specials: the special methods that it has.
        allowed: the operators that are passed on.
        bases: stand-ins, or classes of libraries.
        claims: a library's class, if this is only for its instances: what their `__class__` says.
        own: the names that the learner's class, and those of the learner's that it extends, define.

    Raises:
        ValueError: its bases do not fit together.
    """
    namespace = {"_asks": asks, "_claims": claims, "__module__": "__main__", "__qualname__": qualified, "__doc__": None}
    namespace |= {"_path": qualified, "_lacks": False, "_bases": tuple(bases), "_ready": False}
    data = next(filter(None, map(_data_of, bases)), None)
    namespace |= {"_extends": data, "_own": own}
    abstract = [base for base in bases if type(base) is abc.ABCMeta]
    namespace["_data"] = next((base.__name__ for base in bases if data is None and _has_own_layout(base)), "")
    errors = [base for base in bases if issubclass(base, Exception) and not steers(base)]
    if errors:
        root: tuple[type, ...] = () if any(issubclass(base, ErrorStandIn) for base in errors) else (ErrorStandIn,)
        real = [*root, *errors]
    else:
        kept = [base for base in bases if isinstance(base, ClassStandIn) or _is_plain(base)]
        namespace["_lacks"] = len(kept) + len(abstract) < len(bases) or any(
            isinstance(base, ClassStandIn) and lacks_bases(base) for base in kept
        )
        real = kept if any(issubclass(base, InstanceStandIn) for base in kept) else [InstanceStandIn, *kept]
        if data is None:
            namespace["__array_ufunc__"] = None
        elif not any(issubclass(base, data) for base in real):
            real = [*real, data]
        namespace |= special_methods(asks, specials, allowed, claims is not None, own, holds_data=data is not None)
    try:
        made = type.__new__(ClassStandIn, name, tuple(real), namespace)
    except TypeError as error:
        raise ValueError(f"the class {name} has no stand-in: {error}") from None
    for base in abstract:
        base.register(made)  # type: ignore[arg-type]  # looks at the class, which the other side does not know yet
    type.__setattr__(made, "_ready", True)
    return made


def lacks_bases(kind: type) -> bool:
    """Returns whether the stand-in of a class is not derived from all that the class is: from ABC, Enum or list, say."""
    return type.__getattribute__(kind, "_lacks")


def base_of(kind: type) -> type | None:
    """Returns the type of data whose values the instances of a stand-in hold, None if they hold none."""
    return type.__getattribute__(kind, "_extends") if isinstance(kind, ClassStandIn) else None


def new_instance(kind: Any) -> Any:
    """Returns a new stand-in of an instance.

    Raises:
        ValueError: it is a kind of date or tensor, say, which Python would read without asking the learner's object.
    """
    if data := type.__getattribute__(kind, "_data"):
        raise ValueError(f"a {kind.__name__} is a kind of {data}, and cannot leave the submission's own process")
    return object.__new__(kind)


def _data_of(base: type) -> type | None:
    found = base_of(base) if isinstance(base, ClassStandIn) else base if base in BASES else data_base(base)
    return found if found in BASES else None


def _is_of_base(kind: type, name: str) -> bool:
    """Returns whether an attribute is that of the data type which a learner's class extends."""
    base = type.__getattribute__(kind, "_extends")
    if base is None or not hasattr(base, name):
        return False
    return is_hidden(name) or name not in type.__getattribute__(kind, "_own")


def _has_own_layout(base: type) -> bool:
    """Returns whether Python reads instances of a library's class without calling methods: date, Fraction, Tensor."""
    if isinstance(base, ClassStandIn) or issubclass(base, BaseException) or base is object:
        return False
    return base in CODECS or data_base(base) is not None or (type(base) is type and not _is_plain(base))


def _is_plain(base: type) -> bool:
    """Returns whether a library's class can be a base without behaviour of its own: written in Python, as nn.Module is."""
    if type(base) is not type or base is object:
        return False
    try:
        object.__new__(type("Probe", (InstanceStandIn, base), {}))
    except TypeError:
        return False
    return True


def _signature(cls: Any) -> inspect.Signature:
    whole = inspect.signature(asks_of(cls).operate("getattr", cls, "__init__"))
    return whole.replace(parameters=list(whole.parameters.values())[1:])
