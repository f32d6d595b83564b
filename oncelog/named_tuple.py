"""`NamedTuple` as in `typing`, made in a third of the time: a broker loads 60 of them before it serves anybody.

The one of `typing` compiles each annotation, in case somebody wants to evaluate it. Type checkers see that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple

    class _Maker(type):
        """Makes the class of the named tuple in place of a subclass of `NamedTuple`."""

        def __new__(cls, name, bases, namespace):
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            annotations = namespace.pop("__annotations__", {})
            fields = list(annotations)
            defaulted = [field for field in fields if field in namespace]
            assert fields, f"{name} has no fields"
            assert bases == (NamedTuple,), f"{name} has other bases"
            assert fields[len(fields) - len(defaulted) :] == defaulted, f"{name}: a field without a default follows one"
            defaults = [namespace.pop(field) for field in defaulted]
            made = namedtuple(name, annotations, defaults=defaults, module=namespace.pop("__module__"))
            made.__annotations__ = annotations
            for attribute, value in namespace.items():
                setattr(made, attribute, value)
            return made

    class NamedTuple(metaclass=_Maker):
        pass
