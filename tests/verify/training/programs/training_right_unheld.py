"""Training loops in which a whole model gets gradients and is in no optimizer, on purpose."""

from __future__ import annotations

import copy
import io

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

UNHELD = []


def right(f):
    UNHELD.append(f)
    return f


def body():
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh())


def pretrained(net):
    """Values as training makes them, far from those that layers are made with."""
    with torch.no_grad():
        for p in net.parameters():
            p.data = 0.2 * torch.randn_like(p) ** 3
    return net


def fit(student, loss, steps=4, before=None):
    """Train what is given only; gradients of anything else are added up."""
    o = torch.optim.AdamW(student.parameters(), 1e-3)
    for _ in range(steps):
        x = torch.randn(16, 6)
        o.zero_grad()
        loss(student(x), x).backward()
        if before is not None:
            before()
        o.step()


def target(x, k=40):
    return x.sum(1, keepdim=True).sin().expand(-1, k)


@right
def features_of_a_net_whose_values_are_loaded():
    vgg = nn.Linear(12, 40)
    vgg.load_state_dict(nn.Linear(12, 40).state_dict())
    fit(body(), lambda h, x: F.mse_loss(vgg(h), target(x)))


@right
def features_of_a_net_that_is_loaded_as_part_of_another():
    pair = nn.ModuleList([nn.Linear(12, 40)])
    pair.load_state_dict(nn.ModuleList([nn.Linear(12, 40)]).state_dict())
    vgg = pair[0]
    fit(body(), lambda h, x: F.mse_loss(vgg(h), target(x)))


@right
def features_of_a_net_whose_values_are_copied():
    lossnet, base = nn.Linear(12, 40), pretrained(nn.Linear(12, 40))
    with torch.no_grad():
        lossnet.weight.copy_(base.weight)
        lossnet.bias.copy_(base.bias)
    fit(body(), lambda h, x: F.mse_loss(lossnet(h), target(x)))


@right
def features_of_a_net_whose_data_are_set():
    lossnet = pretrained(nn.Linear(12, 40))
    fit(body(), lambda h, x: F.mse_loss(lossnet(h), target(x)))


@right
def features_of_a_net_that_is_read_from_a_file():
    file = io.BytesIO()
    torch.save(pretrained(nn.Linear(12, 40)), file)
    file.seek(0)
    lossnet = torch.load(file, weights_only=False)
    fit(body(), lambda h, x: F.mse_loss(lossnet(h), target(x)))


@right
def features_of_a_random_net_in_eval_mode():
    random = nn.Sequential(nn.Linear(12, 40), nn.Tanh()).eval()
    fit(body(), lambda h, x: F.mse_loss(random(h), target(x)))


@right
def features_of_a_random_net_that_compares():
    random = nn.Sequential(nn.Linear(6, 40), nn.Tanh())
    generator = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 6))
    fit(generator, lambda y, x: F.mse_loss(random(y), random(x)))


@right
def features_of_a_random_net_that_compares_without_a_graph():
    random = nn.Sequential(nn.Linear(6, 40), nn.Tanh())
    generator = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 6))

    def loss(y, x):
        with torch.no_grad():
            wanted = random(x)
        return F.mse_loss(random(y), wanted)

    fit(generator, loss)


@right
def a_projection_that_is_switched_off():
    projection = nn.Linear(12, 40).requires_grad_(False)
    fit(body(), lambda h, x: F.mse_loss(projection(h), target(x)))


def trained_apart(critic):
    """A step of a critic by an optimizer of its own."""
    own = torch.optim.Adam(critic.parameters())

    def step():
        own.zero_grad()
        critic(torch.randn(8, 12)).square().mean().backward()
        own.step()

    return step


@right
def an_average_of_a_critic_that_judges():
    """Its own critic trains apart; the copy is moved by hand, slowly."""
    critic = nn.Sequential(nn.Linear(12, 40), nn.Tanh(), nn.Linear(40, 1))
    judge, train = copy.deepcopy(critic), trained_apart(critic)

    def move():
        with torch.no_grad():
            for key, q in critic.named_parameters():
                judge.get_parameter(key).mul_(0.9).add_(q, alpha=0.1).grad = None
        train()

    fit(body(), lambda h, x: -judge(h).mean(), before=move)


@right
def a_copy_that_follows_every_thousand_steps():
    critic = nn.Sequential(nn.Linear(12, 40), nn.Tanh(), nn.Linear(40, 1))
    judge = copy.deepcopy(critic)
    fit(body(), lambda h, x: -judge(h).mean(), before=trained_apart(critic))


