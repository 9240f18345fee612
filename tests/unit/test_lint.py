"""Lines for the authors of policies: what the API server would not store, and what limits nothing."""

from __future__ import annotations

import pytest

from admission.limits.lint import lint_limit_range
from admission.objects import Decoder, ResourceQuota
from admission.quota.lint import lint_quota
from tests.unit.helpers import Json, encoded, limit_range, quota_json, table

decode_quota = Decoder(ResourceQuota)

LIMIT_RANGES = """
Nonsense max cpu=1                             | spec.limits[0].type     | standard limit type
Container max cpu=1; Container min cpu=1       | spec.limits[1].type     | Container
Pod default cpu=1                              | spec.limits[0].default  | may not be specified when
Pod defaultRequest cpu=1                       | spec.limits[0].default  | may not be specified when
PersistentVolumeClaim max cpu=1                | spec.limits[0].limits   | storage
PersistentVolumeClaim                          | spec.limits[0].limits   | storage
Container min cpu=2 max cpu=1                  | spec.limits[0].min[cpu] | min value 2 is greater than max value 1
Container min cpu=2 defaultRequest cpu=1       | spec.limits[0].defaultRequest[cpu] | min value 2 is greater than default request value 1
Container defaultRequest cpu=2 max cpu=1       | spec.limits[0].defaultRequest[cpu] | default request value 2 is greater than max value 1
Container defaultRequest cpu=2 default cpu=1   | spec.limits[0].defaultRequest[cpu] | default request value 2 is greater than default limit value 1
Container min cpu=2 default cpu=1              | spec.limits[0].default[cpu] | min value 2 is greater than default value 1
Container default cpu=2 max cpu=1              | spec.limits[0].default[cpu] | default value 2 is greater than max value 1
Container ratio cpu=999m                       | spec.limits[0].maxLimitRequestRatio[cpu] | ratio 999m is less than 1
Pod max cpu=1; Container min memory=2 max memory=1 | spec.limits[1].min[memory] | min value 2 is greater than max value 1
"""  # noqa: E501


@pytest.mark.parametrize(("line", "path", "text"), table(LIMIT_RANGES))
def test_a_limit_range_that_the_api_would_not_store_is_told_of(line, path, text):
    found = lint_limit_range(limit_range(line))
    assert any(one.startswith(path) and text in one for one in found), found


SOUND = """
Container min cpu=-1 max cpu=-1
PersistentVolumeClaim max storage=1Gi cpu=1 default storage=1Gi ratio storage=2
example.com/Foo max cpu=1
Container min cpu=1 max cpu=1 default cpu=1 defaultRequest cpu=1 ratio cpu=1
Container max cpu=2; Pod max cpu=4 min cpu=1; PersistentVolumeClaim min storage=1Gi
"""


@pytest.mark.parametrize("line", ["", *(row[0] for row in table(SOUND))])
def test_a_limit_range_that_is_odd_but_accepted_draws_no_line(line):
    assert lint_limit_range(limit_range(line)) == []


def doubts(document: Json) -> list[str]:
    return lint_quota(decode_quota(encoded(document)))


INERT = ["nvidia.com/gpu", "limits.nvidia.com/gpu", "requests.x.kubernetes.io/y", "count/events", "widgets"]


@pytest.mark.parametrize("name", INERT)
def test_a_name_that_limits_nothing_is_told_of(name):
    (line,) = doubts(quota_json("q", f"{name}=1 pods=1"))
    assert line.startswith(f"spec.hard[{name}]: ")


def test_a_negative_amount_and_a_status_of_another_spec_are_told_of():
    assert doubts(quota_json("q", "pods=-1"))[0].startswith("spec.hard[pods]: -1")
    document = quota_json("q", "pods=1")
    document["spec"]["hard"] = {"pods": "2"}
    assert doubts(document)[0].startswith("status.hard differs")


@pytest.mark.parametrize("line", ["Nonsense", "PriorityClass Gt 1", "PriorityClass In", "PriorityClass In a_"])
def test_a_broken_scope_is_told_of(line):
    assert any(one.startswith("spec: ") for one in doubts(quota_json("q", "pods=1", scopes=[line])))


REACH = """
services               | Terminating              | inert
secrets                | PriorityClass In a       | inert
persistentvolumeclaims | Terminating              | inert
pods                   | VolumeAttributesClass    | inert
pods                   | Terminating              | sound
count/pods             | PriorityClass In a       | sound
persistentvolumeclaims | VolumeAttributesClass    | sound
requests.storage       | VolumeAttributesClass In gold | sound
requests.nvidia.com/gpu | NotBestEffort           | sound
"""


@pytest.mark.parametrize(("name", "line", "outcome"), table(REACH))
def test_a_name_whose_objects_are_in_none_of_the_scopes_is_told_of(name, line, outcome):
    found = doubts(quota_json("q", f"{name}=1", scopes=[line]))
    assert bool(found) is (outcome == "inert")


def test_a_sound_quota_draws_no_line():
    of_class = "gold.storageclass.storage.k8s.io/requests.storage=1"
    assert doubts(quota_json("q", f"pods=1 requests.cpu=1 count/widgets.example.com=1 {of_class}")) == []
