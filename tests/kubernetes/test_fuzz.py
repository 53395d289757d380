"""Manifests with anything in them: a fault with a place, or nothing, and never an exception."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from support.manifests import checked

from vsphere_ai.kubernetes.kinds import network_operator, nv_ipam, spiderpool, sriov_operator

WORDS = (
    "10.0.0.0/24",
    "fd00::/64",
    "10.0.0.1-10.0.0.9",
    "::1",
    "0.0.0.0/0",
    "",
    "a",
    "macvlan",
    "custom",
    "{}",
    "[",
    "ens1#0-3",
)
GROUPS = {
    "spiderpool.spidernet.io/v2beta1": spiderpool.KINDS,
    "mellanox.com/v1alpha1": network_operator.KINDS,
    "nv-ipam.nvidia.com/v1alpha1": nv_ipam.KINDS,
    "sriovnetwork.openshift.io/v1": sriov_operator.KINDS,
}
LEAF = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 300), st.sampled_from(WORDS), st.text("abz019.:/- '", max_size=6)
)
MODELS = [model for kinds in GROUPS.values() for model in kinds.values()]
INNER = ("dst", "gw", "ipv4", "ippools", "master", "image", "config", "name", "startIP", "endIP", "prefix", "pfNames")
KEYS = sorted({*INNER, *(name for model in MODELS for name in model.model_fields)})


def nested(value):
    return st.one_of(st.lists(value, max_size=3), st.dictionaries(st.sampled_from(KEYS), value, max_size=5))


VALUE = st.recursive(LEAF, nested, max_leaves=12)


@st.composite
def objects(draw):
    group = draw(st.sampled_from(sorted(GROUPS)))
    kind = draw(st.sampled_from(sorted(GROUPS[group])))
    fields = list(GROUPS[group][kind].model_fields)
    spec = draw(st.one_of(VALUE, st.dictionaries(st.sampled_from(fields), VALUE, max_size=6)))
    metadata = draw(st.one_of(VALUE, st.just({"name": "a"})))
    return {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec}


@given(st.lists(st.one_of(objects(), VALUE), min_size=1, max_size=3))
@settings(max_examples=200, deadline=None)
def test_anything_is_answered_with_faults_that_have_a_place(found):
    text = "\n---\n".join(json.dumps(each) for each in found)
    for fault in checked(text).findings:
        assert fault.target.mark.line
        assert fault.rule
        assert fault.message
