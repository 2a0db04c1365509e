"""Methods by name: what can be said is understood, what cannot is told with the nearest name."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any, TypedDict

import pytest

import scrl
from scrl.errors import MethodError
from scrl.learners import LEARNERS
from scrl.learners.config import PpoConfig
from scrl.penalty import PENALTIES
from scrl.training.config import (
    METHODS,
    PRESETS,
    TrainingConfig,
    configure,
    parse_settings,
    parse_sweep,
)

# Names.


@pytest.mark.parametrize(
    ("method", "learner", "penalty"), list(itertools.product(METHODS, LEARNERS, PENALTIES))
)
def test_every_method_takes_every_learner_and_penalty(
    method: str, learner: str, penalty: str
) -> None:
    config = configure(method, learner=learner, penalty=penalty)
    assert (config.method, config.learner, config.penalty) == (method, learner, penalty)
    assert type(config.learner_settings) is LEARNERS[learner].config
    assert config.plan.settings == config.learner_settings
    assert type(config.penalty_rule()) is PENALTIES[penalty]


@pytest.mark.parametrize("method", METHODS)
def test_a_method_alone_is_its_learner_and_its_penalty(method: str) -> None:
    config, own = configure(method), METHODS[method]
    assert (config.learner, config.penalty) == (own.learner or "ppo", own.penalty)


class Named(TypedDict, total=False):
    """What a user says of a method."""

    method: str
    penalty: str


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ({}, "all"),
        ({"method": "scrl-min"}, "all"),
        ({"method": "ddpg"}, "nothing"),
        ({"method": "ddpg", "penalty": "scrl"}, "all"),  # a penalty needs something to charge for
        ({"method": "rcpo"}, "cost"),
        ({"method": "cal"}, "cost"),
        ({"method": "pcpo"}, "cost"),
        ({"method": "ppo-lagrangian"}, "every-atom"),
        ({"method": "dcrl-2"}, "disjunct-2"),
        ({"method": "dcrl-12"}, "disjunct-12"),
    ],
)
def test_what_a_method_is_told(named: Named, told: str) -> None:
    config = configure(**named)
    assert config.reading == told
    assert TrainingConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize("name", ["dcrl", "dcrl-0", "dcrl-x", "dcrl-1 "])
def test_there_is_no_dcrl_without_a_number(name: str) -> None:
    with pytest.raises(MethodError, match=f"unknown method '{name}': did you mean 'dcrl-"):
        configure(name)


def test_settings_of_a_method_give_way_to_those_of_a_person() -> None:
    known = configure("rcpo").learner_settings
    changed = configure("rcpo", settings={"actor_share": 0.1}).learner_settings
    assert isinstance(known, PpoConfig)
    assert isinstance(changed, PpoConfig)
    assert (known.actor_share, changed.actor_share) == (0.5, 0.1)


def test_without_a_name_it_is_the_papers_method() -> None:
    assert configure() == configure("scrl")
    assert configure().penalty == "scrl"


def test_the_sharpness_of_the_draw_reaches_the_mechanism() -> None:
    import jax
    import jax.numpy as jnp

    from scrl.penalty import Atoms, Penalty

    @jax.jit
    def price(penalty: Penalty, atoms: Atoms, kappa: jax.Array) -> jax.Array:
        return penalty.price(atoms, kappa)

    # One clause with kappa = 1 and 3; E charge of an atom = kappa p with p = kappa^-s / sum.
    # s = 0: p = 1/2, 1/2, so 0.5 and 1.5. s = 1: p = 3/4, 1/4, so 0.75 for both.
    atoms = Atoms(
        jnp.eye(2), jnp.zeros(2), jnp.array([[0, 1]]), jnp.arange(2), jnp.ones((1, 1)), jnp.zeros(1)
    )
    for sharpness, expected in [(0.0, [-0.5, -1.5]), (1.0, [-0.75, -0.75])]:
        drawing = {"sharpness": sharpness, "run_sharpness": 1.0 - sharpness}
        config = configure(settings=drawing)
        penalty = config.penalty_rule()
        assert price(penalty, atoms, jnp.array([1.0, 3.0])).tolist() == pytest.approx(expected)
        of_runs = config.penalty_rule(is_in_runs=True)
        assert of_runs == configure(settings={"sharpness": 1.0 - sharpness}).penalty_rule()


# Presets.


def test_the_papers_preset_says_what_the_paper_does() -> None:
    config = configure("scrl", preset="paper")
    assert config.learner == "ddpg"
    assert config.penalty_settings.sharpness == 1.0
    assert (config.loop.worlds, config.loop.settle, config.loop.inset) == (1, 0, 0.0)
    assert not config.loop.sees_prices
    assert config.learner_settings.discount == 0.99


def test_the_default_preset_changes_nothing() -> None:
    assert configure(preset="default") == configure()
    assert configure(preset="paper") != configure()


def test_a_preset_leaves_a_method_the_learner_it_is_built_on() -> None:
    own = {name: METHODS[name].learner for name in METHODS if METHODS[name].learner is not None}
    assert {"cal": "cal", "rcpo": "ppo", "sac-lagrangian": "sac"}.items() <= own.items()
    for name, learner in own.items():
        assert configure(name, preset="paper").learner == learner
    assert configure("dcrl-2", preset="paper").learner == "ddpg"
    config = configure("rcpo", preset="paper").learner_settings
    assert isinstance(config, PpoConfig)
    assert (config.actor_share, config.discount) == (0.5, 0.99)


def test_what_is_named_wins_over_the_preset() -> None:
    config = configure(preset="paper", learner="ppo", settings={"discount": 0.5, "worlds": 3})
    assert config.learner == "ppo"
    assert (config.learner_settings.discount, config.loop.worlds) == (0.5, 3)
    assert config.penalty_settings.sharpness == 1.0


@pytest.mark.parametrize(("preset", "learner"), list(itertools.product(PRESETS, LEARNERS)))
def test_a_preset_speaks_to_every_learner(preset: str, learner: str) -> None:
    given, config = PRESETS[preset], configure(preset=preset, learner=learner)
    settings = config.to_json()["settings"]
    reading = given.keys() & settings.keys()
    assert {key: settings[key] for key in reading} == {key: given[key] for key in reading}
    assert given.keys() - settings.keys() <= {"learner", "is_squashed", "batch_size", "updates"}


# What is not known, and what is out of range.


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"method": "scrl-mim"}, r"unknown method 'scrl-mim': did you mean 'scrl-min'\?"),
        ({"method": "dqn"}, r"unknown method 'dqn': known are scrl, scrl-min, "),
        ({"learner": "pro"}, r"unknown learner 'pro': did you mean 'ppo'\?"),
        ({"learner": "DDPG"}, r"unknown learner 'DDPG': did you mean 'ddpg'\?"),
        ({"penalty": "lagrange"}, r"unknown penalty 'lagrange': did you mean 'lagrangian'\?"),
        ({"preset": "papers"}, r"unknown preset 'papers': did you mean 'paper'\?"),
        ({"settings": {"insett": 0.1}}, r"unknown setting 'insett': did you mean 'inset'\?"),
        ({"settings": {"learning-rate": 1}}, r"did you mean 'learning_rate'\?"),
        # Known to another learner only.
        ({"learner": "ppo", "settings": {"buffer_size": 10}}, "unknown setting 'buffer_size'"),
        ({"learner": "sac", "settings": {"clip_range": 0.1}}, "unknown setting 'clip_range'"),
    ],
)
def test_unknown_names_are_told_with_the_nearest_known_one(
    named: dict[str, Any], message: str
) -> None:
    with pytest.raises(MethodError, match=message):
        configure(**named)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"worlds": 0}, "worlds = 0 must be at least 1 and at most 65536"),
        ({"worlds": 2.5}, "worlds = 2.5 must be a whole number"),
        ({"worlds": None}, "worlds = None must be a whole number"),
        ({"settle": -1}, "settle = -1 must be at least 0"),
        ({"sharpness": -0.5}, "sharpness = -0.5 must be at least 0"),
        ({"learning_rate": 0.0}, "learning_rate = 0.0 must be above 0 and at most 1"),
        ({"learning_rate": float("nan")}, "learning_rate = nan must be"),
        ({"learning_rate": "fast"}, "learning_rate = 'fast' must be a finite number"),
        ({"discount": 1.01}, "discount = 1.01 must be above 0 and at most 1"),
        ({"sees_prices": 1}, "sees_prices = 1 must be true or false"),
        ({"kappa_rate": float("inf")}, "kappa_rate = inf must be"),
    ],
)
def test_values_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(MethodError, match=message):
        configure(settings=settings)


def test_training_refuses_a_value_out_of_range_before_it_begins(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(MethodError, match="worlds = 0 must be at least 1"):
        scrl.train("agri-joint", settings={"worlds": 0}, out=out)
    assert not out.exists()


def test_a_rate_that_may_be_none_is_none_until_it_is_given() -> None:
    assert configure().loop.kappa_rate is None
    assert configure(settings={"kappa_rate": None}) == configure()
    assert configure(settings={"kappa_rate": 2}).loop.kappa_rate == 2.0


# Steps.


@pytest.mark.parametrize(
    ("steps", "iterations"),
    [(64, 1), (65, 1), (640, 10), (641, 10), (703, 10)],
)
def test_steps_are_never_exceeded_by_whole_iterations(steps: int, iterations: int) -> None:
    # 2 worlds of 32 steps: 64 in an iteration.
    config = configure(steps=steps, settings={"worlds": 2, "rollout_steps": 32, "iterations": 99})
    assert config.loop.iterations == iterations
    assert (config.loop.worlds, config.loop.rollout_steps) == (2, 32)
    assert config.loop.budget == steps


def test_measuring_and_settling_count_towards_the_steps() -> None:
    settings = {"worlds": 2, "rollout_steps": 32, "episodes": 4, "settle_episodes": 8, "settle": 50}
    calm = configure(steps=1_000, settings=settings, episode_steps=10).loop
    # Settling takes a quarter: 25 rounds of 10. The rest is 10 rounds of 64 + 10.
    assert (calm.iterations, calm.settle) == (10, 25)
    windy = configure(steps=1_000, settings=settings, episode_steps=10, is_random=True).loop
    # 3 rounds of 8 episodes, and 7 of 64 + 4 * 10.
    assert (windy.iterations, windy.settle) == (7, 3)


def test_a_budget_below_one_round_makes_it_shorter() -> None:
    loop = configure(steps=60, settings={"worlds": 2, "rollout_steps": 32}, episode_steps=20).loop
    assert (loop.iterations, loop.settle, loop.rollout_steps) == (1, 0, 20)  # 20 + 2 * 20 = 60


def test_steps_count_the_worlds_of_the_preset() -> None:
    assert configure(preset="paper", steps=10_240).loop.iterations == 10
    assert configure(steps=10 * 16 * 1024).loop.iterations == 10


# To JSON and back.


@pytest.mark.parametrize("is_text", [False, True])
@pytest.mark.parametrize(
    "named",
    [
        *({"method": method} for method in METHODS),
        *(
            {"preset": preset, "learner": learner}
            for preset, learner in itertools.product(PRESETS, LEARNERS)
        ),
        {"preset": "paper", "steps": 12_345},
        {"penalty": "none", "settings": {"kappa_rate": 0.1, "width": 7, "sees_prices": False}},
    ],
    ids=str,
)
def test_a_config_comes_back_from_json_as_it_was(named: dict[str, Any], is_text: bool) -> None:
    config = configure(**named)
    document = config.to_json()
    if is_text:
        document = json.loads(json.dumps(document, allow_nan=False))
    again = TrainingConfig.from_json(document)
    assert again == config
    assert again.plan == config.plan


def test_json_holds_every_setting_and_the_three_names() -> None:
    document = configure("sac-lagrangian", settings={"batch_size": 9}).to_json()
    assert {key: document[key] for key in ("method", "learner", "penalty")} == {
        "method": "sac-lagrangian",
        "learner": "sac",
        "penalty": "lagrangian",
    }
    assert document["settings"]["batch_size"] == 9
    assert {"sharpness", "iterations", "target_std", "width"} <= document["settings"].keys()


# Settings as texts.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("worlds=8", {"worlds": 8}),
        ("worlds = 8", {"worlds": 8}),
        ("inset=0.5", {"inset": 0.5}),
        ("learning_rate=1e-3", {"learning_rate": 1e-3}),
        ("inset=-2", {"inset": -2}),
        ("sees_prices=true", {"sees_prices": True}),
        ("sees_prices=false", {"sees_prices": False}),
        ("kappa_rate=none", {"kappa_rate": None}),
        ("kappa_rate=", {"kappa_rate": None}),
        ("inset=much", {"inset": "much"}),
        ("a=b=c", {"a": "b=c"}),
    ],
)
def test_texts_become_settings(text: str, expected: dict[str, Any]) -> None:
    found = parse_settings([text])
    assert found == expected
    assert [type(value) for value in found.values()] == [type(each) for each in expected.values()]


def test_of_two_texts_for_one_setting_the_last_one_counts() -> None:
    assert parse_settings([]) == {}
    assert parse_settings(["a=1", "b=2", "a=3"]) == {"a": 3, "b": 2}


@pytest.mark.parametrize("text", ["worlds", "=8", " = 8", ""])
def test_a_text_that_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(MethodError, match=rf"'{text}' is not a setting: write key=value"):
        parse_settings([text])


def test_a_text_that_is_no_number_is_refused_where_one_is_needed() -> None:
    with pytest.raises(MethodError, match="inset = 'much' must be a finite number"):
        configure(settings=parse_settings(["inset=much"]))


def test_values_to_sweep_are_read_like_settings() -> None:
    assert parse_sweep([]) == {}
    assert parse_sweep(["width = 8, 16", "inset=0,0.15", "discount=none,1", "is_netted=true"]) == {
        "width": (8, 16), "inset": (0, 0.15), "discount": (None, 1), "is_netted": (True,),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["width"], "'width' is nothing to sweep: write key=value,value,..."),
        (["=8"], "'=8' is nothing to sweep"),
        (["width="], "'width=' is nothing to sweep"),
        (["width=8,16,8"], "'width=8,16,8': width would take the same value twice"),
        (["width=8", "width=16"], "'width=16': width is swept already; name all its values"),
    ],
)
def test_what_cannot_be_swept_is_named(texts: list[str], message: str) -> None:
    with pytest.raises(MethodError, match=re.escape(message)):
        parse_sweep(texts)
