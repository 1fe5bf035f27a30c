"""`dataclass` and `cached_property` for values that are made by the thousand, such as the words of a script.

The type checker sees those of the standard library, so that a frozen dataclass stays frozen. In the process nothing
guards its fields, and nothing locks a property: both guards take longer than what they guard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from functools import cached_property as cached_property
else:
    import dataclasses

    def dataclass(*, frozen: bool = False, slots: bool = False):
        """A dataclass that compares and hashes by its fields; `frozen` is a promise."""
        return dataclasses.dataclass(slots=slots, unsafe_hash=frozen)

    class cached_property:  # noqa: N801
        """A property that is worked out once; from Python 3.12 on the standard library has no lock in it either."""

        def __init__(self, make):
            self.make, self.name, self.__doc__ = make, make.__name__, make.__doc__

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            made = instance.__dict__[self.name] = self.make(instance)
            return made