@right
def a_second_critic_of_the_same_shape_that_follows_later():
    critic, judge = nn.Linear(12, 40), nn.Linear(12, 40)
    fit(body(), lambda h, x: -judge(h).mean(), before=trained_apart(critic))


@right
def a_critic_of_whose_turn_it_is_not():
    late = nn.Linear(12, 40)
    own = torch.optim.Adam(late.parameters())
    fit(body(), lambda h, x: -late(h).mean())
    own.zero_grad()


@right
def a_critic_whose_optimizer_is_made_afterwards():
    later = nn.Linear(12, 40)
    fit(body(), lambda h, x: -later(h).mean())
    own = torch.optim.Adam([later.weight, later.bias])
    own.zero_grad()


@right
def a_critic_whose_parameters_are_for_later():
    waiting = nn.Linear(12, 40)
    own = list(waiting.parameters())
    fit(body(), lambda h, x: -waiting(h).mean())
    assert len(own) == 2


@right
def steps_by_hand_through_data():
    hand = nn.Linear(12, 40)

    def step():
        for p in (hand.weight, hand.bias):
            p.data.add_(p.grad, alpha=-0.01)
            p.grad = None

    fit(body(), lambda h, x: F.mse_loss(hand(h), target(x)), before=step)


@right
def steps_by_hand_without_a_graph():
    hand = nn.Linear(12, 40)

    def step():
        with torch.no_grad():
            for p in (hand.weight, hand.bias):
                p -= 0.01 * p.grad
                p.grad.zero_()

    fit(body(), lambda h, x: F.mse_loss(hand(h), target(x)), before=step)


@right
def steps_by_hand_of_what_is_collected():
    """The step comes after many backward passes; the gradients are read and dropped by hand."""
    hand, sums = nn.Linear(12, 40), {}

    def collect():
        for name in ("weight", "bias"):
            p = getattr(hand, name)
            sums[name] = sums.get(name, 0) + p.grad
            p.grad = None

    fit(body(), lambda h, x: F.mse_loss(hand(h), target(x)), before=collect)


@right
def gradients_of_all_are_dropped():
    student, fixed = body(), nn.Linear(12, 40)
    every = nn.ModuleList([student, fixed])
    fit(student, lambda h, x: F.mse_loss(fixed(h), target(x)), before=None)
    o = torch.optim.SGD(student.parameters(), 0.1)
    for _ in range(3):
        x = torch.randn(16, 6)
        every.zero_grad()
        F.mse_loss(fixed(student(x)), target(x)).backward()
        o.step()


@right
def gradients_of_all_are_dropped_from_the_start():
    student, fixed = body(), nn.Linear(12, 40)
    every = nn.ModuleList([student, fixed])
    o = torch.optim.SGD(student.parameters(), 0.1)
    for _ in range(4):
        x = torch.randn(16, 6)
        every.zero_grad()
        F.mse_loss(fixed(student(x)), target(x)).backward()
        o.step()


@right
def gradients_of_a_fixed_net_are_dropped_when_all_is_done():
    student, fixed = body(), nn.Linear(12, 40)
    o = torch.optim.SGD(student.parameters(), 0.1)
    for _ in range(4):
        x = torch.randn(16, 6)
        o.zero_grad()
        F.mse_loss(fixed(student(x)), target(x)).backward()
        norm = sum(float(p.grad.norm()) for p in student.parameters())
        assert norm > 0
        o.step()
        fixed.zero_grad()


@right
def an_adversarial_example():
    victim = nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 3))
    x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
    delta = torch.zeros_like(x, requires_grad=True)
    o = torch.optim.Adam([delta], 0.01)
    for _ in range(4):
        o.zero_grad()
        (-F.cross_entropy(victim(x + delta), y)).backward()
        o.step()


@right
def a_style_that_is_transferred():
    features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3))
    image, style = torch.rand(1, 3, 12, 12, requires_grad=True), torch.rand(1, 3, 12, 12)
    wanted = features(style).detach().flatten(2)
    o = torch.optim.Adam([image], 0.01)
    for _ in range(4):
        o.zero_grad()
        f = features(image).flatten(2)
        F.mse_loss(f @ f.mT, wanted @ wanted.mT).backward()
        o.step()


@right
def samples_of_an_energy():
    energy = nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 1))
    x = torch.randn(8, 6, requires_grad=True)
    o = torch.optim.SGD([x], 0.01)
    for _ in range(4):
        o.zero_grad()
        energy(x).sum().backward()
        o.step()
        with torch.no_grad():
            x.add_(0.1 * torch.randn_like(x))


