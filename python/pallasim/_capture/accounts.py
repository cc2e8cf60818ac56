"""What a rule makes of the parameters of its primitive: used, or known to say nothing here; every other one is refused.

A newer JAX adds parameters to primitives that a rule knows, and a kernel must not lose what they say.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from .types import Unsupported

F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Account:
    """The parameters of a primitive as its rule sees them.

    `used`: the rule reads them. `ignored`: the result's type says the same, or they have no meaning for the values at all.
    `only`: without a meaning at these values alone. `rest`: the rule writes every other parameter as an attribute, which the
    verifier refuses by name where the operation has none of that name.
    """

    used: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    only: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    rest: bool = False


def takes(used: str = "", *, ignores: str = "", only: Mapping[str, tuple[Any, ...]] | None = None, rest: bool = False) -> Callable[[F], F]:
    """Decorates a rule with its account: names of parameters, separated by spaces."""
    account = Account(frozenset(used.split()), frozenset(ignores.split()), dict(only or {}), rest)

    def mark(rule: F) -> F:
        rule.account = account  # type: ignore[attr-defined]
        return rule

    return mark


def _is_empty(value: Any) -> bool:
    """Whether a value is a collection, of whatever class, that holds nothing."""
    return isinstance(value, Collection) and not isinstance(value, str) and not len(value)


def check(name: str, params: Mapping[str, Any], account: Account) -> None:
    """Raises Unsupported for a parameter that the account does not have. None says nothing, whatever its name."""
    for k, v in params.items():
        if k in account.used or k in account.ignored or v is None:
            continue
        if k not in account.only:
            if account.rest:
                continue
            raise Unsupported(f"parameter '{k}' of {name}, which this version of Pallasim does not know")
        if not any(v is x or (type(v) is type(x) and v == x) or (_is_empty(v) and _is_empty(x)) for x in account.only[k]):
            raise Unsupported(f"parameter '{k}' of {name} with the value {str(v)[:80]}")


def guarded(prim: Any, rule: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """The rule behind the check of its account. Raises TypeError for a rule without one."""
    account = getattr(rule, "account", None)
    if account is None:
        raise TypeError(f"the rule of {prim} does not say which parameters it takes")
    if account.rest and not account.only:
        return rule
    known = account.used | account.ignored

    def checked(w: Any, eqn: Any) -> None:
        if not (eqn.params.keys() <= known):
            check(f"primitive {eqn.primitive.name}", eqn.params, account)
        rule(w, eqn)

    checked.account = account  # type: ignore[attr-defined]
    return checked
