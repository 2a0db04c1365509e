"""The punitive penalty against numbers worked by hand, and against the paper's own examples."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scrl.penalty import (
    LARGEST_PRICE,
    LEAST_PRICE,
    PENALTIES,
    AnyPrices,
    Atoms,
    draw_shares,
    drawn_sigma,
    netted,
    next_kappa,
    random_prices,
    sigmas,
    smallest_sigma,
)
from scrl.rules import AtomTable, RuleSet
from scrl.violation import signed_violation


def atoms_of(*rules: str, regions: tuple[str, ...] = ("A", "B")) -> Atoms:
    return Atoms.of(AtomTable.of(RuleSet.of(list(rules), regions)))


def lucks(count: int, clauses: int) -> jax.Array:
    """The chances of as many transitions."""
    return jax.random.uniform(jax.random.key(0), (count, clauses))


def test_kappa_by_hand() -> None:
    # 0.5 + 0.1 * 3 = 0.8; 0.2 - 0.1 * 5 < 0 becomes 0.
    kappa = next_kappa(jnp.array([0.5, 0.2]), jnp.array([3.0, -5.0]), 0.1)
    assert np.allclose(kappa, [0.8, 0.0])


def test_the_papers_example_1() -> None:
    """rho(i) - rho(j) <= 0: a step in i weighs 1/2, in j -1/2, in both or neither 0."""
    atoms = atoms_of("A - B <= 0")
    for labels, expected in [((1, 0), 0.5), ((0, 1), -0.5), ((1, 1), 0.0), ((0, 0), 0.0)]:
        assert float(
            sigmas(atoms, jnp.ones((1, 1)), jnp.array(labels, float))[0, 0]
        ) == pytest.approx(expected)
    charge = PENALTIES["scrl"]().charge
    kappa, uniform = jnp.array([4.0]), jnp.array([0.5])
    # kappa 4: sigma is 2 in i (a punishment), -2 in j (a reward).
    assert float(charge(atoms, kappa, jnp.array([1.0, 0.0]), uniform)) == pytest.approx(2.0)
    assert float(charge(atoms, kappa, jnp.array([0.0, 1.0]), uniform)) == pytest.approx(-2.0)


def test_the_papers_tree_has_the_value_4() -> None:
    """min(5, 1) + min(3, 4) + min(0, 2) = 4, all kappa above 0."""
    sigma = jnp.array([[5.0, 1.0], [3.0, 4.0], [0.0, 2.0]])
    assert float(smallest_sigma(jnp.ones((3, 2)), sigma)) == 4.0


def test_a_clause_with_a_kappa_of_0_charges_nothing() -> None:
    kappa, sigma = jnp.array([[0.0, 3.0]]), jnp.array([[0.0, -9.0]])
    # Without the guard the smallest would be -9: a gift for an atom that need not be kept.
    assert float(smallest_sigma(kappa, sigma)) == 0.0
    assert not draw_shares(kappa).any()
    assert float(drawn_sigma(draw_shares(kappa), sigma, jnp.array([0.5]))) == 0.0


def test_the_draw_has_the_papers_probabilities() -> None:
    """kappa 1, 2, 4: p proportional to 1, 1/2, 1/4, so 4/7, 2/7, 1/7."""
    kappa = jnp.array([[1.0, 2.0, 4.0]])
    sigma = jnp.array([[1.0, 10.0, 100.0]])
    shares = draw_shares(kappa)
    assert np.allclose(shares, [[4 / 7, 2 / 7, 1 / 7]])
    drawn = jax.vmap(lambda uniform: drawn_sigma(shares, sigma, uniform))(lucks(70_000, 1))
    counts = [int((drawn == value).sum()) for value in (1.0, 10.0, 100.0)]
    # Standard deviations of the counts: sqrt(70,000 p (1 - p)) = 131, 120, 93; four of them.
    assert counts[0] == pytest.approx(40_000, abs=524)
    assert counts[1] == pytest.approx(20_000, abs=480)
    assert counts[2] == pytest.approx(10_000, abs=372)


def test_luck_falls_into_one_piece_of_each_clause() -> None:
    """Shares 1/4, 3/4 and 1/2, 1/2: each piece holds its lower end, and 1 is never reached."""
    shares = jnp.array([[0.25, 0.75, 0.0], [0.0, 0.5, 0.5]])
    sigma = jnp.array([[1.0, 10.0, 100.0]] * 2)
    for uniform, expected in [
        ((0.0, 0.0), 1.0 + 10.0),
        ((0.249, 0.5), 1.0 + 100.0),
        ((0.25, 0.499), 10.0 + 10.0),
        ((0.9999999, 0.9999999), 10.0 + 100.0),
    ]:
        assert float(drawn_sigma(shares, sigma, jnp.array(uniform))) == expected


def test_clauses_draw_on_their_own_and_add_up() -> None:
    atoms = atoms_of("A <= 1 or B <= 1", "A + B <= 3")
    kappa = jnp.array([1.0, 1.0, 6.0])
    labels = jnp.array([1.0, 0.0])
    charge = PENALTIES["scrl"]().charge
    seen = np.asarray(
        jax.vmap(lambda uniform: charge(atoms, kappa, labels, uniform))(lucks(4000, 2))
    )
    # The first clause charges 1 (A) or 0 (B), evenly; the second always 6 * 1/2 = 3.
    assert set(np.round(seen, 6)) == {3.0, 4.0}
    assert (seen == 4.0).mean() == pytest.approx(0.5, abs=0.04)


def test_an_atom_shared_by_two_clauses_has_one_kappa() -> None:
    atoms = atoms_of("A <= 1 or B <= 1", "A <= 1 or A + B <= 3")
    assert atoms.listed.tolist() == [[0, 1], [0, 2]]
    assert atoms.shape == (3, 2, 2, 2)


def test_clauses_of_different_lengths_leave_places_empty() -> None:
    """`A <= 1` alone charges 4 * 1 whatever the uniform; the other draws among its two atoms."""
    atoms = atoms_of("A <= 1", "A + B <= 3 or B <= 1")
    assert atoms.listed.tolist() == [[0, -1], [1, 2]]
    kappa, labels = jnp.array([4.0, 2.0, 2.0]), jnp.array([1.0, 0.0])
    by_clause = atoms.kappa_in_clauses(kappa)
    assert np.allclose(draw_shares(by_clause, 0.0), [[1.0, 0.0], [0.5, 0.5]])
    charge = PENALTIES["scrl"]().charge
    assert float(charge(atoms, kappa, labels, jnp.array([0.999, 0.0]))) == pytest.approx(5.0)
    assert float(charge(atoms, kappa, labels, jnp.array([0.0, 0.999]))) == pytest.approx(4.0)
    least = PENALTIES["scrl-min"]().charge
    assert float(least(atoms, kappa, labels, jnp.zeros(2))) == pytest.approx(4.0)


def violations(atoms: Atoms, density: jax.Array) -> jax.Array:
    return signed_violation(atoms.coefficients, atoms.bounds, density)


@pytest.mark.parametrize("rule", ["2*A - 3*B <= 4", "A >= 7", "A + B <= 5"])
def test_with_one_atom_scrl_is_the_lagrangian_method(rule: str) -> None:
    """The proposition: lambda = kappa / d with rate beta / d; the same charges, step for step."""
    atoms, beta = atoms_of(rule), 0.05
    scrl, lagrangian = PENALTIES["scrl"](), PENALTIES["lagrangian"]()
    kappa = multiplier = jnp.zeros(1)
    rng = np.random.default_rng(0)
    for _ in range(50):
        signed = violations(atoms, jnp.asarray(rng.uniform(0, 10, 2), float))
        kappa = scrl.update(atoms, kappa, signed, beta)
        multiplier = lagrangian.update(atoms, multiplier, signed, beta)
        labels = jnp.asarray(rng.integers(0, 2, 2), float)
        uniform = jnp.asarray(rng.uniform(0, 1, 1), float)
        ours = float(scrl.charge(atoms, kappa, labels, uniform))
        theirs = float(lagrangian.charge(atoms, multiplier, labels, uniform))
        assert ours == pytest.approx(theirs, abs=1e-6)
        assert float(multiplier[0]) == pytest.approx(float(kappa[0] / atoms.size[0]), abs=1e-6)


def test_no_penalty_charges_nothing_and_learns_nothing() -> None:
    atoms, none = atoms_of("A <= 1"), PENALTIES["none"]()
    assert float(none.update(atoms, jnp.zeros(1), jnp.array([8.0]), 1.0)[0]) == 0.0
    assert float(none.charge(atoms, jnp.ones(1), jnp.ones(2), jnp.zeros(1))) == 0.0


def test_no_rules_no_charge() -> None:
    atoms = Atoms.of(AtomTable.of(RuleSet((), ("A", "B"))))
    for make in PENALTIES.values():
        penalty = make()
        kappa = penalty.update(atoms, jnp.zeros(0), jnp.zeros(0), 0.1)
        assert float(penalty.charge(atoms, kappa, jnp.ones(2), jnp.zeros(0))) == 0.0
        assert np.allclose(penalty.price(atoms, kappa), 0.0)


def test_a_sharper_draw_prefers_the_smaller_kappa() -> None:
    """kappa 1 and 3, sharpness 2: p proportional to 1 and 1/9, so 9/10 and 1/10."""
    kappa = jnp.array([[1.0, 3.0]])
    # Expected charges per unit of weight: 1 * 9/10 and 3 * 1/10; the paper's draw: 3/4 each.
    assert np.allclose(draw_shares(kappa, 2.0) * kappa, [[0.9, 0.3]])
    assert np.allclose(draw_shares(kappa) * kappa, [[0.75, 0.75]])


@pytest.mark.parametrize("name", ["scrl", "lagrangian", "none"])
def test_the_price_is_what_a_step_earns_on_average(name: str) -> None:
    atoms = atoms_of("A <= 1 or B <= 1", "A + B <= 3 or 2*A - B >= 1")
    kappa, penalty = jnp.array([1.0, 2.0, 6.0, 3.0]), PENALTIES[name]()
    price = penalty.price(atoms, kappa)
    for labels in jnp.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]):
        charges = jax.vmap(lambda uniform, at=labels: penalty.charge(atoms, kappa, at, uniform))(
            lucks(40_000, 2)
        )
        spread = float(charges.std()) / 200.0
        assert float(-charges.mean()) == pytest.approx(float(price @ labels), abs=4 * spread + 1e-5)


def test_the_price_of_the_smallest_sigma_by_hand() -> None:
    """A step in A alone: sigma 2 for `A <= 1`, 0 for `B <= 1`: the least is 0; the guard holds."""
    atoms, penalty = atoms_of("A <= 1 or B <= 1", "A >= 9"), PENALTIES["scrl-min"]()
    assert np.allclose(penalty.price(atoms, jnp.array([2.0, 3.0, 0.5])), [0.5, 0.0])
    assert np.allclose(penalty.price(atoms, jnp.array([2.0, 0.0, 0.5])), [0.5, 0.0])


def test_opposite_atoms_are_found_and_netted() -> None:
    """`A == B within 6` has two halves; what both kappas have in common pulls nowhere."""
    atoms = atoms_of("A == B within 6", "A >= 3")
    assert atoms.opposite.tolist() == [1, 0, 2]
    assert np.allclose(netted(jnp.array([5.0, 2.0, 4.0]), atoms.opposite), [3.0, 0.0, 4.0])
    assert np.allclose(netted(jnp.array([1.0, 2.0, 0.0]), atoms.opposite), [0.0, 1.0, 0.0])


@pytest.mark.parametrize(
    "rules",
    [
        ("A <= 1 or B <= 1", "A >= 3"),  # both broken at A = 2
        ("A <= 5", "A >= 3", "A >= 4"),  # which of the two is the opposite?
        ("A - B <= 5", "2*B - 2*A <= 3"),  # the same sum, but in another unit
    ],
)
def test_atoms_that_can_be_broken_together_keep_their_own_kappas(rules: tuple[str, ...]) -> None:
    atoms = atoms_of(*rules)
    assert atoms.opposite.tolist() == list(range(len(atoms.bounds)))


def test_both_sides_of_an_equality_may_be_broken_in_different_runs() -> None:
    atoms = atoms_of("A == B within 6 in 90 %", "A + B == 9 within 2").with_violations()
    assert atoms.opposite.tolist() == [0, 1, 3, 2]


def test_the_expected_charge_is_the_mean_of_the_drawn_ones() -> None:
    atoms = atoms_of("A <= 1 or B >= 9", "A + B >= 5")
    kappa, labels = jnp.array([1.0, 3.0, 0.5]), jnp.array([0.3, 0.7])
    drawn, expected = PENALTIES["scrl"](), PENALTIES["scrl-expected"]()
    even = (np.arange(4000) + 0.5) / 4000
    charges = [float(drawn.charge(atoms, kappa, labels, jnp.full(2, u))) for u in even[::100]]
    found = float(expected.charge(atoms, kappa, labels, jnp.zeros(2)))
    assert found == pytest.approx(np.mean(charges), rel=0.02)
    assert found == pytest.approx(-float(drawn.price(atoms, kappa) @ labels), rel=1e-6)


def test_netting_does_not_touch_what_an_equality_charges() -> None:
    """In a conjunction only the difference of the two kappas counts, with netting and without."""
    atoms = atoms_of("A == B within 6", "B >= 3")
    plain, net = PENALTIES["lagrangian"](), PENALTIES["lagrangian"](is_netted=True)
    kappa = jnp.array([0.5, 0.2, 0.1])
    signed = violations(atoms, jnp.array([9.0, 9.0]))
    moved, less = (each.update(atoms, kappa, signed, 0.01) for each in (plain, net))
    # Both halves hold by 6: 0.5 - 0.01 * 6 / 2 = 0.47 and 0.17; B >= 3 by 6: 0.1 - 0.06.
    assert np.allclose(moved, [0.47, 0.17, 0.04])
    assert np.allclose(less, [0.3, 0.0, 0.04])
    assert np.allclose(plain.price(atoms, moved), net.price(atoms, less), atol=1e-6)


def test_prices_for_any_rules_are_of_all_sizes_and_signs() -> None:
    unit = jnp.array([1.0, 100.0])
    prices = np.asarray(random_prices(unit, 4000, key=jax.random.key(0)) / unit)
    drawn = np.abs(prices[prices != 0])
    assert drawn.min() == pytest.approx(LEAST_PRICE, rel=0.02)
    assert drawn.max() == pytest.approx(LARGEST_PRICE, rel=0.02)
    assert np.median(drawn) == pytest.approx(1.0, rel=0.15)
    assert np.mean(prices > 0) == pytest.approx(np.mean(prices < 0), abs=0.03)
    # A price is 0 with probability u^2, u uniform in each world.
    assert np.mean(prices == 0) == pytest.approx(1 / 3, abs=0.03)
    assert np.mean((prices == 0).all(axis=1)) == pytest.approx(1 / 5, abs=0.03)


def test_any_prices_charge_what_they_say() -> None:
    penalty, nothing = AnyPrices(), atoms_of()
    prices, labels = jnp.array([2.0, -3.0]), jnp.array([0.5, 1.0])
    assert float(penalty.charge(nothing, prices, labels, jnp.zeros(0))) == pytest.approx(2.0)
    assert penalty.price(nothing, jnp.zeros(0)).tolist() == [0.0, 0.0]
