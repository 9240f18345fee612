"""Who we are to the API server, which accounts are ours, and what only those may change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

import pytest

from admission.cluster.connections import RawResponse
from admission.cluster.identity import OwnAccounts, namespace_of, own_accounts, reached, whoami
from admission.cluster.transport import ApiError, ClusterError, Transport, Unreachable
from admission.ledger.annotation import ANNOTATION
from admission.objects import UserInfo
from admission.pipeline import Answer, Pipeline
from tests.unit.fakes import Namespace
from tests.unit.helpers import Json, quota_json, review, table
from tests.unit.replicas import Clock

OURS = "system:serviceaccount:quota-system:server"


class Answers:
    """Gives these one after the other, the last for ever."""

    host = "https://store.test"

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = list(answers)
        self.timeouts: list[float] = []

    def call(self, method: str, path: str, body: bytes, *, timeout: float = 0.0) -> RawResponse:
        assert (method, path) == ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews")
        assert json.loads(body)["kind"] == "SelfSubjectReview"
        self.timeouts.append(timeout)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return RawResponse(201, answer)

    def transport(self) -> Transport:
        return cast(Transport, self)


def knows(username: str) -> bytes:
    return json.dumps({"status": {"userInfo": {"username": username, "groups": ["x"]}}}).encode()


AWAY = Unreachable("https://store.test does not answer: refused")
FORBIDDEN = ApiError(403, "Forbidden", "no roles yet")
UNKNOWN = ApiError(401, "Unauthorized", "who is that")


# -- who we are


def test_the_api_server_says_who_we_are() -> None:
    assert whoami(Answers(knows(OURS)).transport()) == OURS


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b'{"status": {}}', b'{"status": {"userInfo": 1}}'])
def test_an_answer_that_does_not_say_so_is_one_line(answer: bytes) -> None:
    with pytest.raises(ClusterError, match=r"^https://store.test does not say who we are: .+$"):
        whoami(Answers(answer).transport())


@pytest.fixture(name="clock")
def _clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(100.0)
    monkeypatch.setattr("admission.cluster.identity.time", clock)
    return clock


@pytest.mark.parametrize("trouble", [AWAY, FORBIDDEN, ApiError(500, "", "not yet"), ApiError(429, "", "later")])
def test_an_api_server_that_comes_in_time_is_waited_for(clock: Clock, trouble: Exception) -> None:
    asked = Answers(*[trouble] * 5, knows(OURS))
    assert reached(asked.transport(), 60.0, clock) == OURS
    assert clock.now == pytest.approx(102.5)


@pytest.mark.parametrize(
    ("trouble", "text"),
    [
        (AWAY, "the API server cannot be reached: https://store.test does not answer: refused"),
        (FORBIDDEN, "the API server https://store.test refuses us: 403 Forbidden: no roles yet"),
    ],
)
@pytest.mark.parametrize("wait", [0.0, 3.0])
def test_when_the_wait_is_over_one_line_says_the_last_reason(
    clock: Clock, trouble: Exception, text: str, wait: float
) -> None:
    with pytest.raises(ClusterError) as caught:
        reached(Answers(trouble).transport(), wait, clock)
    assert str(caught.value) == text
    assert clock.now <= 100.0 + wait


def test_an_account_that_stays_unknown_is_a_mistake_and_not_waited_for_to_the_end(clock: Clock) -> None:
    with pytest.raises(ClusterError, match=r"refuses us: 401 Unauthorized: who is that$"):
        reached(Answers(UNKNOWN).transport(), 60.0, clock)
    assert clock.now < 110.0


def test_an_account_that_is_unknown_for_a_moment_is_waited_for(clock: Clock) -> None:
    assert reached(Answers(UNKNOWN, UNKNOWN, knows(OURS)).transport(), 60.0, clock) == OURS


def test_no_call_is_given_more_than_what_is_left_of_the_wait(clock: Clock) -> None:
    asked = Answers(AWAY)
    with pytest.raises(ClusterError):
        reached(asked.transport(), 3.0, clock)
    assert all(1.0 <= timeout <= 3.0 for timeout in asked.timeouts)


# -- which accounts are ours

NAMESPACES = """
system:serviceaccount:quota-system:server | quota-system
system:serviceaccount:a:b:c               | a
system:serviceaccount:                    |
system:serviceaccounts:quota-system       |
admin                                     |
                                          |
