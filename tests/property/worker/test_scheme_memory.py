# SPDX-License-Identifier: Apache-2.0
"""What an attempt may teach of a host's scheme, and what it may not (SPEC section 4, "Scheme")."""

from hypothesis import given
from hypothesis import strategies as st

from ojak.http.knock import Knocked
from ojak.http.transport import PostAnswer, PostPhases
from ojak.model.status import KNOCK_STATUSES
from ojak.signing import Scheme
from ojak.worker.scheme_memory import SchemeMemory, SchemeShown, shown_by

ASKS = 'sig1=("@method" "@target-uri" "@authority" "content-digest");created;keyid'
ASKS_RSA = f'{ASKS};alg="rsa-v1_5-sha256";tag="x"'
ASKS_OTHER = f'{ASKS};alg="ed25519"'
BROKEN = 'sig1=("@method'
NOTHING = "text"

statuses = st.one_of(st.sampled_from([200, 202, 400, 401, 403, 404, 408, 410, 429, 500, 503]), st.integers(100, 999))
schemes = st.sampled_from(Scheme)


def knocked(
    status: int, scheme: Scheme, first_status: int | None = None, accept_signature: str | None = None
) -> Knocked:
    answer = PostAnswer(status=status, accept_signature=accept_signature, phases=PostPhases())
    return Knocked(answer=answer, scheme=scheme, first_status=first_status, sign_ms=0, post_ms=0)


@given(statuses, schemes)
def test_one_knock_alone_teaches_nothing_whatever_is_answered(status, scheme):
    assert shown_by(knocked(status, scheme)) is None


@given(statuses, schemes, st.sampled_from(sorted(KNOCK_STATUSES)))
def test_a_pair_teaches_if_the_second_was_accepted_and_only_then(status, scheme, first_status):
    shown = shown_by(knocked(status, scheme, first_status))
    assert shown == (SchemeShown(scheme=scheme, decisive=True) if 200 <= status < 300 else None)


@given(statuses, schemes, st.sampled_from([ASKS, ASKS_RSA, ASKS_OTHER, BROKEN, NOTHING, ""]))
def test_a_host_that_asks_for_rfc_9421_teaches_that_unless_it_is_in_trouble_or_asks_for_a_key_we_have_not(
    status, scheme, asks
):
    shown = shown_by(knocked(status, scheme, accept_signature=asks))
    teaches = asks in (ASKS, ASKS_RSA) and status < 500 and status not in (408, 429)
    assert shown == (SchemeShown(scheme=Scheme.RFC9421, decisive=False) if teaches else None)


def test_a_pair_goes_before_what_the_same_answer_asks_for():
    shown = shown_by(knocked(202, Scheme.CAVAGE, 401, ASKS))
    assert shown == SchemeShown(scheme=Scheme.CAVAGE, decisive=True)


events = st.one_of(st.none(), st.builds(SchemeShown, scheme=schemes, decisive=st.booleans()))


@given(st.lists(events, max_size=30))
def test_the_last_pair_counts_and_before_any_the_last_hint(came):
    memory = SchemeMemory()
    for shown in came:
        before = memory
        memory = memory.after(shown)
        if shown is None:
            assert memory is before, "nothing to write down"
    pairs = [shown for shown in came if shown is not None and shown.decisive]
    hints = [shown for shown in came if shown is not None]
    expected = pairs[-1] if pairs else hints[-1] if hints else None
    assert memory.scheme == (expected.scheme if expected is not None else None)
    assert memory.firm is bool(pairs)


@given(schemes, schemes)
def test_a_hint_changes_what_is_not_firm_and_only_if_it_says_something_else(scheme, hinted):
    hint = SchemeShown(scheme=hinted, decisive=False)
    firm, loose = SchemeMemory(scheme=scheme, firm=True), SchemeMemory(scheme=scheme)
    assert firm.after(hint) is firm
    assert (loose.after(hint) is loose) is (hinted is scheme)
    assert loose.after(hint).scheme is hinted
