"""One HTML page that shows one program's variants: side by side, and each as a report's page shows it."""

from __future__ import annotations

from rooflab.types.variants import Variants
from rooflab.views.report.page import pages
from rooflab.views.variants.sheet import table


def html(variants: Variants) -> str:
    """The page of `variants`: a line for each, then the page of the first, where each can be chosen."""
    named = list(zip(variants.names, variants.reports, strict=True))
    return pages(named, (table(variants),), variants.name)