"""


@pytest.mark.parametrize(("username", "namespace"), [(*row, "")[:2] for row in table(NAMESPACES)])
def test_a_service_account_has_a_namespace(username: str, namespace: str) -> None:
    assert namespace_of(username) == namespace


CONTAINED = """
we                                        | they                                      | groups                              | ours
system:serviceaccount:quota-system:server | system:serviceaccount:quota-system:server |                                     | yes
system:serviceaccount:quota-system:server | x                                         | system:serviceaccounts:quota-system | yes
system:serviceaccount:quota-system:server | system:serviceaccount:other:server        | system:serviceaccounts:other        | no
system:serviceaccount:quota-system:server | system:serviceaccount:quota-system:other  |                                     | no
system:serviceaccount:quota-system:server | x                                         | system:masters                      | no
admin                                     | admin                                     |                                     | yes
admin                                     | x                                         | system:serviceaccounts:             | no
admin                                     | backup                                    |                                     | yes
admin                                     | adm                                       | admin                               | no
"""  # noqa: E501


@pytest.mark.parametrize(("we", "they", "groups", "ours"), table(CONTAINED)[1:])
def test_ours_are_we_ourselves_those_named_and_the_service_accounts_beside_us(
    we: str, they: str, groups: str, ours: str
) -> None:
    accounts = own_accounts(we, ["backup"])
    assert accounts.contain(UserInfo(they, groups.split() or None)) == (ours == "yes")


def test_nobody_is_not_ours() -> None:
    assert not own_accounts(OURS).contain(None)
    assert not OwnAccounts(frozenset()).contain(UserInfo())


# -- the guard: what only they may change


OUR_ACCOUNTS = own_accounts(OURS)


def a_quota(ledger: str | None, **annotations: str) -> Json:
    document = quota_json("q", "pods=1")
    if ledger is not None:
        annotations[ANNOTATION] = ledger
    document["metadata"].update(uid="u", resourceVersion="1", annotations=annotations or None)
    return document


def ask(
    operation: str,
    kind: str,
    new: Json | None,
    old: Json | None,
    *,
    by: UserInfo | None = None,
    accounts: OwnAccounts | None = OUR_ACCOUNTS,
    dry_run: bool = False,
) -> Answer:
    world = Namespace()
    pipeline = Pipeline(world, world.ledger, own_accounts=accounts)
    asked = review(operation, kind, new, old, dry_run=dry_run)
    request = asked.request
    assert request is not None
    request.user_info = by
    return pipeline.validate(asked, now=0.0, deadline=0.0)


SOMEBODY = UserInfo("somebody", ["system:masters"])
REFUSED = (
    f"the annotation {ANNOTATION} holds the count of this quota and is kept by quota-admission alone: leave it as it is"
)
CHANGES: Sequence[tuple[str | None, str | None]] = [("old", "new"), ("old", None), (None, "new"), ("old", "")]


@pytest.mark.parametrize(("before", "after"), CHANGES)
@pytest.mark.parametrize("kind", ["resourcequotas", "resourcequotas/status"])
@pytest.mark.parametrize("by", [SOMEBODY, None])
def test_nobody_else_changes_what_is_counted(
    before: str | None, after: str | None, kind: str, by: UserInfo | None
) -> None:
    answer = ask("UPDATE", kind, a_quota(after), a_quota(before), by=by)
    assert (answer.allowed, answer.message, answer.reason) == (False, REFUSED, "ledger")
    assert len(answer.warnings) == 1


@pytest.mark.parametrize(("before", "after"), CHANGES)
@pytest.mark.parametrize("kind", ["resourcequotas", "resourcequotas/status"])
@pytest.mark.parametrize("by", [UserInfo(OURS), UserInfo("x", ["system:serviceaccounts:quota-system"])])
def test_we_ourselves_do(before: str | None, after: str | None, kind: str, by: UserInfo) -> None:
    assert ask("UPDATE", kind, a_quota(after), a_quota(before), by=by).allowed


@pytest.mark.parametrize("ledger", ["same", None])
def test_everything_else_about_a_quota_may_be_changed_by_anybody(ledger: str | None) -> None:
    new, old = a_quota(ledger, x="new"), a_quota(ledger, x="old")
    new["spec"]["hard"]["pods"] = "9"
    assert ask("UPDATE", "resourcequotas", new, old, by=SOMEBODY).allowed


def test_an_empty_list_of_annotations_is_none() -> None:
    assert ask("UPDATE", "resourcequotas", a_quota(None), a_quota(None, x="old"), by=SOMEBODY).allowed


def test_quotas_are_deleted_and_other_objects_carry_such_an_annotation_as_they_like() -> None:
    assert ask("DELETE", "resourcequotas", None, a_quota("old"), by=SOMEBODY).allowed
    assert ask("UPDATE", "configmaps", a_quota("new"), a_quota("old"), by=SOMEBODY).allowed
    assert ask("UPDATE", "resourcequotas.example.com", a_quota("new"), a_quota("old"), by=SOMEBODY).allowed


def test_without_a_ledger_in_the_quotas_there_is_nothing_to_guard() -> None:
    assert ask("UPDATE", "resourcequotas", a_quota("new"), a_quota("old"), by=SOMEBODY, accounts=None).allowed


def test_a_dry_run_is_guarded_as_well() -> None:
    assert not ask("UPDATE", "resourcequotas", a_quota("new"), a_quota("old"), by=SOMEBODY, dry_run=True).allowed
