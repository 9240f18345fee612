"""What of a throttle does not do what it looks like, or cannot be used at all.

Nothing here decides a request: these are lines for the author of the throttle.
"""

from __future__ import annotations

from collections.abc import Iterator

from admission.throttle.amounts import NOTHING, read_amount
from admission.throttle.objects import ACTIONS, AnyThrottle, ClusterThrottle, ResourceAmount, ThrottleSpec
from admission.throttle.overrides import Override, Thresholds, read_override
from admission.throttle.terms import terms_of, written_terms


def lint_throttle(throttle: AnyThrottle) -> list[str]:
    """One line for each thing that is wrong, with the path of the field."""
    spec = throttle.spec or ThrottleSpec()
    return [*_action(spec), *_selector(throttle), *_limits(spec), *_overrides(spec)]


def _action(spec: ThrottleSpec) -> Iterator[str]:
    action = spec.enforcement_action
    if action is not None and action not in ACTIONS:
        yield (
            f'spec.enforcementAction: expected one of {", ".join(ACTIONS)}, got "{action}": '
            "what the configuration says is done"
        )


def _selector(throttle: AnyThrottle) -> Iterator[str]:
    written = list(written_terms(throttle))
    if not written:
        yield "spec.selector.selectorTerms: no term: no pod is affected"
    if any(".selecterTerms[" in path for path, _ in written):
        yield "spec.selector.selecterTerms: misspelt, read as selectorTerms"
    for (path, term), compiled in zip(written, terms_of(throttle), strict=True):
        if term.namespace_selector is not None and not isinstance(throttle, ClusterThrottle):
            yield f"{path}.namespaceSelector: not read: a Throttle is about pods of its own namespace"
        if isinstance(compiled.namespaces, str):
            yield f"{compiled.namespaces}: the term is never met"
        if isinstance(compiled.pods, str):
            yield f"{compiled.pods}: pods that come to this term cannot be judged"


def _limits(spec: ThrottleSpec) -> Iterator[str]:
    overrides = spec.temporary_threshold_overrides or ()
    if read_amount(spec.threshold) == NOTHING and not overrides:
        yield "spec.threshold: nothing is limited"
    yield from _limit("spec.threshold", spec.threshold)
    for index, entry in enumerate(overrides):
        yield from _limit(f"spec.temporaryThresholdOverrides[{index}].threshold", entry.threshold)


def _limit(path: str, written: ResourceAmount | None) -> Iterator[str]:
    amount = read_amount(written)
    if amount.pods is not None and amount.pods <= 0:
        unsaid = ", which is also what is read where it is not written" if amount.pods == 0 else ""
        yield f"{path}.resourceCounts.pod: is {amount.pods}{unsaid}: no pod fits"
    for name, quantity in sorted(amount.requests.items()):
        if quantity.nano < 0:
            yield f"{path}.resourceRequests[{name}]: {quantity} is negative: no pod that requests it fits"


def _overrides(spec: ThrottleSpec) -> Iterator[str]:
    written = spec.temporary_threshold_overrides or ()
    entries = [read_override(index, entry) for index, entry in enumerate(written)]
    yield from Thresholds(NOTHING, entries).messages
    for index, entry in enumerate(entries):
        if _never_holds(entry):
            yield f"spec.temporaryThresholdOverrides[{index}]: it ends before it begins: it is never active"


def _never_holds(entry: Override) -> bool:
    return entry.problem is None and entry.begin is not None and not entry.is_active(entry.begin)
