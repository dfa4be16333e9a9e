"""Polynomials in the sizes of a loop: sums over loop variables in closed form, printed as people write them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import comb
from typing import Any

_Term = tuple[tuple[str, int], ...]  # (("n", 2), ("m", 1)): n²·m, names in order
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Polynomial:
    """A polynomial with rational coefficients; immutable."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[_Term, Fraction | int]) -> None:
        self.terms = {term: Fraction(value) for term, value in terms.items() if value}

    @staticmethod
    def constant(value: int | Fraction) -> Polynomial:
        """The polynomial that is `value` everywhere."""
        return Polynomial({(): Fraction(value)})

    @staticmethod
    def symbol(name: str) -> Polynomial:
        """The polynomial `name`."""
        return Polynomial({((name, 1),): 1})

    def __add__(self, other: Polynomial | int) -> Polynomial:
        terms = dict(self.terms)
        for term, value in _of(other).terms.items():
            terms[term] = terms.get(term, Fraction(0)) + value
        return Polynomial(terms)

    def __neg__(self) -> Polynomial:
        return Polynomial({term: -value for term, value in self.terms.items()})

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        return self + (-_of(other))

    def __mul__(self, other: Polynomial | int) -> Polynomial:
        terms: dict[_Term, Fraction] = {}
        for a, x in self.terms.items():
            for b, y in _of(other).terms.items():
                term = _product(a, b)
                terms[term] = terms.get(term, Fraction(0)) + x * y
        return Polynomial(terms)

    def __pow__(self, power: int) -> Polynomial:
        made = Polynomial.constant(1)
        for _ in range(power):
            made = made * self
        return made

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, (Polynomial, int)) and self.terms == _of(other).terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    @property
    def symbols(self) -> set[str]:
        """Names that occur."""
        return {name for term in self.terms for name, _ in term}

    @property
    def number(self) -> Fraction | None:
        """The value of a constant; None where a name occurs."""
        return None if self.symbols else self.terms.get((), Fraction(0))

    def coefficients(self, name: str) -> list[Polynomial]:
        """What stands at each power of `name`, from 0."""
        by_power: dict[int, dict[_Term, Fraction]] = {}
        for term, value in self.terms.items():
            power = dict(term).get(name, 0)
            rest = tuple(each for each in term if each[0] != name)
            by_power.setdefault(power, {})[rest] = value
        return [Polynomial(by_power.get(power, {})) for power in range(max(by_power, default=0) + 1)]

    def put(self, values: Mapping[str, Polynomial]) -> Polynomial:
        """This polynomial with other polynomials in place of names."""
        replaced = Polynomial({})
        for term, value in self.terms.items():
            part = Polynomial.constant(value)
            for name, power in term:
                part = part * values.get(name, Polynomial.symbol(name)) ** power
            replaced = replaced + part
        return replaced

    def at(self, values: Mapping[str, int]) -> Fraction:
        """The value where every name has one."""
        total = Fraction(0)
        for term, value in self.terms.items():
            for name, power in term:
                value *= Fraction(values[name]) ** power
            total += value
        return total

    def summed(self, name: str, low: Polynomial, high: Polynomial) -> Polynomial:
        """The sum of this over whole numbers `name` from `low` to `high` − 1, for low ≤ high (Faulhaber)."""
        total = Polynomial({})
        for power, part in enumerate(self.coefficients(name)):
            rising = _faulhaber(power)
            up, down = (rising.put({"x": end}) for end in (high, low))
            total = total + part * (up - down)
        return total

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        ordered = sorted(self.terms, key=lambda term: (-sum(power for _, power in term), term))
        written = ""
        for number, term in enumerate(ordered):
            value = self.terms[term]
            sign = "−" if value < 0 else "+"
            text = _written(abs(value), term)
            written += f" {sign} {text}" if number else (f"−{text}" if value < 0 else text)
        return written

    def __repr__(self) -> str:
        return f"Polynomial({self})"


def quotient(top: Polynomial, bottom: Polynomial) -> Polynomial | None:
    """The quotient top / bottom where `bottom` is one term that divides every term of `top` evenly; else None."""
    if len(bottom.terms) != 1:
        return None
    ((below, divisor),) = bottom.terms.items()
    terms: dict[_Term, Fraction] = {}
    for term, value in top.terms.items():
        powers = dict(term)
        for name, power in below:
            powers[name] = powers.get(name, 0) - power
        if min(powers.values(), default=0) < 0 or (value / divisor).denominator != 1:
            return None
        terms[tuple(sorted((name, power) for name, power in powers.items() if power))] = value / divisor
    return Polynomial(terms)


def _of(value: Polynomial | int) -> Polynomial:
    return value if isinstance(value, Polynomial) else Polynomial.constant(value)


def _product(a: _Term, b: _Term) -> _Term:
    powers = dict(a)
    for name, power in b:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted(powers.items()))


def _written(value: Fraction, term: _Term) -> str:
    names = "·".join(name if power == 1 else name + str(power).translate(_SUPERSCRIPT) for name, power in term)
    number = f"{value.numerator:,}" if value.denominator == 1 else f"{value.numerator}/{value.denominator}"
    if not names:
        return number
    return names if value == 1 else f"{number}·{names}"


def _faulhaber(power: int) -> Polynomial:
    """Σ i^power for i from 0 to x − 1, as a polynomial in x, by the recurrence of sums of lower powers."""
    # (x)^(p+1) = Σ_{k<=p} C(p+1, k) · S_k(x)
    x = Polynomial.symbol("x")
    total = x ** (power + 1)
    for lower in range(power):
        total = total - _faulhaber(lower) * comb(power + 1, lower)
    return total * Polynomial.constant(Fraction(1, power + 1))
