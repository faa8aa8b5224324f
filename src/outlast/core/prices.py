"""What tokens of a model cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from outlast.core.amounts import is_number
from outlast.core.errors import WrongUse

DIGITS = 12
"""Costs are rounded to so many decimal places, so that a sum is told as a person would write it."""


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens of a model cost: `Price(input=1.25, output=10, cached=0.125)`, in a currency of yours.

    `cached` is for those of the input that the provider had in its cache; by default they cost what the input does.
    Raises WrongUse for what is no price.
    """

    input: float
    output: float
    cached: float | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached"):
            value = getattr(self, name)
            if not (is_number(value) and 0 <= value < inf) and (name, value) != ("cached", None):
                raise WrongUse(f"Price({name}={value!r}): must be a finite number, not negative")

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """Return what so many tokens cost; the cached ones are among those of the input."""
        cached = self.input if self.cached is None else self.cached
        millions = (input_tokens - cached_tokens) * self.input + cached_tokens * cached + output_tokens * self.output
        return round(millions / 1_000_000, DIGITS)


class Prices:
    """The prices of models, by name. A name that ends in `*` is for all that begin so; the longest one counts."""

    def __init__(self, prices: Mapping[str, Price] | None = None) -> None:
        given: object = {} if prices is None else prices
        if not (
            isinstance(given, Mapping) and all(isinstance(k, str) and isinstance(v, Price) for k, v in given.items())
        ):
            raise WrongUse(
                f"App(prices={prices!r}): must be a mapping of names of models to prices, such as "
                '{"gpt-5*": outlast.Price(input=1.25, output=10)}'
            )
        self._exact: dict[str, Price] = dict(given)
        self._beginnings = sorted((name[:-1] for name in self._exact if name.endswith("*")), key=len, reverse=True)

    def of(self, model: str) -> Price | None:
        """Return the price of a model, None where there is none."""
        if model in self._exact:
            return self._exact[model]
        beginning = next((each for each in self._beginnings if model.startswith(each)), None)
        return None if beginning is None else self._exact[f"{beginning}*"]
