"""Selector terms: which pods a throttle is about (kube-throttler 1.7.4, selectors).

Terms are alternatives; a term is met when its pod selector and, for a ClusterThrottle, its namespace selector are. An
absent selector is met by everything, a throttle without terms is about no pod.

A selector that Kubernetes cannot evaluate is not treated alike in the two places, and so it is here: in a namespace
selector it is never met, in a pod selector it makes the pod impossible to judge, but only if evaluation gets that far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from admission import objects
from admission.selectors import Labels, LabelSelector, Requirement, SelectorError
from admission.throttle.objects import AnyThrottle, ClusterThrottle, SelectorTerm

EVERYTHING = LabelSelector()
Selection = LabelSelector | str
"""A selector, or why it cannot be evaluated."""


class Term(NamedTuple):
    """One alternative; a Throttle's has no namespace selector of its own and takes every namespace."""

    pods: Selection
    namespaces: Selection = EVERYTHING

    def matches(self, labels: Labels, namespace_labels: Labels) -> bool:
        """Whether a pod with these labels, in a namespace with those, is meant; raises SelectorError."""
        if isinstance(self.namespaces, str) or not self.namespaces.matches(namespace_labels):
            return False
        if isinstance(self.pods, str):
            raise SelectorError(self.pods)
        return self.pods.matches(labels)


def matches_any(terms: Sequence[Term], labels: Labels, namespace_labels: Labels) -> bool:
    """Whether one of the terms is met, looked at in their order up to the first; raises SelectorError."""
    return any(term.matches(labels, namespace_labels) for term in terms)


def terms_of(throttle: AnyThrottle) -> tuple[Term, ...]:
    """The terms of a throttle, ready to be used."""
    cluster_wide = isinstance(throttle, ClusterThrottle)
    return tuple(
        Term(
            _compile(term.pod_selector, f"{path}.podSelector"),
            _compile(term.namespace_selector, f"{path}.namespaceSelector") if cluster_wide else EVERYTHING,
        )
        for path, term in written_terms(throttle)
    )


def written_terms(throttle: AnyThrottle) -> Iterator[tuple[str, SelectorTerm]]:
    """The terms as they are written and where: under `selectorTerms`, then under the README's `selecterTerms`."""
    selector = throttle.spec and throttle.spec.selector
    if selector:
        for name, terms in (("selectorTerms", selector.selector_terms), ("selecterTerms", selector.selecter_terms)):
            for index, term in enumerate(terms or ()):
                yield f"spec.selector.{name}[{index}]", term


def _compile(written: objects.LabelSelector | None, path: str) -> Selection:
    if written is None:
        return EVERYTHING
    try:
        labels = {key: value or "" for key, value in (written.match_labels or {}).items()}
        requirements = [
            Requirement.of(expression.key, expression.operator, expression.values or ())
            for expression in written.match_expressions or ()
        ]
        return LabelSelector(labels, requirements)
    except SelectorError as error:
        return f"{path}: {error}"
