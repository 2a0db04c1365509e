"""What networks are shown and what they are paid, against numbers worked by hand."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scrl.learners.encoders import SweepEncoder
from scrl.learners.learner import Pricing
from scrl.penalty import PENALTIES, Atoms, Drawn, Penalty
from scrl.rules import AtomTable, RuleSet
from scrl.worlds.sweep.observation import observation_size, read_observation
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.world import SweepWorld

PRICE = jnp.array([0.5, -1.0])
"""What a step in A and one in B earn."""

SCALARS = [0.35, 0.5, 0.0, 0.0, 1 / 3]
"""Progress 3.5 of 10 cells, half of the top speed, no gust, the only row, column 3 of 0..9."""

EACH_PENALTY: dict[str, Penalty] = {
    **{name: make() for name, make in PENALTIES.items()},
    "sharp scrl": Drawn(2.0),
}


@pytest.fixture(scope="module")
def observation() -> jax.Array:
    """Half-way through cell 3 of AAAA..BBBB, at a speed of 1.5."""
    labels = np.array([[1, 1, 1, 1, 0, 0, 2, 2, 2, 2]])
    world = SweepWorld.from_spec(SweepSpec(from_labels(labels, ["A", "B"])))

    @jax.jit
    def seen() -> jax.Array:
        state = world.initial(key=jax.random.key(0))
        return world.observe(
            state._replace(cell=jnp.asarray(3), offset=jnp.asarray(0.5), speed=jnp.asarray(1.5))
        )

    return seen()


def encoder(*, sees_prices: bool = True, unit: float = 0.25) -> SweepEncoder:
    channels = 3 if sees_prices else 1
    return SweepEncoder(jnp.asarray(unit), jnp.ones(channels), 2, sees_prices)


def pricing(penalty: Penalty) -> Pricing:
    """Two clauses of two atoms each, all of them charged."""
    rules = RuleSet.of(["A <= 1 or B <= 1", "A + B <= 3 or 2*A - B >= 1"], ("A", "B"))
    atoms = Atoms.of(AtomTable.of(rules))
    return Pricing(atoms, jnp.array([1.0, 2.0, 6.0, 3.0]), jnp.zeros(4), penalty, jnp.ones(()))


def test_the_actor_sees_the_prices_here_and_ahead(observation: jax.Array) -> None:
    inputs = encoder().actor(observation, PRICE)
    # A here, then none, none, B, B, B (cells 3, 4, 5, 6, 7, 9) and past the end; 0.5 / 0.25 = 2.
    ahead = [2.0, 0.0, 0.0, -4.0, -4.0, -4.0, 0.0]
    assert np.allclose(inputs, [*SCALARS, 1.0, 0.0, *ahead])
    assert len(inputs) == encoder().actor_size


def test_the_critic_sees_what_is_left_and_what_it_is_worth(observation: jax.Array) -> None:
    inputs = encoder().critic(observation, PRICE)
    # A quarter of A is left, all of B; prices 2 and -4 in units; products 0.25 * 2 and 1 * -4.
    assert np.allclose(inputs, [*SCALARS, 1.0, 0.0, 0.25, 1.0, 2.0, -4.0, 0.5, -4.0])
    assert len(inputs) == encoder().critic_size


def test_without_prices_both_see_the_observation_as_it_is(observation: jax.Array) -> None:
    blind = encoder(sees_prices=False)
    assert np.array_equal(blind.actor(observation, PRICE), observation)
    assert np.array_equal(blind.critic(observation, PRICE), observation)
    assert blind.actor_size == blind.critic_size == observation_size(2) == len(observation)


def test_the_value_is_the_channels_at_their_price() -> None:
    channels = jnp.array([[-3.0, 4.0, 1.0], [-5.0, 0.0, 2.0]])
    # -3 + 0.5 * 4 - 1 * 1 = -2; -5 - 2 = -7; or each row at a price of its own.
    assert np.allclose(encoder().value(channels, PRICE), [-2.0, -7.0])
    prices = jnp.array([[1.0, 0.0], [0.0, 3.0]])
    assert np.allclose(encoder().value(channels, prices), [1.0, 1.0])
    assert np.allclose(encoder(sees_prices=False).value(channels[:, :1], PRICE), [-3.0, -5.0])


def test_the_critic_predicts_one_number_or_one_more_than_there_are_regions() -> None:
    assert (encoder().channels, encoder(sees_prices=False).channels) == (3, 1)


@pytest.mark.parametrize("sees_prices", [True, False])
@pytest.mark.parametrize("name", EACH_PENALTY)
def test_the_channels_add_up_to_the_punished_reward(name: str, sees_prices: bool) -> None:
    """For every single draw, not only on average: r - sigma of the atom that was drawn."""
    paid_by, looking = pricing(EACH_PENALTY[name]), encoder(sees_prices=sees_prices)
    kappa, reward = jnp.array([1.0, 2.0, 0.5, 3.0]), jnp.asarray(-0.7)

    @jax.jit
    def paid(labels: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Channels, what they are worth, and sigma: for each of some draws."""
        uniform = paid_by.uniform((50,), key=jax.random.key(0))
        channels = jax.vmap(partial(paid_by.channels, looking, kappa, reward, labels))(uniform)
        charge = partial(paid_by.penalty.charge, paid_by.atoms, kappa, labels)
        return channels, looking.value(channels, paid_by.price(kappa)), jax.vmap(charge)(uniform)

    for labels in np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.3, 0.7], [0.0, 0.0]]):
        channels, worth, sigma = paid(jnp.asarray(labels))
        assert channels.shape == (50, looking.channels)
        assert np.allclose(worth, reward - sigma, atol=1e-6)
        if sees_prices:
            assert np.allclose(channels[:, 1:], labels)


def test_the_parts_of_a_punished_reward_by_hand() -> None:
    """`A >= 5 or B >= 5` with kappa 1 and 3: drawn with 3/4 and 1/4, so each price is 3/4."""
    atoms = Atoms.of(AtomTable.of(RuleSet.of("A >= 5 or B >= 5", ("A", "B"))))
    paid_by = Pricing(atoms, jnp.array([1.0, 3.0]), jnp.zeros(2), Drawn(), jnp.ones(()))
    assert np.allclose(paid_by.price(paid_by.kappa), [0.75, 0.75])
    in_a, reward = jnp.array([1.0, 0.0]), jnp.asarray(-0.1)
    uniform = (jnp.arange(100) + 0.5)[:, None] / 100
    paid = partial(paid_by.channels, encoder(), paid_by.kappa, reward, in_a)
    channels = np.asarray(jax.jit(jax.vmap(paid))(uniform))
    # The atom of A is drawn: sigma = -1, r' = 0.9, and 0.9 - 0.75 stays; that of B: sigma = 0,
    # r' = -0.1, and -0.1 - 0.75 stays.
    assert np.allclose(channels[:75, 0], 0.15)
    assert np.allclose(channels[75:, 0], -0.85)


def test_every_world_drives_under_the_present_kappa() -> None:
    paid_by = pricing(Drawn())
    kappas = paid_by.kappas_of_worlds(7, key=jax.random.key(0))
    assert np.array_equal(kappas, np.tile(np.asarray(paid_by.kappa), (7, 1)))


def test_the_observation_is_the_one_the_inputs_are_made_of(observation: jax.Array) -> None:
    seen = read_observation(observation)
    assert np.allclose(seen.scalars, SCALARS)
    assert np.allclose(seen.left, [0.25, 1.0])
