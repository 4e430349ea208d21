"""What a call may spend, in items it scans and in time."""

from trackside.api.budget import Budget


def test_something_can_be_spent_in_any_case():
    assert not Budget(items=0, seconds=0).is_spent


def test_it_is_spent_by_scanned_items():
    budget = Budget(items=3, seconds=3600)
    budget.spend()
    assert not budget.is_spent
    budget.spend(2)
    assert budget.is_spent


def test_it_is_spent_when_its_time_is_over():
    now = 10.0
    budget = Budget(seconds=1.0, clock=lambda: now)
    now = 10.5
    budget.spend()
    assert not budget.is_spent
    now = 11.0
    budget.spend()
    assert budget.is_spent
