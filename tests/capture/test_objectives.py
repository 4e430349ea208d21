"""What the graphs of the first losses say about what is minimised, and how a loss is set up."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Categorical

import trackside.capture as tc
from trackside.capture.failures import Failures
from trackside.capture.reading.anatomy import LossFacts, ObjectiveFacts, read_anatomy
from trackside.capture.vitals.onlookers import Onlookers

STEPS = 12


def train(folder: Path, model: nn.Module, loss_of: Callable[[int], Tensor]) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=folder):
        for number in range(STEPS):
            loss = loss_of(number)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def objective_of(folder: Path) -> ObjectiveFacts:
    anatomy = read_anatomy(folder)
    assert anatomy is not None
    return anatomy.objective or ObjectiveFacts()


def loss_of(folder: Path) -> LossFacts:
    anatomy = read_anatomy(folder)
    assert anatomy is not None
    return anatomy.losses[0]


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = nn.Linear(4, 3), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor(x), self.critic(x).squeeze(-1)


@pytest.mark.parametrize(("is_detached", "count"), [(False, STEPS), (True, 0)])
@pytest.mark.parametrize("as_ratio", [False, True])
def test_advantages_that_carry_gradients_are_seen(tmp_path, is_detached, count, as_ratio):
    model = ActorCritic()

    def loss(_: int) -> Tensor:
        logits, value = model(torch.randn(16, 4))
        policy = Categorical(logits=logits)
        action = policy.sample()
        advantage = (action == 0).float() - (value.detach() if is_detached else value)
        score = policy.log_prob(action)
        weighted = (score - score.detach()).exp() if as_ratio else score
        return -(weighted * advantage).mean() + 0.5 * advantage.pow(2).mean()

    train(tmp_path / "t", model, loss)
    assert objective_of(tmp_path / "t").num_weights_trained == count


def test_log_probabilities_weighed_by_themselves_or_a_number_are_no_advantages(tmp_path):
    model = nn.Linear(4, 3)
    temperature = nn.Parameter(torch.ones(1))

    def loss(_: int) -> Tensor:
        policy = Categorical(logits=model(torch.randn(16, 4)))
        score = policy.log_prob(policy.sample())
        return (score.exp() * score).mean() + (temperature * score).mean()

    train(tmp_path / "t", model, loss)
    assert objective_of(tmp_path / "t").num_weights_trained == 0


@pytest.mark.parametrize(("sign", "lowered"), [(1.0, STEPS), (-1.0, 0)])
def test_the_way_of_a_policys_entropy_is_seen(tmp_path, sign, lowered):
    model = nn.Linear(4, 3)

    def loss(_: int) -> Tensor:
        policy = Categorical(logits=model(torch.randn(16, 4)))
        action = policy.sample()
        score = policy.log_prob(action)
        return -(score * (action == 0)).mean() + sign * 0.1 * policy.entropy().mean()

    train(tmp_path / "t", model, loss)
    facts = objective_of(tmp_path / "t")
    assert (facts.num_entropies_lowered, facts.num_entropies_raised) == (lowered, STEPS - lowered)


@pytest.mark.parametrize(("sign", "seen"), [(1.0, (STEPS, 0)), (-1.0, (0, STEPS))])
@pytest.mark.parametrize("is_by_log", [True, False])
def test_the_way_of_an_entropy_by_ones_own_arithmetic_is_seen(tmp_path, sign, seen, is_by_log):
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(STEPS):
            scores = model(torch.randn(16, 4))
            logs = scores.log_softmax(-1)
            likely = logs.exp() if is_by_log else scores.softmax(-1)
            action = torch.multinomial(likely.detach(), 1).squeeze(1)
            advantage = (action == 0).float() - 0.5
            entropy = -(likely * logs).sum(-1).mean()
            optimizer.zero_grad()
            (-(logs[range(16), action] * advantage).mean() + sign * 0.1 * entropy).backward()
            optimizer.step()
    facts = objective_of(tmp_path / "t")
    assert (facts.num_entropies_lowered, facts.num_entropies_raised) == seen


def test_an_entropy_that_is_minimised_without_rewards_is_none_of_a_policy(tmp_path):
    model = nn.Linear(4, 3)

    def loss(_: int) -> Tensor:
        logs = model(torch.randn(16, 4)).log_softmax(-1)
        labels = torch.randint(0, 3, (16,))
        own = -(logs[range(16), labels] * torch.rand(16)).mean()
        return own - (logs.exp() * logs).sum(-1).mean()

    train(tmp_path / "t", model, loss)
    assert objective_of(tmp_path / "t").num_entropies_lowered == 0


@pytest.mark.parametrize(
    ("term", "is_free"),
    [
        (lambda s, error: 0.5 * torch.exp(-s) * error**2, True),
        (lambda s, error: error**2 / torch.exp(s), True),
        (lambda s, error: 0.5 * torch.exp(-s) * error**2 + 0.5 * s, False),
        (lambda s, error: error * error / torch.exp(s) + s, False),
        (lambda s, error: torch.exp(-s) * error**2 - torch.exp(-s).log(), False),
        (lambda s, error: torch.exp(-s.detach()) * error**2, False),
        (lambda s, error: torch.exp(-s) * error, False),
    ],
)
def test_a_variance_without_a_price_is_seen(tmp_path, term, is_free):
    model = nn.Linear(4, 2)

    def loss(_: int) -> Tensor:
        mean, s = model(torch.randn(16, 4)).unbind(1)
        return term(s, mean - torch.randn(16)).mean()

    train(tmp_path / "t", model, loss)
    assert objective_of(tmp_path / "t").has_free_precision is is_free


@pytest.mark.parametrize(
    ("axis", "size", "expected"),
    [(0, 3, (16, 3)), (-2, 3, (16, 3)), (1, 3, ()), (-1, 3, ()), (0, 16, ())],
)
def test_a_log_softmax_along_the_samples_is_seen(tmp_path, axis, size, expected):
    model = nn.Linear(4, size)

    def loss(_: int) -> Tensor:
        soft = F.one_hot(torch.randint(0, size, (16,)), size) * 0.9 + 0.1 / size
        return -(soft * model(torch.randn(16, 4)).log_softmax(axis)).sum(1).mean()

    train(tmp_path / "t", model, loss)
    assert tuple(objective_of(tmp_path / "t").softmax_over_samples) == expected


@pytest.mark.parametrize(("is_stale", "alike"), [(True, STEPS - 1), (False, 0)])
def test_ratios_on_known_advantages_are_compared_with_one(tmp_path, is_stale, alike):
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x = torch.randn(16, 4)
    action = torch.randint(0, 3, (16,))
    advantage = torch.randn(16)
    old = Categorical(logits=model(x)).log_prob(action).detach() - 0.1
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(STEPS):
            score = Categorical(logits=model(x)).log_prob(action)
            ratio = (score - (score.detach() if is_stale else old)).exp()
            optimizer.zero_grad()
            (-(ratio * advantage).mean()).backward()
            optimizer.step()
    facts = objective_of(tmp_path / "t")
    assert (facts.num_repeated, facts.num_repeated_alike) == (STEPS - 1, alike)


@pytest.mark.parametrize(("is_stale", "alike"), [(True, 6), (False, 0)])
def test_ratios_on_parts_of_what_was_drawn_before_are_compared_with_one(tmp_path, is_stale, alike):
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(2):
            x, reward = torch.randn(16, 4), torch.randn(16)
            with torch.no_grad():
                policy = Categorical(logits=model(x))
                action = policy.sample()
                old = policy.log_prob(action)
            for part in torch.arange(16).split(4):
                score = Categorical(logits=model(x[part])).log_prob(action[part])
                ratio = (score - (score.detach() if is_stale else old[part])).exp()
                advantage = reward[part] - reward.mean()
                optimizer.zero_grad()
                (-(ratio * advantage).mean()).backward()
                optimizer.step()
    facts = objective_of(tmp_path / "t")
    assert (facts.num_repeated, facts.num_repeated_alike) == (6, alike)


class TwoModels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.teacher, self.student = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.teacher(x), self.student(x)


@pytest.mark.parametrize(
    ("is_fixed", "has_own_loss", "is_seen"),
    [(False, False, True), (True, False, False), (False, True, False)],
)
def test_a_teacher_that_follows_its_student_is_named(tmp_path, is_fixed, has_own_loss, is_seen):
    model = TwoModels()

    def loss(_: int) -> Tensor:
        teacher, student = model(torch.randn(16, 4))
        target = teacher.detach() if is_fixed else teacher
        found = F.kl_div(student.log_softmax(-1), target.softmax(-1), reduction="batchmean")
        own = F.cross_entropy(teacher, torch.randint(0, 3, (16,)))
        return found + own if has_own_loss else found

    train(tmp_path / "t", model, loss)
    assert ("teacher" in objective_of(tmp_path / "t").target_trained) is is_seen


@pytest.mark.parametrize(
    ("spread", "expected"),
    [
        (lambda logvar: logvar, "logarithm"),
        (lambda logvar: logvar.exp(), "variance"),
        (lambda logvar: (0.5 * logvar).exp(), ""),
        (lambda logvar: logvar.exp().sqrt(), ""),
    ],
)
@pytest.mark.parametrize("is_split", [True, False])
def test_what_scales_noise_is_recognised(tmp_path, spread, expected, is_split):
    model = nn.ModuleList([nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(6, 8), nn.Linear(4, 6)])

    class Coder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = model

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            mean, logvar = self.parts[2](x).chunk(2, 1)
            if not is_split:
                mean, logvar = self.parts[0](x), self.parts[1](x)
            z = mean + torch.randn_like(mean) * spread(logvar)
            return self.parts[3](z), mean, logvar

    coder = Coder()

    def loss(_: int) -> Tensor:
        x = torch.randn(16, 6)
        made, mean, logvar = coder(x)
        divergence = -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).sum()
        return F.mse_loss(made, x, reduction="sum") + divergence

    train(tmp_path / "t", coder, loss)
    assert objective_of(tmp_path / "t").raw_spread == expected


@pytest.mark.parametrize(("sign", "raised"), [(-0.5, 0), (0.5, 3)])
@pytest.mark.parametrize("is_squared_by_hand", [False, True])
def test_the_way_of_a_divergence_is_seen(tmp_path, sign, raised, is_squared_by_hand):
    model = nn.Linear(6, 8)

    def loss(_: int) -> Tensor:
        mean, logvar = model(torch.randn(16, 6)).chunk(2, 1)
        square = mean * mean if is_squared_by_hand else mean.pow(2)
        z = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        divergence = sign * (1 + logvar - square - logvar.exp()).sum(1)
        return z.square().mean() + 0.1 * divergence.mean()

    train(tmp_path / "t", model, loss)
    facts = objective_of(tmp_path / "t")
    assert (facts.num_divergences_raised, facts.num_divergences_lowered) == (raised, 3 - raised)


def picked(logits: Tensor, target: Tensor) -> Tensor:
    return F.log_softmax(logits, 1).gather(1, target[:, None]).squeeze(1)


def test_a_loss_of_picked_log_probabilities_is_recognised(tmp_path):
    model = nn.Linear(4, 3)

    def focal(_: int) -> Tensor:
        score = picked(model(torch.randn(16, 4)), torch.randint(0, 3, (16,)))
        return ((1 - score.exp()) ** 2 * score).mean()

    train(tmp_path / "t", model, focal)
    assert objective_of(tmp_path / "t").is_likelihood


def test_a_policy_written_by_hand_is_no_likelihood(tmp_path):
    model = nn.Linear(4, 3)

    def loss(_: int) -> Tensor:
        return -picked(model(torch.randn(16, 4)), torch.randint(0, 3, (16,))).mean()

    rewards = torch.ones(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for number in range(3):
            value = loss(number) * rewards[number]
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    assert not objective_of(tmp_path / "t").is_likelihood


def test_weights_smoothing_and_counts_of_a_loss_are_recorded(tmp_path):
    model = nn.Linear(4, 3)
    target = torch.tensor([0] * 10 + [1] * 5 + [2])
    criterion = nn.CrossEntropyLoss(
        weight=torch.tensor([3.0, 2.0, 1.0]), label_smoothing=0.1, reduction="sum"
    )
    train(tmp_path / "t", model, lambda _: criterion(model(torch.randn(16, 4)), target))
    facts = loss_of(tmp_path / "t")
    assert facts.weights == (3.0, 2.0, 1.0)
    count = facts.class_counts[2]  # how many steps are sampled depends on the machine
    assert 0 < count <= STEPS
    assert facts.class_counts == (10 * count, 5 * count, count)
    assert facts.smoothing == pytest.approx(0.1)


@pytest.mark.parametrize(("scale", "is_objective"), [(1.0, True), (0.1, False)])
def test_a_loss_that_is_all_of_the_objective_is_known(tmp_path, scale, is_objective):
    model = nn.Linear(4, 1)

    def loss(_: int) -> Tensor:
        found = F.mse_loss(model(torch.randn(16, 4)), torch.randn(16, 1), reduction="sum")
        return found if is_objective else scale * found

    train(tmp_path / "t", model, loss)
    assert loss_of(tmp_path / "t").is_objective is is_objective


def test_positives_of_a_binary_loss_are_counted(tmp_path):
    model = nn.Linear(4, 1)
    target = torch.tensor([1.0] * 2 + [0.0] * 14)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(0.25))
    train(tmp_path / "t", model, lambda _: criterion(model(torch.randn(16, 4)).squeeze(1), target))
    facts = loss_of(tmp_path / "t")
    negatives, positives = facts.class_counts
    assert facts.weights == (1.0, 0.25)
    assert negatives == 7 * positives > 0


def test_a_model_that_only_looks_on_is_followed(tmp_path):
    model, target, teacher = nn.Linear(4, 2), nn.Linear(4, 2), nn.Linear(4, 2)
    target.load_state_dict(model.state_dict())
    hooked = Onlookers(Failures(tmp_path))
    for number in range(9):
        hooked.see(model, True)
        with torch.no_grad():
            hooked.watch(target)
            target(torch.randn(3, 4))
            hooked.see(teacher, False)
            teacher.weight += number == 2
    hooked.remove()
    found = {each["name"]: each for each in hooked.to_json()}
    assert not target._forward_pre_hooks
    assert found["target"] | {"type": ""} == {
        "name": "target",
        "type": "",
        "num_calls": 10,
        "num_evaluated": 0,
        "num_checked": 8,
        "is_changed": False,
        "is_copy": True,
        "drops": False,
        "is_trained": False,
    }
    assert (found["teacher"]["is_copy"], found["teacher"]["is_changed"]) == (False, True)

    with torch.no_grad():
        target.weight += 1  # after the last call that was looked at
    (changed,) = (each for each in hooked.to_json() if each["name"] == "target")
    assert changed["is_changed"]


def test_a_target_that_is_called_before_the_trained_model_is_a_copy_of_it(tmp_path):
    model, target, other, late = (nn.Linear(4, 2) for _ in range(4))
    target.load_state_dict(model.state_dict())
    late.load_state_dict(model.state_dict())
    hooked = Onlookers(Failures(tmp_path))
    for _ in range(3):
        hooked.see(model, False)  # an action is chosen
        hooked.see(target, False)
        hooked.see(other, False)
        hooked.see(model, True)
        with torch.no_grad():
            model.weight += 1
        hooked.see(late, False)
    found = {each["name"]: each for each in hooked.to_json()}
    assert {name: each["is_copy"] for name, each in found.items()} == {
        "model": False,
        "target": True,
        "other": False,
        "late": True,
    }


@pytest.mark.parametrize("is_done_used", [True, False])
def test_targets_at_the_end_of_an_episode_are_compared(tmp_path, is_done_used):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, rewards = torch.randn(16, 4), torch.ones(16)
    dones = torch.tensor([1.0] * 4 + [0.0] * 12)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(STEPS):
            with torch.no_grad():
                after = model(torch.ones(16, 4)).squeeze(1)
            target = rewards + 0.9 * ((1 - dones) if is_done_used else 1.0) * after
            loss = F.mse_loss(model(x).squeeze(1), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    facts = objective_of(tmp_path / "t")
    assert facts.num_ends % 4 == 0 < facts.num_ends
    assert facts.num_ends_changed == (0 if is_done_used else facts.num_ends - 4)