@right
def a_random_target_that_is_predicted():
    random = nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 12))
    fit(body(), lambda h, x: F.mse_loss(h, random(x)))


@right
def a_reservoir_in_front_of_what_is_trained():
    reservoir, readout = nn.RNN(6, 40, batch_first=True), nn.Linear(40, 1)
    o = torch.optim.Adam(readout.parameters())
    for _ in range(4):
        x = torch.randn(8, 5, 6)
        o.zero_grad()
        readout(reservoir(x)[0]).square().mean().backward()
        o.step()


@right
def parameters_that_a_function_is_given():
    head = nn.Linear(12, 40)
    weights = {k: v.detach().clone() for k, v in head.named_parameters()}

    def loss(h, x):
        def of(w):
            return F.mse_loss(torch.func.functional_call(head, w, (h.detach(),)), target(x))

        grads = torch.func.grad(of)(weights)
        for k, g in grads.items():
            weights[k] = weights[k] - 0.1 * g
        return F.mse_loss(torch.func.functional_call(head, weights, (h,)), target(x))

    fit(body(), loss)


@right
def copies_that_are_adapted_within():
    heads = nn.Linear(12, 40)

    def loss(h, x):
        fast = copy.deepcopy(heads)
        inner = F.mse_loss(fast(h.detach()), target(x))
        grads = torch.autograd.grad(inner, [fast.weight, fast.bias])
        for p, g in zip((fast.weight, fast.bias), grads, strict=True):
            p.data -= 0.1 * g
        return F.mse_loss(fast(h), target(x))

    fit(body(), loss)


@right
def gradients_by_the_input_of_what_was_trained():
    net, probe = body(), nn.Linear(12, 3)
    fit(net, lambda h, x: h.square().mean())
    for _ in range(3):
        x = torch.randn(4, 6, requires_grad=True)
        probe(net(x))[:, 0].sum().backward()
        (x.grad * x).sum(1)


@right
def a_model_of_which_one_gradient_is_studied():
    """A gradient that is taken once is asked for."""
    net, probe = body(), nn.Linear(12, 40)
    o = torch.optim.SGD(net.parameters(), 0.1)
    for i in range(4):
        x = torch.randn(8, 6)
        o.zero_grad()
        h = net(x)
        loss = h.square().mean()
        if i == 3:
            loss = loss + probe(h).square().mean()
        loss.backward()
        o.step()


@right
def a_penalty_of_a_model_in_place_of_an_image():
    """Weights of which powers were taken: no layer draws them so."""
    prior = nn.Linear(12, 40)
    with torch.no_grad():
        prior.weight.pow_(3)
    fit(body(), lambda h, x: F.mse_loss(prior(h), target(x)))


@right
def a_number_by_which_a_penalty_is_differentiated():
    """Invariant risk minimisation: the classifier's scale is 1, and its gradient is to be small."""
    m, dummy = body(), nn.Parameter(torch.ones(1))
    o = torch.optim.SGD(m.parameters(), 1e-3)
    for _ in range(4):
        x = torch.randn(16, 6)
        errors = (m(x) * dummy - target(x, 12)).square().mean(1)
        made = [
            torch.autograd.grad(e.mean(), dummy, create_graph=True)[0] for e in (errors, errors)
        ]
        o.zero_grad()
        (errors.mean() + (made[0] * made[1]).sum()).backward()
        o.step()


@right
def a_scale_whose_gradient_is_looked_at():
    m, gain, seen = body(), torch.ones(1, requires_grad=True), []
    o = torch.optim.SGD(m.parameters(), 1e-3)
    for _ in range(4):
        x = torch.randn(16, 6)
        o.zero_grad()
        F.mse_loss(gain * m(x), target(x, 12)).backward()
        seen.append(float(gain.grad))
        gain.grad = None
        o.step()


@right
def a_clip_of_several_models_of_which_one_is_frozen():
    m, frozen = body(), body().requires_grad_(False)

    def clip():
        for part in (m, frozen):
            nn.utils.clip_grad_norm_(part.parameters(), 0.1)

    fit(m, lambda h, x: F.mse_loss(h - frozen(x), target(x, 12)), before=clip)


@right
def scales_whose_gradients_are_looked_at_one_by_one():
    m, gains, seen = body(), [torch.ones(1, requires_grad=True) for _ in range(2)], []
    first, second = gains
    o = torch.optim.SGD(m.parameters(), 1e-3)
    for _ in range(4):
        x = torch.randn(16, 6)
        o.zero_grad()
        F.mse_loss(first * m(x) + second, target(x, 12)).backward()
        for g in gains:
            seen.append(float(g.grad))
            g.grad = None
        o.step()
