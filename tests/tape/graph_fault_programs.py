"""Programs with a fault of the graph, and a repaired version of each: `# fault` marks the line that must be named.

They resemble questions of users: a name that is bound again, a number in a loss, parameters that are not trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

HEAD = "import torch\nfrom torch import nn\n"


@dataclass(frozen=True)
class FaultyProgram:
    """One program: the kind of its fault, its text, and for each line that is repaired the text that replaces it."""

    name: str
    kind: str
    outcome: str
    text: str
    repairs: tuple[tuple[str, str], ...]

    @property
    def source(self) -> str:
        """The program as it was reported."""
        return HEAD + dedent(self.text).lstrip("\n")

    @property
    def repaired(self) -> str:
        """The same program without the fault."""
        text = self.source
        for old, new in self.repairs:
            assert old in text, old
            text = text.replace(old, new)
        return text

    @property
    def lines(self) -> list[int]:
        """The lines with the fault, counted from 1."""
        return [number for number, line in enumerate(self.source.splitlines(), 1) if line.endswith("# fault")]


PROGRAMS = (
    FaultyProgram("a step without parentheses", "method that is not called", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.ones(3, 2)).pow(2).mean().backward()
        optimizer.step  # fault
        """, (("step  #", "step()  #"),)),
    FaultyProgram("an optimizer without a step", "method that is not called", "correct", """
        net, judge = nn.Linear(2, 1), nn.Linear(1, 1)
        net.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)  # fault
        second = torch.optim.SGD(judge.parameters(), lr=0.1)
        for _ in range(2):
            net.optimizer.zero_grad(), second.zero_grad()
            judge(net(torch.ones(3, 2))).pow(2).mean().backward()
            second.step()
        """, ((".backward()", ".backward(), net.optimizer.step()"),)),
    FaultyProgram("an optimizer that is given the parameters of the other one", "gradient that no optimizer uses", "correct", """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder, self.Decoder = nn.Linear(2, 3), nn.Linear(3, 1)
                self.encoder_optimizer = torch.optim.SGD(
                    params=filter(lambda p: p.requires_grad, self.Decoder.parameters()), lr=0.1)
                self.decoder_optimizer = torch.optim.SGD(
                    params=filter(lambda p: p.requires_grad, self.Decoder.parameters()), lr=0.1)

            def fit(self, x):
                self.encoder_optimizer.zero_grad()
                self.decoder_optimizer.zero_grad()
                self.Decoder(self.encoder(x)).pow(2).mean().backward()
                self.encoder_optimizer.step()
                self.decoder_optimizer.step()  # fault

        model = Model()
        for _ in range(3):
            model.fit(torch.ones(4, 2))
        """, (("encoder_optimizer = torch.optim.SGD(\n            params=filter(lambda p: p.requires_grad, self.Decoder",
               "encoder_optimizer = torch.optim.SGD(\n            params=filter(lambda p: p.requires_grad, self.encoder"),)),
    FaultyProgram("weights of examples that an inner step without a graph does not train", "graph cut", "correct", """
        net, weigh = nn.Linear(2, 1), nn.Linear(1, 1)
        inner = torch.optim.SGD(net.parameters(), lr=0.1)
        outer = torch.optim.SGD(weigh.parameters(), lr=0.1)
        for _ in range(3):
            cost = (net(torch.randn(4, 2)) - 1).pow(2)
            grads = torch.autograd.grad((weigh(cost.detach()).sigmoid() * cost).mean(), list(net.parameters()))  # fault
            weight, bias = (p - 0.1 * g for p, g in zip(net.parameters(), grads))
            outer.zero_grad()
            nn.functional.linear(torch.randn(4, 2), weight, bias).pow(2).mean().backward()
            outer.step()
            inner.zero_grad()
            (net(torch.randn(4, 2)) - 1).pow(2).mean().backward()
            inner.step()
        """, (("list(net.parameters()))", "list(net.parameters()), create_graph=True)"),)),
    FaultyProgram("a custom backward that returns None for a parameter", "no gradient of a custom backward", "correct", """
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, s):
                ctx.save_for_backward(x, s)
                return x * s

            @staticmethod
            def backward(ctx, grad):  # fault
                x, s = ctx.saved_tensors
                return grad * s, None

        lin, scale = nn.Linear(2, 2), nn.Parameter(torch.tensor([0.5, 2.0]))
        optimizer = torch.optim.SGD([*lin.parameters(), scale], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            Scale.apply(lin(torch.ones(3, 2)), scale).pow(2).mean().backward()
            optimizer.step()
        """, (("grad * s, None", "grad * s, (grad * x).sum(0)"),)),
    FaultyProgram("an optimizer without a step in a class that is given its type", "method that is not called", "correct", """
        class Trainer:
            def __init__(self, model, optimizer=torch.optim.SGD):
                self.model, self.optimizer_type = model, optimizer
                self.optimizer = self.optimizer_type(params=self.model.parameters(), lr=0.1)  # fault

            def train(self, x):
                for _ in range(3):
                    self.optimizer.zero_grad()
                    loss = self.model[0](x).pow(2).mean()
                    loss.backward()

            def log(self):
                return [p.grad.norm() for p in self.model.parameters()]

        Trainer(nn.ModuleList([nn.Linear(2, 1), nn.Linear(1, 1)])).train(torch.ones(4, 2))
        """, (("[nn.Linear(2, 1), nn.Linear(1, 1)]", "[nn.Linear(2, 1)]"),
              ("loss.backward()", "loss.backward()\n            self.optimizer.step()"))),
    FaultyProgram("an optimizer without a step that a scheduler and a function are given", "method that is not called", "correct", """
        def decay(optimizer, n):
            for group in optimizer.param_groups: group["lr"] = 0.1 / (n + 1)
        def unused(judge):
            second = torch.optim.SGD(judge.parameters(), lr=0.1)
            decay(second, 1)
        net, judge = nn.Linear(2, 1), nn.Linear(1, 1)
        first = torch.optim.SGD(net.parameters(), lr=0.1)
        second = torch.optim.SGD(judge.parameters(), lr=0.1)  # fault
        scheduler = torch.optim.lr_scheduler.StepLR(second, 2)
        for n in range(2):
            second.zero_grad()
            judge(net(torch.ones(3, 2)).detach()).pow(2).mean().backward()
            first.zero_grad()
            judge(net(torch.ones(3, 2))).pow(2).mean().backward()
            first.step()
            decay(first, n), decay(second, n)
            scheduler.step()
        """, (("detach()).pow(2).mean().backward()", "detach()).pow(2).mean().backward()\n    second.step()"),)),
    FaultyProgram("a parameter that is an expanded view", "rule of autograd", "raises-forward", """
        heads = nn.Parameter(torch.randn(2, 1).expand(3, 2, 1))
        optimizer = torch.optim.SGD([heads], lr=0.1)
        (torch.ones(3, 4, 2) @ heads).pow(2).mean().backward()
        optimizer.step()  # fault
        """, (("expand(3, 2, 1)", "expand(3, 2, 1).clone()"),)),
    FaultyProgram("sparse gradients for Adam", "rule of autograd", "raises-forward", """
        embedding = nn.Embedding(4, 2, sparse=True)
        optimizer = torch.optim.Adam(embedding.parameters())
        embedding(torch.tensor([1])).sum().backward()
        optimizer.step()  # fault
        """, (("sparse=True", "sparse=False"),)),
    FaultyProgram("an attribute that is no parameter", "gradient that no optimizer uses", "correct", """
        class Scaled(nn.Linear):
            def __init__(self):
                super().__init__(2, 2)
                self.scale = torch.randn(2, requires_grad=True)  # fault
            def forward(self, x):
                return super().forward(x) * self.scale
        net = Scaled()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        """, (("torch.randn(2, requires_grad=True)", "nn.Parameter(torch.randn(2))"),)),
    FaultyProgram("an update that is not stored", "step without effect", "correct", """
        w = torch.ones(2, requires_grad=True)
        for _ in range(2):
            (w * w).sum().backward()
            w.data - 0.1 * w.grad  # fault
            w.grad = None
        """, (("w.data - 0.1", "w.data -= 0.1"),)),
    FaultyProgram("a number in a line of two statements", "graph cut", "correct", """
        net = nn.Linear(2, 1)
        for _ in range(2):
            x = torch.rand(3, 2); loss = net(x).pow(2).mean() + net(x).exp().mean().item()  # fault
            net.zero_grad(); loss.backward()
        """, ((".item()", ""),)),
    FaultyProgram("a number that a loss is computed from, and one that is printed", "graph cut", "correct", """
        net, w = nn.Linear(1, 1), nn.Parameter(torch.tensor([1.2]))
        optimizer = torch.optim.SGD([w, *net.parameters()], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            scale = w.item() - 1  # fault
            (net(torch.ones(3, 1)) * scale / 2).pow(2).mean().backward()
            optimizer.step()
            print("%.2f" % w.item())
        """, (("w.item() - 1", "w - 1"),)),
    FaultyProgram("a module that is frozen by an attribute", "setting without effect", "correct", """
        net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        for layer in net[:1]:
            layer.requires_grad = False  # fault
        net(torch.ones(3, 2)).sum().backward()
        """, (("layer.requires_grad = False", "layer.requires_grad_(False)"),)),
    FaultyProgram("a misspelled requires_grad", "setting without effect", "correct", """
        net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        for p in net[0].parameters():
            p.require_grad = False  # fault
        net(torch.ones(3, 2)).sum().backward()
        """, (("p.require_grad = False", "p.requires_grad_(False)"),)),
    FaultyProgram("a comparison in place of an assignment", "setting without effect", "correct", """
        net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        for p in net[0].parameters():
            p.requires_grad == False  # fault
        net(torch.ones(3, 2)).sum().backward()
        """, (("p.requires_grad == False", "p.requires_grad_(False)"),)),
    FaultyProgram("gradients clipped into no tensor", "step without effect", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            for p in net.parameters():
                torch.clamp(p.grad, -0.1, 0.1)  # fault
            optimizer.step()
        """, (("torch.clamp(p.grad, ", "p.grad.clamp_("),)),
    FaultyProgram("a state that is not a copy", "copy onto itself", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        kept = net.state_dict()
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        net.load_state_dict(kept)  # fault
        """, (("net.state_dict()", "{name: value.clone() for name, value in net.state_dict().items()}"),)),
    FaultyProgram("a target network with the parameters of the network", "copy onto itself", "correct", """
        import copy
        net = nn.Sequential(nn.Linear(2, 1))
        target = copy.copy(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (net(torch.ones(3, 2)) - target(torch.ones(3, 2)).detach() - 1).pow(2).mean().backward()
            optimizer.step()
            target.load_state_dict(net.state_dict())  # fault
        """, (("copy.copy(net)", "copy.deepcopy(net)"),)),
    FaultyProgram("a target network that becomes the network after a copy", "copy onto itself", "correct", """
        class Agent:
            def __init__(self):
                self.net, self.target = nn.Linear(2, 1), nn.Linear(2, 1)

            def update(self):
                self.target.load_state_dict(self.net.state_dict())  # fault
                self.target = self.net

        agent = Agent()
        optimizer = torch.optim.SGD(agent.net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (agent.net(torch.ones(3, 2)) - agent.target(torch.ones(3, 2)).detach() - 1).pow(2).mean().backward()
            optimizer.step()
            agent.update()
        """, (("\n        self.target = self.net", ""),)),
    FaultyProgram("a target network that gets the memory of the network", "values without a copy", "correct", """
        net, target = nn.Linear(2, 1), nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (net(torch.ones(3, 2)) - target(torch.ones(3, 2)).detach() - 1).pow(2).mean().backward()
            optimizer.step()
            for kept, p in zip(target.parameters(), net.parameters()):
                kept.data = p.data  # fault
        """, (("kept.data = p.data", "kept.data.copy_(p.data)"),)),
    FaultyProgram("a clipped value that only the loop's name gets", "leaf lost", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
            for p in net.parameters():
                p = p.data.clamp(-0.01, 0.01)  # fault
        """, (("p = p.data.clamp(", "p.data.clamp_("),)),
    FaultyProgram("the best weights, kept without a copy", "copy onto itself", "correct", """
        net, best, lowest = nn.Linear(2, 1), None, float("inf")
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = net(torch.ones(3, 2)).pow(2).mean()
            loss.backward()
            optimizer.step()
            if loss.item() < lowest:
                lowest, best = loss.item(), [p.data for p in net.parameters()]
        for p, kept in zip(net.parameters(), best):
            p.data.copy_(kept)  # fault
        """, (("[p.data for", "[p.data.clone() for"),)),
    FaultyProgram("two layers in one memory", "two parameters in one memory", "correct", """
        net = nn.Sequential(nn.Embedding(4, 3), nn.Linear(3, 4, bias=False))
        net[1].weight.data = net[0].weight.data  # fault
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.arange(4)).pow(2).mean().backward()
            optimizer.step()
        """, (("net[1].weight.data = net[0].weight.data", "net[1].weight = net[0].weight"),)),
    FaultyProgram("a new parameter in the memory of another", "two parameters in one memory", "correct", """
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed, self.out = nn.Embedding(4, 3), nn.Linear(3, 4, bias=False)
                self.out.weight = nn.Parameter(self.embed.weight.detach())  # fault

            def forward(self, x):
                return self.out(self.embed(x))

        net = Tied()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.arange(4)).pow(2).mean().backward()
            optimizer.step()
        """, (("nn.Parameter(self.embed.weight.detach())", "self.embed.weight"),)),
    FaultyProgram("a list of weights in one memory", "values without a copy", "correct", """
        net, history = nn.Linear(2, 1), []
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            history.append(net.weight.detach())  # fault
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        """, (("detach()", "detach().clone()"),)),
    FaultyProgram("a list of states in one memory", "values without a copy", "correct", """
        net, history = nn.Linear(2, 1), []
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            history.append(net.state_dict())  # fault
            optimizer.step()
        """, (("net.state_dict()", "{name: value.clone() for name, value in net.state_dict().items()}"),)),
    FaultyProgram("a derivative in the loss whose graph is not to be kept", "graph used again", "raises-backward", """
        net, x = nn.Sequential(nn.Linear(1, 2), nn.Tanh(), nn.Linear(2, 1)), torch.ones(3, 1, requires_grad=True)
        y = net(x)
        slope = torch.autograd.grad(y, x, torch.ones_like(y), retain_graph=False)[0]  # fault
        (y - slope).pow(2).mean().backward()
        """, (("retain_graph=False", "create_graph=True"),)),
    FaultyProgram("a hook that returns nothing", "hook without a result", "correct", """
        def clip(g):
            g = g.clamp(-0.01, 0.01)  # fault
        net = nn.Linear(2, 1)
        net.weight.register_hook(clip)
        net(torch.ones(3, 2)).sum().backward()
        """, (("  # fault\n", "\n    return g\n"),)),
    FaultyProgram("a hook that each round registers again", "hook registered again", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            for p in net.parameters():
                p.register_hook(lambda g: g * 0.5)  # fault
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        """, (("for _ in range(3):\n    for p in net.parameters():\n        p.register_hook(lambda g: g * 0.5)  # fault\n",
               "for p in net.parameters():\n    p.register_hook(lambda g: g * 0.5)\nfor _ in range(3):\n"),)),
    FaultyProgram("a list that contains one tensor", "values without a copy", "correct", """
        net, state, seen = nn.Linear(2, 1), torch.zeros(2), []
        for _ in range(4):
            state += 1
            seen.append(state)  # fault
        net(torch.stack(seen)).pow(2).mean().backward()
        """, (("append(state)", "append(state.clone())"),)),
    FaultyProgram("a list of one gradient that is cleared in place", "values without a copy", "correct", """
        w, kept = torch.zeros(2, requires_grad=True), []
        for _ in range(3):
            (w - 1).pow(2).sum().backward()
            kept.append(w.grad)  # fault
            with torch.no_grad():
                w -= 0.1 * w.grad
            w.grad.zero_()
        print(torch.stack(kept).norm())
        """, (("append(w.grad)", "append(w.grad.clone())"),)),
    FaultyProgram("a generator that its own loss does not reach", "graph cut", "correct", """
        maker, judge = nn.Linear(1, 2), nn.Linear(2, 1)
        first, second = (torch.optim.SGD(net.parameters(), lr=0.1) for net in (maker, judge))
        for _ in range(3):
            judge.zero_grad()
            (judge(torch.ones(3, 2)) - judge(maker(torch.ones(3, 1)))).pow(2).mean().backward()
            second.step()
            maker.zero_grad()
            judge(maker(torch.ones(3, 1)).detach()).pow(2).mean().backward()  # fault
            first.step()
        """, ((".detach()", ""),)),
    FaultyProgram("a buffer that requires grad", "gradient that no optimizer uses", "correct", """
        class Scale(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("scale", torch.ones(2, requires_grad=True))  # fault
            def forward(self, x):
                return x * self.scale
        net = nn.Sequential(Scale(), nn.Linear(2, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        """, (('self.register_buffer("scale", torch.ones(2, requires_grad=True))',
               "self.scale = torch.nn.Parameter(torch.ones(2, requires_grad=True))"),)),
    FaultyProgram("a copy of a parameter for the optimizer", "rule of autograd", "raises-forward", """
        w = nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([w.clone()], lr=0.1)  # fault
        for _ in range(2):
            optimizer.zero_grad()
            w.pow(2).sum().backward()
            optimizer.step()
        """, (("w.clone()", "w"),)),
    FaultyProgram("a layer that the first forward pass makes", "gradient that no optimizer uses", "correct", """
        class Late(nn.Module):
            def __init__(self):
                super().__init__()
                self.out, self.first = nn.Linear(2, 1), None
            def forward(self, x):
                if self.first is None:
                    self.first = nn.Linear(2, 2)  # fault
                return self.out(self.first(x))
        net = Late()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        """, (("None\n    def", "nn.Linear(2, 2)\n    def"),)),
    FaultyProgram("a parameter of computed values in each forward pass", "graph cut", "correct", """
        class Masked(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.mask = nn.Linear(2, 2), torch.ones(2, 2).tril()
            def forward(self, x):
                self.linear.weight = nn.Parameter(self.linear.weight * self.mask)  # fault
                return self.linear(x)
        net = Masked()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        """, (("self.linear.weight = nn.Parameter(self.linear.weight * self.mask)", "weight = self.linear.weight * self.mask"),
              ("self.linear(x)", 'torch.func.functional_call(self.linear, {"weight": weight}, x)'))),
    FaultyProgram("a target of Q-learning with a graph", "target with a graph", "correct", """
        q = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(q.parameters(), lr=0.1)
        for _ in range(3):
            s, after, a, r = torch.randn(4, 3), torch.randn(4, 3), torch.randint(0, 2, (4, 1)), torch.randn(4)
            target = r + 0.9 * q(after).max(1)[0]  # fault
            loss = nn.functional.mse_loss(q(s).gather(1, a), target.unsqueeze(1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """, (("0.9 * q(after).max(1)[0]", "0.9 * q(after).max(1)[0].detach()"),)),
    FaultyProgram("a critic that stays frozen, next to a copy of it that is never trained", "loss without a graph", "raises-backward", """
        import copy
        actor, critic = nn.Linear(2, 2), nn.Linear(2, 1)
        target = copy.deepcopy(critic).requires_grad_(False)
        of_actor, of_critic = torch.optim.SGD(actor.parameters(), lr=0.1), torch.optim.SGD(critic.parameters(), lr=0.1)
        for _ in range(3):
            x = torch.randn(4, 2)
            with torch.no_grad():
                goal = target(x)
            loss = (critic(x) - goal - 1).pow(2).mean()
            of_critic.zero_grad()
            loss.backward()
            of_critic.step()
            for p in critic.parameters():
                p.requires_grad = False  # fault
            loss = -critic(actor(x)).mean()
            of_actor.zero_grad()
            loss.backward()
            of_actor.step()
        """, (("    of_actor.step()", "    of_actor.step()\n    critic.requires_grad_()"),)),
    FaultyProgram("outputs that are detached in a later step, next to a part that each step freezes", "graph cut", "raises-backward", """
        body, head = nn.Linear(2, 2), nn.Linear(2, 1)
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        for step in range(3):
            body.requires_grad_(False)
            output = head(body(torch.randn(4, 2)))
            if step == 2:
                output = output.detach()  # fault
            optimizer.zero_grad()
            output.pow(2).mean().backward()
            optimizer.step()
            body.requires_grad_(True)
        """, (("output = output.detach()  # fault", "output = output * 1"),)),
    FaultyProgram("a value that another line reads from an attribute", "graph used again", "raises-backward", """
        class Cache: pass
        net = nn.Linear(2, 2)
        def encode(x):
            h = net(x).tanh()  # fault
            Cache.last = h
            h.sum().backward()
        encode(torch.ones(3, 2))
        last = Cache.last
        last.exp().sum().backward()
        """, (("h.sum().backward()", "h.sum().backward(retain_graph=True)"),)),
    FaultyProgram("a discriminator that the generator's step leaves frozen", "loss without a graph", "raises-backward", """
        net, gen = nn.Linear(2, 1), nn.Linear(2, 2)
        of_net, of_gen = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(gen.parameters(), lr=0.1)
        def switch(module, flag):
            for p in module.parameters():
                p.requires_grad = flag  # fault
        for _ in range(3):
            loss = net(gen(torch.randn(4, 2)).detach()).mean() - net(torch.randn(4, 2)).mean()
            of_net.zero_grad()
            loss.backward()
            of_net.step()
            switch(net, False)
            loss = -net(gen(torch.randn(4, 2))).mean()
            of_gen.zero_grad()
            loss.backward()
            of_gen.step()
        """, (("    of_gen.step()", "    of_gen.step()\n    switch(net, True)"),)),
    FaultyProgram("detached samples in a generator's step, next to a gradient penalty", "graph cut", "correct", """
        gen, dis = nn.Linear(4, 3), nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        of_gen, of_dis = torch.optim.SGD(gen.parameters(), lr=0.1), torch.optim.SGD(dis.parameters(), lr=0.1)
        for _ in range(3):
            fake = gen(torch.randn(5, 4)).detach()
            mixed = (0.5 * torch.randn(5, 3) + 0.5 * fake).requires_grad_()
            (slope,) = torch.autograd.grad(dis(mixed).sum(), mixed, create_graph=True)
            of_dis.zero_grad()
            (dis(fake).mean() + (slope.norm(2, 1) - 1).pow(2).mean()).backward()
            of_dis.step()
            fake = gen(torch.randn(5, 4)).detach()  # fault
            of_gen.zero_grad()
            (-dis(fake).mean()).backward()
            of_gen.step()
        """, (("gen(torch.randn(5, 4)).detach()  # fault", "gen(torch.randn(5, 4))"),)),
    FaultyProgram("a derivative without a graph, four calls before its loss in a long run", "graph cut", "correct", """
        net = nn.Sequential(nn.Linear(2, 8), *(layer for _ in range(8) for layer in (nn.Tanh(), nn.Linear(8, 8))))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        def slope(of, by):
            return torch.autograd.grad(of.sum(), by, create_graph=True)[0]
        for _ in range(12):
            x, y = torch.rand(2, 5, 1, requires_grad=True)
            u = net(torch.cat([x, y], 1))
            u_x, u_y = slope(u, x), slope(u, y)
            u_t = torch.autograd.grad(u.sum(), y, retain_graph=True)[0]  # fault
            optimizer.zero_grad()
            (slope(u_x, x) + slope(u_y, y) + slope(u_x, y) + u_t).pow(2).mean().backward()
            optimizer.step()
        """, (("y, retain_graph=True", "y, create_graph=True"),)),
    FaultyProgram("an encoder that its decoder's step leaves frozen", "loss without a graph", "raises-backward", """
        enc, dec = nn.Linear(2, 2), nn.Linear(2, 2)
        of_enc, of_dec = torch.optim.SGD(enc.parameters(), lr=0.1), torch.optim.SGD(dec.parameters(), lr=0.1)
        for _ in range(3):
            dec.requires_grad_(False)
            of_enc.zero_grad()
            dec(enc(torch.ones(3, 2))).pow(2).mean().backward()
            of_enc.step()
            for p in enc.parameters():
                p.requires_grad = False  # fault
            dec.requires_grad_(True)
            of_dec.zero_grad()
            dec(enc(torch.ones(3, 2))).pow(2).sum().backward()
            of_dec.step()
        """, (("    dec.requires_grad_(False)", "    dec.requires_grad_(False)\n    enc.requires_grad_(True)"),)),
    FaultyProgram("a discriminator that is frozen before its first step", "loss without a graph", "raises-backward", """
        net, gen = nn.Linear(2, 1), nn.Linear(2, 2)
        of_net, of_gen = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(gen.parameters(), lr=0.1)
        for _ in range(3):
            made = gen(torch.randn(4, 2))
            net.requires_grad_(False)  # fault
            loss = -net(made).mean()
            of_gen.zero_grad()
            loss.backward()
            of_gen.step()
            loss = net(made.detach()).mean() - net(torch.randn(4, 2)).mean()
            of_net.zero_grad()
            loss.backward()
            of_net.step()
        """, (("    of_gen.step()", "    of_gen.step()\n    net.requires_grad_()"),)),
    FaultyProgram("a generator that its loss detaches, next to a frozen discriminator", "graph cut", "raises-backward", """
        net, gen = nn.Linear(2, 1), nn.Linear(2, 2)
        of_net, of_gen = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(gen.parameters(), lr=0.1)
        for _ in range(3):
            loss = net(gen(torch.randn(4, 2)).detach()).mean() - net(torch.randn(4, 2)).mean()
            of_net.zero_grad()
            loss.backward()
            of_net.step()
            net.requires_grad_(False)
            made = gen(torch.randn(4, 2)).detach()  # fault
            of_gen.zero_grad()
            (-net(made).mean()).backward()
            of_gen.step()
            net.requires_grad_()
        """, (("gen(torch.randn(4, 2)).detach()  # fault", "gen(torch.randn(4, 2))"),)),
    FaultyProgram("an image that is bound to its clamped values", "leaf lost", "raises-backward", """
        image = torch.rand(2, 3, requires_grad=True)
        optimizer = torch.optim.SGD([image], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (image - 2).pow(2).sum().backward()
            optimizer.step()
            image = image.clamp(0, 1)  # fault
        """, (("image = image.clamp(0, 1)", "with torch.no_grad():\n        image.clamp_(0, 1)"),)),
    FaultyProgram("outputs that are written into a tensor through .data", "graph cut", "raises-backward", """
        net = nn.Linear(2, 3)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            x, out = torch.randn(4, 2), torch.zeros(4, 3)
            for t in range(4):
                out.data[t] = net(x[t])  # fault
            optimizer.zero_grad()
            out.pow(2).mean().backward()
            optimizer.step()
        """, (("out.data[t]", "out[t]"),)),
    FaultyProgram("an encoder that no optimizer holds, which is converted at the end", "gradient that no optimizer uses", "correct", """
        encoder, head = nn.Linear(2, 3), nn.Linear(3, 1)  # fault
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            head(encoder(torch.ones(3, 2))).pow(2).mean().backward()
            optimizer.step()
        encoder.double(), head.double()
        """, (("head.parameters()", "[*encoder.parameters(), *head.parameters()]"),)),
    FaultyProgram("a parameter of ones in each forward pass", "gradient that no optimizer uses", "correct", """
        class Gate(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(2, 2)
            def forward(self, x):
                gate = nn.Parameter(torch.ones(2))  # fault
                return self.linear(x) * gate
        net = Gate()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        """, (("self.linear = nn.Linear(2, 2)", "self.linear, self.gate = nn.Linear(2, 2), nn.Parameter(torch.ones(2))"),
              ("gate = nn.Parameter(torch.ones(2))  # fault", "gate = self.gate"))),
    FaultyProgram("gradients of an iterator that the optimizer has used up", "iterator that is used up", "correct", """
        net = nn.Linear(2, 1)
        params = filter(lambda p: p.requires_grad, net.parameters())
        optimizer = torch.optim.SGD(params, lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            nn.utils.clip_grad_norm_(params, 0.1)  # fault
            optimizer.step()
        """, (("filter(lambda p: p.requires_grad, net.parameters())", "list(filter(lambda p: p.requires_grad, net.parameters()))"),)),
    FaultyProgram("an iterator that is an attribute", "iterator that is used up", "correct", """
        class Trainer:
            def __init__(self, net):
                self.net = net
                self.params = net.parameters()
                self.optimizer = torch.optim.SGD(self.params, lr=0.1)
            def step(self):
                self.optimizer.zero_grad()
                self.net(torch.ones(3, 2)).pow(2).mean().backward()
                nn.utils.clip_grad_norm_(self.params, 0.1)  # fault
                self.optimizer.step()
        Trainer(nn.Linear(2, 1)).step()
        """, (("net.parameters()", "list(net.parameters())"),)),
    FaultyProgram("an update by hand of an iterator", "iterator that is used up", "correct", """
        net = nn.Linear(2, 1)
        params = net.parameters()
        for _ in range(2):
            net(torch.ones(3, 2)).pow(2).mean().backward()
            with torch.no_grad():
                for p in params:  # fault
                    p -= 0.1 * p.grad
                    p.grad = None
        """, (("= net.parameters()", "= list(net.parameters())"),)),
    FaultyProgram("gradients clipped before they are unscaled", "gradients clipped before backward", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(2):
            optimizer.zero_grad()
            scaler.scale(net(torch.ones(3, 2)).pow(2).mean()).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # fault
            scaler.step(optimizer)
            scaler.update()
        """, (("torch.nn.utils", "scaler.unscale_(optimizer)\n    torch.nn.utils"),)),
    FaultyProgram("a step of an optimizer with the gradients of a scaled loss", "scaled gradient in a step", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(2):
            optimizer.zero_grad()
            scaler.scale(net(torch.ones(3, 2)).pow(2).mean()).backward()
            optimizer.step()  # fault
        """, (("optimizer.step()", "scaler.step(optimizer)\n    scaler.update()"),)),
    FaultyProgram("a step of a scaler without cleared gradients", "gradient not cleared", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(3):
            scaler.scale(net(torch.ones(3, 2)).pow(2).mean()).backward()  # fault
            scaler.step(optimizer)
            scaler.update()
        """, (("    scaler.scale", "    optimizer.zero_grad()\n    scaler.scale"),)),
    FaultyProgram("gradients clipped after the step", "gradients clipped before backward", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)  # fault
        """, (("optimizer.step()\n    nn.utils.clip_grad_norm_(net.parameters(), 0.1)  # fault",
               "nn.utils.clip_grad_norm_(net.parameters(), 0.1)\n    optimizer.step()"),)),
    FaultyProgram("gradients clipped after the step, on a condition", "gradients clipped before backward", "correct", """
        net, limit = nn.Linear(2, 1), 0.1
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
            scheduler.step()
            if limit:
                nn.utils.clip_grad_norm_(net.parameters(), limit)  # fault
        """, (("optimizer.step()\n    scheduler.step()", ""),
              ("limit)  # fault", "limit)\n    optimizer.step()\n    scheduler.step()"))),
    FaultyProgram("gradients clipped after the step of a function", "gradients clipped before backward", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        def update(x):
            optimizer.zero_grad()
            net(x).pow(2).mean().backward()
            optimizer.step()
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)  # fault
        for _ in range(2): update(torch.ones(3, 2))
        """, (("optimizer.step()\n    nn.utils.clip_grad_norm_(net.parameters(), 0.1)  # fault",
               "nn.utils.clip_grad_norm_(net.parameters(), 0.1)\n    optimizer.step()"),)),
    FaultyProgram("parameters that are replaced after the optimizer", "optimizer of other parameters", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        nn.utils.parametrizations.weight_norm(net)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()  # fault
        """, (("optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\nnn.utils.parametrizations.weight_norm(net)",
               "nn.utils.parametrizations.weight_norm(net)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)"),)),
    FaultyProgram("a checkpoint that runs differently", "rule of autograd", "raises-backward", """
        shift = [0.0, 1.0]
        x = torch.ones(2, requires_grad=True)
        def block(x):
            return (x * 2).exp() if shift.pop() else x * 2
        loss = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum()
        loss.backward()  # fault
        """, (("[0.0, 1.0]", "[1.0, 1.0]"),)),
    FaultyProgram("a number as the gradient", "rule of autograd", "raises-backward", """
        w = torch.ones(2, requires_grad=True)
        w.pow(2).sum().backward(1.0)  # fault
        """, (("backward(1.0)", "backward()"),)),
    FaultyProgram("a closure without a loss", "rule of autograd", "raises-forward", """
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.LBFGS([w])
        def closure():
            optimizer.zero_grad()
            loss = w.pow(2).sum()
            loss.backward()
        optimizer.step(closure)  # fault
        """, (("loss.backward()", "loss.backward()\n    return loss"),)),
    FaultyProgram("nan in anomaly mode", "rule of autograd", "raises-backward", """
        torch.autograd.set_detect_anomaly(True)
        x = torch.zeros(2, requires_grad=True)
        y = x.sqrt() * 0  # fault
        y.sum().backward()
        """, (("zeros(2", "ones(2"),)),
    FaultyProgram("a gradient for a number", "gradients of a custom backward", "raises-backward", """
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, factor):
                ctx.factor = factor
                return x * factor
            @staticmethod
            def backward(ctx, g):  # fault
                return g * ctx.factor, g.sum()
        Scale.apply(torch.ones(2, requires_grad=True), 2.0).sum().backward()
        """, (("g.sum()\n", "None\n"),)),
    FaultyProgram("a list of losses for NumPy", "tensor that a later line cannot use", "raises-forward", """
        import numpy
        w, losses = torch.ones(2, requires_grad=True), []
        for _ in range(2):
            loss = w.pow(2).sum()
            loss.backward()
            losses.append(loss)
        numpy.mean(losses)  # fault
        """, (("append(loss)", "append(loss.item())"),)),
    FaultyProgram("an input that a Function returns", "tensor that a later line cannot use", "raises-forward", """
        class Same(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x
            @staticmethod
            def backward(ctx, g):
                return g
        x = Same.apply(torch.ones(2, requires_grad=True) * 2)  # fault
        x[0] = 3.0
        x.sum().backward()
        """, (("return x\n", "return x.clone()\n"),)),
    FaultyProgram("weights that should require grad", "loss without a graph", "raises-backward", """
        x = torch.ones(3)
        w = torch.zeros(3)  # fault
        ((x * w - 1) ** 2).sum().backward()
        w = w.detach() - 0.1 * w.grad
        """, (("zeros(3)", "zeros(3, requires_grad=True)"),)),
    FaultyProgram("a frozen head", "loss without a graph", "raises-backward", """
        net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        net.requires_grad_(False)  # fault
        optimizer = torch.optim.SGD(net[1].parameters(), lr=0.1)
        net(torch.ones(3, 2)).sum().backward()
        """, (("net.req", "net[0].req"),)),
    FaultyProgram("a number of the loss", "graph cut", "raises-forward", """
        net = nn.Linear(2, 1)
        loss = (1 - net(torch.ones(3, 2))).sum().item()  # fault
        loss.backward()
        """, ((".item()", ""),)),
    FaultyProgram("a gradient kept too late", "gradient of a tensor that is not a leaf", "raises-forward", """
        h = torch.ones(2, requires_grad=True) * 2
        h.sum().backward()
        h.retain_grad()
        print(h.grad.norm())  # fault
        """, (("h.sum().backward()\nh.retain_grad()", "h.retain_grad()\nh.sum().backward()"),)),
    FaultyProgram("the gradient of a name that is given to a computed tensor", "gradient of a tensor that is not a leaf", "correct", """
        w = torch.ones(2, requires_grad=True)
        w.pow(2).sum().backward()
        w = w / w.norm()
        slope = w.grad  # fault
        """, (("w = w / w.norm()\nslope = w.grad", "slope = w.grad"),)),
    FaultyProgram("the graph of a leaf", "rule of autograd", "raises-forward", """
        w = torch.ones(2, requires_grad=True)
        loss = (w * 2).sum()
        loss.backward()
        print(w.grad_fn.next_functions)  # fault
        """, (("w.grad_fn", "loss.grad_fn"),)),
    FaultyProgram("a list of losses with their graphs", "graph used again", "raises-backward", """
        net, losses = nn.Linear(2, 1), []
        for x in torch.ones(3, 4, 2):
            loss = net(x).pow(2).mean()  # fault
            losses.append(loss)
            loss = torch.stack(losses).mean()
            loss.backward()
        """, (("losses.append(loss)\n    loss = torch.stack(losses).mean()", "losses.append(loss.item())"),)),
    FaultyProgram("gradients that an inner loop over networks does not clear", "gradient not cleared", "correct", """
        nets = nn.Linear(2, 1), nn.Linear(2, 1)
        optimizer = torch.optim.SGD([p for net in nets for p in net.parameters()], lr=0.1)
        for _ in range(3):
            for net in nets:
                net(torch.ones(3, 2)).pow(2).mean().backward()  # fault
            optimizer.step()
        """, (("optimizer.step()", "optimizer.step(); optimizer.zero_grad()"),)),
    FaultyProgram("a step of an alternating minimization above its backward", "gradient cleared before the step", "correct", """
        u, v = (nn.Parameter(torch.arange(8.0).reshape(4, 2) / n) for n in (8, 9))
        first, second = torch.optim.SGD([u], lr=0.1), torch.optim.SGD([v], lr=0.1)
        for _ in range(3):
            loss = (u @ v.detach().T - torch.eye(4)).pow(2).mean()
            first.zero_grad()
            first.step()  # fault
            loss.backward()
            loss = (u.detach() @ v.T - torch.eye(4)).pow(2).mean()
            second.zero_grad()
            loss.backward()
            second.step()
        """, (("first.step()  # fault\n    loss.backward()", "loss.backward()\n    first.step()"),)),
    FaultyProgram("the first term of a sum in place, which .data cuts", "graph cut", "correct", """
        net, anchor = nn.Linear(2, 1, bias=False), torch.zeros(1, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            loss = net(torch.ones(3, 2)).pow(2).mean().data  # fault
            loss += 0.1 * (net.weight - anchor).pow(2).sum()
            loss.backward()
            optimizer.step()
        """, ((".mean().data", ".mean()"),)),
    FaultyProgram("a term of a loss that no_grad cuts", "graph cut", "correct", """
        student, teacher = nn.Linear(2, 2), nn.Linear(2, 2)
        optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
        for x in torch.randn(3, 5, 2):
            out = student(x)
            with torch.no_grad():
                goal = teacher(x)
                goal_angle = torch.cosine_similarity(goal, goal.roll(1, 0), 1)
                angle = torch.cosine_similarity(out, out.roll(1, 0), 1)  # fault
            loss = (out - goal).pow(2).mean() + 2 * (angle - goal_angle).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """, (("        angle = ", "    angle = "),)),
    FaultyProgram("rows of a Jacobian", "graph used again", "raises-backward", """
        x = torch.ones(2, requires_grad=True)
        y = x.exp()  # fault
        for i in range(2): torch.autograd.grad(y[i], x)
        """, (("grad(y[i], x)", "grad(y[i], x, retain_graph=True)"),)),
    FaultyProgram("a root behind where", "nan or inf", "correct", """
        w = torch.tensor([0.0, 4.0], requires_grad=True)
        torch.where(w > 0, w.sqrt(), 0 * w).sum().backward()  # fault
        """, (("w.sqrt()", "torch.where(w > 0, w, 1).sqrt()"),)),
    FaultyProgram("a target that is the prediction", "target in the prediction's memory", "correct", """
        net = nn.Linear(2, 2)
        pred = net(torch.ones(3, 2))
        target = pred
        target[0, 1] = 5.0
        nn.functional.mse_loss(pred, target.detach()).backward()  # fault
        """, (("target = pred\n", "target = pred.detach().clone()\n"),)),
    FaultyProgram("a softmax before a cross-entropy", "softmax or sigmoid computed twice", "correct", """
        net = nn.Linear(2, 3)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            scores = torch.softmax(net(torch.ones(4, 2)), 1)  # fault
            nn.CrossEntropyLoss()(scores.view(4, 3), torch.tensor([0, 1, 2, 0])).backward()
            optimizer.step()
        """, (("torch.softmax(net(torch.ones(4, 2)), 1)", "net(torch.ones(4, 2))"),)),
    FaultyProgram("a softmax before a negative log-likelihood", "probabilities without a logarithm", "correct", """
        net, criterion = nn.Linear(2, 3), nn.NLLLoss()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            scores = torch.softmax(net(torch.ones(4, 2)), dim=1)  # fault
            criterion(scores, torch.tensor([0, 1, 2, 0])).backward()
            optimizer.step()
        """, (("torch.softmax", "torch.log_softmax"),)),
    FaultyProgram("a layer of softmax before a loss of pixels", "probabilities without a logarithm", "correct", """
        net = nn.Sequential(nn.Conv2d(1, 3, 1), nn.Softmax(dim=1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            scores = net(torch.ones(4, 1, 2, 2))  # fault
            nn.functional.nll_loss(scores, torch.zeros(4, 2, 2, dtype=torch.long)).backward()
            optimizer.step()
        """, (("nn.Softmax(dim=1)", "nn.LogSoftmax(dim=1)"),)),
    FaultyProgram("a sigmoid before a loss of logits", "softmax or sigmoid computed twice", "correct", """
        net = nn.Sequential(nn.Linear(2, 1), nn.Sigmoid())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            nn.BCEWithLogitsLoss()(net(torch.ones(4, 2)).squeeze(1), torch.ones(4)).backward()  # fault
            optimizer.step()
        """, ((", nn.Sigmoid())", ")"),)),
    FaultyProgram("rounding before the loss", "derivative that is zero", "correct", """
        net = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            z = net(torch.ones(3, 2))
            q = z.round()  # fault
            optimizer.zero_grad()
            (q - 1).pow(2).mean().backward()
            optimizer.step()
        """, (("z.round()", "z + (z.round() - z).detach()"),)),
    FaultyProgram("two values of a rollout", "graph used again", "raises-backward", """
        net = nn.Linear(2, 1)
        values = net(torch.ones(3, 2))
        old, count = values.exp(), 3  # fault
        returns = (values + 1).exp()  # fault
        for _ in range(2): ((net(torch.ones(3, 2)) * old - returns).pow(2).sum() / count).backward()
        """, (("values.exp(),", "values.exp().detach(),"), ("(values + 1).exp()", "(values + 1).exp().detach()"))),
    FaultyProgram("losses of earlier rounds in a sum with retain_graph", "graph used again", "correct", """
        net, total = nn.Linear(2, 1), 0
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for _ in range(3):
            total = total + net(torch.randn(4, 2)).pow(2).mean()  # fault
            optimizer.zero_grad()
            total.backward(retain_graph=True)
            optimizer.step()
        """, (("total = total +", "total ="),)),
    *(FaultyProgram(f"losses of the tasks of earlier batches, {outcome}", "graph used again", outcome, f"""
        w, total = nn.Parameter(torch.rand(3)), torch.tensor(0.0)
        optimizer = torch.optim.Adam([w], lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            for _ in range(2):
                slope = torch.autograd.grad((torch.rand(5, 3) @ w).pow(2).mean(), w, create_graph=True)[0]
                total += (torch.rand(5, 3) @ (w - 0.1 * slope)).pow(2).mean()  # fault
            total.backward({keyword})
            optimizer.step()
        """, (("    optimizer.zero_grad()", "    optimizer.zero_grad()\n    total = torch.tensor(0.0)"),))
      for outcome, keyword in (("raises-backward", ""), ("correct", "retain_graph=True"))),
    FaultyProgram("an embedding that is looked up once, before the loop", "graph used again", "correct", """
        table, head = nn.Embedding(3, 2), nn.Linear(2, 1)
        optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.01)
        values = table(torch.arange(3))  # fault
        for _ in range(3):
            loss = values.sum() + head(torch.ones(3, 2)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            optimizer.step()
        """, (("    loss = values", "    values = table(torch.arange(3))\n    loss = values"),)),
    FaultyProgram("the derivative of an input that does not require grad", "target not in the graph", "raises-backward", """
        net, x = nn.Linear(1, 1), torch.ones(4, 1)
        u = net(x)
        slope = torch.autograd.grad(u.sum(), x, create_graph=True)[0]  # fault
        (slope + u).pow(2).mean().backward()
        """, (("torch.ones(4, 1)", "torch.ones(4, 1, requires_grad=True)"),)),
    FaultyProgram("a custom backward that returns one gradient for two arguments", "gradients of a custom backward", "raises-backward", """
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, w):
                ctx.save_for_backward(x, w)
                return x * w
            @staticmethod
            def backward(ctx, gradient):  # fault
                x, w = ctx.saved_tensors
                return gradient * w
        model = nn.Linear(2, 2)
        Scale.apply(model(torch.ones(3, 2)), model.bias).sum().backward()
        """, (("return gradient * w", "return gradient * w, (gradient * x).sum(0)"),)),
    FaultyProgram("a custom backward with a transposed gradient", "gradients of a custom backward", "raises-backward", """
        class Product(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, w):
                ctx.save_for_backward(x, w)
                return x @ w
            @staticmethod
            def backward(ctx, gradient):  # fault
                x, w = ctx.saved_tensors
                return gradient @ w.T, gradient.T @ x
        Product.apply(torch.ones(4, 3, requires_grad=True), torch.ones(3, 2, requires_grad=True)).sum().backward()
        """, (("gradient.T @ x", "x.T @ gradient"),)),
    FaultyProgram("the gradient of data that does not require grad", "gradient that is None", "raises-forward", """
        model, data = nn.Linear(2, 1), torch.ones(3, 2)
        model(data).pow(2).mean().backward()
        attack = data + 0.1 * data.grad.data.sign()  # fault
        """, (("model(data)", "data.requires_grad_()\nmodel(data)"),)),
    FaultyProgram("values become a leaf, and a layer passes detached values on", "graph cut", "correct", """
        def train(layer, x):
            optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
            for _ in range(2):
                loss = layer(x).pow(2).detach().requires_grad_().mean()  # fault
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return layer(x).detach()
        layers = [nn.Linear(2, 2), nn.Linear(2, 2)]
        x = torch.ones(1, 2)
        for layer in layers: x = train(layer, x)
        """, ((".detach().requires_grad_().mean()", ".mean()"),)),
    FaultyProgram("values are swapped, and gradients cleared", "gradient cleared before the step", "correct", """
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            kept = [p.detach().clone() for p in model.parameters()]
            with torch.no_grad():
                for p in model.parameters(): p.add_(0.1)
            loss = model(torch.randn(4, 3)).pow(2).mean()
            for p, old in zip(model.parameters(), kept):
                p.data = old
            loss.backward()
            optimizer.zero_grad()
            optimizer.step()  # fault
        """, (("    optimizer.zero_grad()\n    optimizer.step()", "    optimizer.step()\n    optimizer.zero_grad()"),)),
    FaultyProgram("step_binds_the_name", "leaf lost", "raises-backward", """
        w = torch.zeros(2, requires_grad=True)
        x, y = torch.ones(3, 2), torch.ones(3)
        for _ in range(2):
            loss = (x @ w - y).pow(2).mean()
            loss.backward()
            with torch.no_grad():
                w = w - 0.1 * w.grad  # fault
        """, (("w = w - 0.1 * w.grad", "w -= 0.1 * w.grad\n        w.grad = None"),)),
    FaultyProgram("loop_binds_its_variable", "leaf lost", "correct", """
        optimizer = torch.optim.SGD((net := nn.Linear(2, 1)).parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).sum().backward()
            with torch.no_grad():
                for p in net.parameters():
                    p = p - 0.1 * p.grad  # fault
        """, (("p = p - 0.1 * p.grad", "p -= 0.1 * p.grad"),)),
    FaultyProgram("copy_of_a_list", "graph cut", "raises-backward", """
        net = nn.Linear(2, 1)
        outputs = [net(row).squeeze() for row in torch.ones(3, 2)]
        together = torch.tensor(outputs)  # fault
        together.pow(2).mean().backward()
        """, (("torch.tensor(outputs)", "torch.stack(outputs)"),)),
    FaultyProgram("a latent value that is drawn without history", "graph cut", "correct", """
        enc, dec = nn.Linear(2, 4), nn.Linear(2, 2)
        optimizer = torch.optim.SGD([*enc.parameters(), *dec.parameters()], lr=0.1)
        for _ in range(2):
            mean, log_scale = enc(torch.ones(3, 2)).chunk(2, 1)
            z = torch.distributions.Normal(mean, log_scale.exp()).sample()  # fault
            log_prob = -(dec(z) - 1).pow(2).mean()
            loss = mean.pow(2).mean() + log_scale.pow(2).mean() - log_prob
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """, ((".sample()", ".rsample()"),)),
    FaultyProgram("a latent value that is drawn while nothing is recorded", "graph cut", "correct", """
        enc, dec = nn.Linear(2, 4), nn.Linear(2, 2)
        for _ in range(2):
            mean, log_scale = enc(torch.ones(3, 2)).chunk(2, 1)
            with torch.no_grad():
                scale = log_scale.exp()
                z = mean + torch.randn_like(scale) * scale  # fault
            ((dec(z) - 1).pow(2).mean() + mean.pow(2).mean() + log_scale.pow(2).mean()).backward()
        """, (("with torch.no_grad():", "if True:"),)),
    FaultyProgram("a second derivative whose graph is freed", "graph used again", "raises-backward", """
        net = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
        x = torch.ones(3, 1, requires_grad=True)
        u = net(x)
        slope = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        bend = torch.autograd.grad(slope.sum(), x)[0]  # fault
        (bend + u).pow(2).mean().backward()
        """, (("grad(slope.sum(), x)", "grad(slope.sum(), x, create_graph=True)"),)),
    FaultyProgram("a critic whose weight gets other values, in no optimizer", "gradient that no optimizer uses", "correct", """
        actor = nn.Linear(3, 1)
        critic = nn.Linear(3, 1)  # fault
        critic.weight.data = torch.ones(1, 3)
        optimizer = torch.optim.SGD(actor.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad(), critic.zero_grad()
            (actor(torch.ones(2, 3)) - critic(torch.ones(2, 3))).pow(2).mean().backward()
            optimizer.step()
        """, (("SGD(actor.parameters()", "SGD([*actor.parameters(), *critic.parameters()]"),)),
    FaultyProgram("an attribute that is computed once, from a parameter", "graph used again", "raises-backward", """
        class Scaled(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.scales = nn.Parameter(torch.zeros(3))
                index = torch.arange(size)
                self.scale = self.scales[index].exp()  # fault

            def forward(self, x):
                return x * self.scale

        net = Scaled(2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(4, 2)).pow(2).mean().backward()
            optimizer.step()
        """, (("self.scale = self.scales[index].exp()  # fault", "self.index = index"),
              ("        return x *", "        self.scale = self.scales[self.index].exp()\n        return x *"))),
    FaultyProgram("probabilities of a policy before its updates", "graph used again", "raises-backward", """
        policy, states = nn.Linear(3, 2), torch.tensor([[1.0, 2, 3], [3, 1, 2]])
        optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
        before = policy(states).log_softmax(1)  # fault
        for _ in range(3):
            ratio = (policy(states).log_softmax(1) - before).exp()
            optimizer.zero_grad()
            ratio[:, 0].sum().backward()
            optimizer.step()
        """, (("log_softmax(1)  # fault", "log_softmax(1).detach()"),)),
    FaultyProgram("values that a decoder uses, and weights that are plotted", "graph cut", "correct", """
        enc, dec = nn.Linear(3, 2), nn.Linear(2, 1)
        optimizer = torch.optim.SGD([*enc.parameters(), *dec.parameters()], lr=0.1)
        for _ in range(2):
            hidden = enc(torch.ones(4, 3))
            code = hidden.tanh().detach()  # fault
            optimizer.zero_grad()
            dec(code).pow(2).mean().backward()
            optimizer.step()
        shown = hidden.data.numpy()
        """, (("hidden.tanh().detach()", "hidden.tanh()"),)),
    FaultyProgram("two optimizers of one network, in turn", "gradient that no optimizer uses", "correct", """
        actor, critic = nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
        actor_step = torch.optim.SGD(actor.parameters(), lr=0.1)
        critic_step = torch.optim.SGD(actor.parameters(), lr=0.1)
        for _ in range(3):
            critic.zero_grad()
            critic(torch.ones(2, 3)).pow(2).mean().backward()
            critic_step.step()  # fault
            actor.zero_grad()
            actor(torch.ones(2, 3)).mean().backward()
            actor_step.step()
        """, (("critic_step = torch.optim.SGD(actor.", "critic_step = torch.optim.SGD(critic."),)),
    FaultyProgram("a gate that torch.bernoulli draws", "derivative that is zero", "correct", """
        logit = nn.Parameter(torch.zeros(3))
        optimizer = torch.optim.SGD([logit], lr=0.1)
        for _ in range(2):
            p = torch.sigmoid(logit)
            gate = torch.bernoulli(p)  # fault
            optimizer.zero_grad()
            (gate * torch.ones(3) - 1).pow(2).sum().backward()
            optimizer.step()
        """, (("torch.bernoulli(p)", "p + (torch.bernoulli(p) - p).detach()"),)),
    FaultyProgram("a learned rate behind vector_to_parameters", "graph cut", "correct", """
        from torch.nn.utils import parameters_to_vector, vector_to_parameters
        net, rate = nn.Linear(2, 1), torch.zeros((), requires_grad=True)
        optimizer = torch.optim.SGD([rate], lr=0.1)
        start = parameters_to_vector(net.parameters()).detach()
        for _ in range(2):
            moved = start - rate.exp() * torch.ones(3)
            vector_to_parameters(moved, net.parameters())  # fault
            loss = net(torch.ones(3, 2)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """, (
        ("vector_to_parameters(moved, net.parameters())", 'values = {"weight": moved[:2].view(1, 2), "bias": moved[2:]}'),
        ("net(torch.ones(3, 2))", "torch.func.functional_call(net, values, (torch.ones(3, 2),))"),
    )),
    FaultyProgram("codes of each batch in a new leaf", "leaf lost", "correct", """
        net, codes = nn.Linear(2, 2), torch.ones(8, 2)
        z = torch.zeros(4, 2, requires_grad=True)
        optimizer = torch.optim.SGD([*net.parameters(), z], lr=0.1)
        for rows in torch.arange(8).split(4):
            z = codes[rows].clone().requires_grad_()  # fault
            optimizer.zero_grad()
            (net(z) - 1).pow(2).mean().backward()
            optimizer.step()
            codes[rows] = z.detach()
        """, (("z = codes[rows].clone().requires_grad_()", "z.data = codes[rows].clone()"),)),
    FaultyProgram("an input that each iteration of an attack computes", "gradient of a tensor that is not a leaf", "raises-forward", """
        net, x = nn.Linear(2, 1), torch.ones(3, 2, requires_grad=True)
        for _ in range(3):
            net(x).exp().sum().backward()
            x = x + 0.1 * x.grad.sign()  # fault
        """, (("x + 0.1 * x.grad.sign()", "(x + 0.1 * x.grad.sign()).detach().requires_grad_()"),)),
    FaultyProgram("a latent value of torch.normal", "derivative that is zero", "correct", """
        enc, dec = nn.Linear(2, 4), nn.Linear(2, 2)
        for _ in range(2):
            mean, log_scale = enc(torch.ones(3, 2)).chunk(2, 1)
            z = torch.normal(mean, log_scale.exp())  # fault
            ((dec(z) - 1).pow(2).mean() + mean.pow(2).mean() + log_scale.pow(2).mean()).backward()
        """, (("torch.normal(mean, log_scale.exp())", "mean + log_scale.exp() * torch.randn(3, 2)"),)),
    FaultyProgram("loss_made_a_leaf", "graph cut", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        value = net(torch.ones(3, 2)).pow(2).mean().item()  # fault
        loss = torch.tensor(value, requires_grad=True)
        loss.backward()
        optimizer.step()
        """,
        (("pow(2).mean().item()", "pow(2).mean()"), ("torch.tensor(value, requires_grad=True)", "value")),
    ),
    FaultyProgram("values_in_a_variable_and_in_a_parameter", "graph cut", "correct", """
        body, neck, head = nn.Linear(2, 2), nn.Linear(4, 3), nn.Linear(3, 1)
        optimizer = torch.optim.SGD([*body.parameters(), *neck.parameters(), *head.parameters()], lr=0.1)
        part = torch.autograd.Variable(body(torch.ones(3, 2)))  # fault
        hidden = nn.Parameter(neck(torch.cat([torch.ones(3, 2), part], 1)))  # fault
        head(hidden).pow(2).mean().backward()
        optimizer.step()
        """, (("torch.autograd.Variable(body(torch.ones(3, 2)))", "body(torch.ones(3, 2))"), ("nn.Parameter(neck(", "(neck("))),
    FaultyProgram("computed weights as parameters of another module", "graph cut", "correct", """
        hyper, inner = nn.Linear(3, 6), nn.Linear(2, 2)
        optimizer = torch.optim.SGD(hyper.parameters(), lr=0.1)
        made = hyper(torch.ones(3))
        inner._parameters["weight"] = nn.Parameter(made[:4].view(2, 2).clone())  # fault
        inner._parameters["bias"] = nn.Parameter(made[4:].clone())  # fault
        inner(torch.ones(3, 2)).pow(2).mean().backward()
        optimizer.step()
        """, (("nn.Parameter(made[:4].view(2, 2).clone())", "made[:4].view(2, 2).clone()"),
              ("nn.Parameter(made[4:].clone())", "made[4:].clone()"))),
    FaultyProgram("through_numpy", "graph cut", "correct", """
        net = nn.Linear(2, 1)
        scores = net(torch.ones(3, 2)).detach().numpy()  # fault
        torch.from_numpy(scores ** 2).sum().requires_grad_().backward()
        """,
        ((".detach().numpy()", ""), ("torch.from_numpy(scores ** 2)", "(scores ** 2)"), (".requires_grad_()", "")),
    ),
    FaultyProgram("a policy without its history", "graph cut", "correct", """
        actor, critic = nn.Linear(2, 1), nn.Linear(2, 1)
        optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()])
        policy = torch.distributions.Normal(actor(torch.ones(2)).data, 1.0)  # fault
        action = torch.from_numpy(policy.sample().numpy())
        (critic(torch.ones(2)) - policy.log_prob(action)).sum().backward()
        optimizer.step()
        """, ((".data", ""),)),
    FaultyProgram("a code that is detached in place", "graph cut", "correct", """
        coder, net = nn.Linear(2, 2), nn.Linear(2, 1)
        optimizer = torch.optim.SGD([*coder.parameters(), *net.parameters()], lr=0.1)
        code = coder(torch.ones(3, 2))
        code.detach_()  # fault
        net(code).sum().backward()
        optimizer.step()
        """, (("code.detach_()  # fault\n", ""),)),
    FaultyProgram("penalties_without_a_graph", "graph cut", "correct", """
        net, multiplier = nn.Linear(2, 1), nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([*net.parameters(), multiplier], lr=0.1)
        norm, meant = sum(p.pow(2).sum() for p in net.parameters()), (multiplier.detach() * 2).sum()
        bound = sum(p.data.norm() for p in net.parameters())  # fault
        size, largest, out = torch.zeros(()), 0.0, net(torch.ones(3, 2))
        for p in net.parameters():
            size += p.norm().item()  # fault
            largest += p.max().item()  # fault
        near = (torch.tensor([y.item() for y in out]) - 1).abs().mean()  # fault
        spread = (out.pow(2) - out.detach().abs()).mean()  # fault
        loss = spread + 0.1 * norm.item() + 0.1 * bound + meant - (size + near) / 2  # fault
        loss = loss + 0.1 * largest
        loss.backward()
        multiplier.sum().backward()
        optimizer.step()
        """,
        (("p.data.norm()", "p.norm()"), ("norm.item()", "norm"), ("m().item()", "m()"), ("x().item()", "x()"),
         ("torch.tensor([y.item() for y in out])", "out"), ("out.detach()", "out")),
    ),
    FaultyProgram("backward from a parameter instead of the loss", "graph cut", "correct", """
        actor, critic = nn.Linear(2, 3), nn.Linear(3, 1)
        first, second = (torch.optim.SGD(net.parameters(), lr=0.1) for net in (actor, critic))
        action = actor(torch.ones(4, 2))
        critic(action.detach()).pow(2).mean().backward()
        second.step()
        actor.bias.backward(-critic.weight.grad[0])  # fault
        first.step()
        """, (("actor.bias.backward(-critic.weight.grad[0])", "(-(action @ critic.weight.detach().T).mean()).backward()"),)),
    FaultyProgram("a gradient penalty that is not added to the loss", "penalty in no loss", "correct", """
        judge, x = nn.Sequential(nn.Linear(2, 3), nn.Tanh()), torch.ones(4, 2, requires_grad=True)
        optimizer = torch.optim.SGD(judge.parameters(), lr=0.1)
        slope = torch.autograd.grad(judge(x).sum(), x, create_graph=True)[0]
        penalty = 10 * (slope.norm(2, 1) - 1).pow(2)  # fault
        loss = (judge(2 * x.detach()) - judge(x.detach())).mean()
        loss.backward()
        optimizer.step()
        """, (("loss.backward()", "(loss + penalty.mean()).backward()"),)),
    FaultyProgram("a target whose detached copy is not kept", "setting without effect", "correct", """
        net, target = nn.Linear(2, 3), nn.Linear(2, 3)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        target.load_state_dict(net.state_dict())
        best = target(torch.ones(4, 2)).max(1)[0]
        best.detach()  # fault
        (net(torch.ones(4, 2))[:, 0] - 1 - best).pow(2).mean().backward()
        optimizer.step()
        """, (("best.detach()", "best = best.detach()"),)),
    FaultyProgram("terms_of_two_networks_without_a_graph", "graph cut", "correct", """
        def judged(x):
            x = judge(x).sigmoid()
            return x
        maker, judge, x = nn.Linear(2, 3), nn.Linear(3, 3), torch.ones(4, 2)
        optimizer = torch.optim.SGD([*maker.parameters(), *judge.parameters()], lr=0.1)
        made = maker(x)
        fooled = judged(made).detach()  # fault
        chosen = judge(made.detach()).argmax(1)  # fault
        (made.pow(2).mean() + (fooled - 1).pow(2).mean()).backward()
        outputs = judged(made.detach())
        (nn.functional.cross_entropy(outputs, chosen) + (chosen != 1).float().sum()).backward()
        optimizer.step()
        """, (("judged(made).detach()", "judged(made)"), (".argmax(1)  #", ".softmax(1)  #"), ("chosen != 1", "1 - chosen"))),
    FaultyProgram("forward_without_recording", "graph cut", "correct", """
        body, head = nn.Linear(2, 3), nn.Linear(3, 1)
        optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()])
        with torch.no_grad():
            features = body(torch.ones(4, 2))  # fault
        head(features).pow(2).mean().backward()
        optimizer.step()
        """, (("with torch.no_grad():", "if True:"),)),
    FaultyProgram("a_choice_has_no_slope", "graph cut", "raises-backward", """
        net = nn.Linear(2, 3)
        chosen = net(torch.ones(4, 2)).argmax(dim=1)  # fault
        (chosen.float() - 1).pow(2).mean().backward()
        """,
        ((".argmax(dim=1)", ".softmax(dim=1)[:, 0]"), ("chosen.float()", "chosen")),
    ),
    FaultyProgram("gradients_add_up", "gradient not cleared", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            loss = net(torch.ones(3, 2)).pow(2).mean()
            loss.backward()  # fault
            optimizer.step()
        """, (("    loss.backward()", "    optimizer.zero_grad()\n    loss.backward()"),)),
    FaultyProgram("gradients of updates by hand add up", "gradient not cleared", "correct", """
        w = torch.ones(2, requires_grad=True)
        for _ in range(3):
            (torch.ones(3, 2) @ w).pow(2).mean().backward()  # fault
            w.data = w.data - 0.1 * w.grad
        """, (("0.1 * w.grad", "0.1 * w.grad; w.grad = None"),)),
    FaultyProgram("gradients behind a velocity add up", "gradient not cleared", "correct", """
        net = nn.Linear(2, 1)
        velocities = [torch.zeros_like(p) for p in net.parameters()]
        for _ in range(3):
            net(torch.ones(3, 2)).pow(2).mean().backward()  # fault
            with torch.no_grad():
                for p, v in zip(net.parameters(), velocities):
                    v.mul_(0.9).add_(p.grad)
                    p -= 0.1 * v
        """, (("p -= 0.1 * v", "p -= 0.1 * v\n            p.grad = None"),)),
    FaultyProgram("another_loss_left_its_gradient", "gradient of another loss", "correct", """
        g, d = nn.Linear(2, 2), nn.Linear(2, 1)
        first, second = (torch.optim.SGD(net.parameters(), lr=0.1) for net in (g, d))
        for _ in range(3):
            g.zero_grad()
            d(g(torch.ones(4, 2))).mean().backward()
            first.step()
            d(torch.ones(4, 2)).pow(2).mean().backward()  # fault
            second.step()
        """, (("    first.step()\n", "    first.step(), d.zero_grad()\n"),)),
    FaultyProgram("scaler_with_another_name", "gradient not cleared", "correct", """
        net, sc = nn.Linear(2, 1), torch.amp.GradScaler("cpu")
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for i in range(4):
            sc.scale(net(torch.ones(3, 2)).pow(2).mean()).backward()  # fault
            if i % 2:
                sc.step(opt); sc.update()
        """, (("sc.step(opt);", "sc.step(opt); opt.zero_grad();"),)),
    FaultyProgram("adversarial_loss_left_its_gradient", "gradient of another loss", "correct", """
        net, noise = nn.Linear(2, 2), torch.full((4, 2), 0.1, requires_grad=True)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(4, 2) + noise).exp().mean().backward()
            noisy = torch.ones(4, 2) + noise.grad.sign()
            net(noisy).pow(2).mean().backward()  # fault
            optimizer.step()
        """, (("    net(noisy)", "    optimizer.zero_grad()\n    net(noisy)"),)),
    FaultyProgram("both_steps_after_both_losses", "gradient of another loss", "correct", """
        g, d = nn.Linear(2, 2), nn.Linear(2, 1)
        first, second = (torch.optim.SGD(net.parameters(), lr=0.1) for net in (d, g))
        for _ in range(2):
            score = d(g(torch.ones(4, 2)))
            first.zero_grad()
            score.exp().mean().backward(retain_graph=True)
            second.zero_grad()
            score.neg().exp().mean().backward()  # fault
            first.step()
            second.step()
        """, (("backward()  # fault", "backward(inputs=list(g.parameters()))"),)),
    FaultyProgram("step_before_its_backward", "gradient cleared before the step", "correct", """
        net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            loss = net(torch.ones(3, 2)).pow(2).mean()
            optimizer.zero_grad()
            optimizer.step()  # fault
            loss.backward()
        """, (("optimizer.step()  # fault\n    loss.backward()", "loss.backward()\n    optimizer.step()"),)),
    FaultyProgram("cleared_too_early", "gradient cleared before the step", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.zero_grad()
            optimizer.step()  # fault
        """, (("    optimizer.zero_grad()\n    optimizer.step()", "    optimizer.step()\n    optimizer.zero_grad()"),)),
    FaultyProgram("gradients_of_micro_batches_that_are_cleared", "gradient cleared before the step", "correct", """
        def attack(x): x.requires_grad = True; return x.grad
        optimizer = torch.optim.SGD((net := nn.Linear(2, 1)).parameters(), lr=0.1)
        net.bias.grad = None
        for i in range(4):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            if i % 2: optimizer.step()  # fault
        """, (("    optimizer.zero_grad()\n", ""), ("optimizer.step()", "optimizer.step(), optimizer.zero_grad()"))),
    FaultyProgram("a layer that is unfrozen after a step", "gradient that no optimizer uses", "correct", """
        net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        net[0].requires_grad_(False)
        optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
        for i in range(2):
            if i == 1:
                net[0].requires_grad_()  # fault
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        """, (("[p for p in net.parameters() if p.requires_grad]", "net.parameters()"),)),
    FaultyProgram("optimizer_of_the_original", "optimizer of other parameters", "correct", """
        import copy
        first = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(first.parameters(), lr=0.1)
        net = copy.deepcopy(first)
        net(torch.ones(4, 2)).pow(2).mean().backward()
        optimizer.step()  # fault
        """, (("first.parameters(), lr=0.1)\nnet = copy.deepcopy(first)", "first.parameters(), lr=0.1)\nnet = first"),)),
    FaultyProgram("optimizer_of_the_target", "optimizer of other parameters", "correct", """
        online, target = nn.Linear(2, 1), nn.Linear(2, 1)
        target.load_state_dict(online.state_dict())
        optimizer = torch.optim.RMSprop(target.parameters(), lr=0.1)
        for _ in range(2):
            goal = 1 + target(torch.ones(3, 2)).detach()
            (online(torch.ones(3, 2)) - goal).pow(2).mean().backward()
            optimizer.step()  # fault
            optimizer.zero_grad()
            for t, o in zip(target.parameters(), online.parameters()): t.data.copy_(0.5 * t.data + 0.5 * o.data)
        """, (("RMSprop(target.", "RMSprop(online."),)),
    FaultyProgram("micro_batches_that_are_never_cleared", "gradient not cleared", "correct", """
        net, x = nn.Linear(2, 1), torch.ones(3, 2)
        optimizer = torch.optim.RMSprop(net.parameters(), lr=0.1)
        for _ in range(2):
            for _ in range(2):
                net(x).pow(2).mean().backward()  # fault
            optimizer.step()
        """, (("step()", "step()\n    optimizer.zero_grad()"),)),
    FaultyProgram("optimizer_of_a_trial", "optimizer of other parameters", "correct", """
        def act(net):
            choice = torch.distributions.Categorical(logits=net(torch.ones(1, 2)))
            return choice.log_prob(choice.sample())
        trial, net = nn.Linear(2, 3), nn.Linear(2, 3)
        def train(net, optimizer):
            for _ in range(2):
                optimizer.zero_grad()
                act(net).sum().backward()
                optimizer.step()  # fault
        act(trial)
        made = torch.optim.RMSprop(trial.parameters(), lr=0.1)
        train(net, made)
        """, (("RMSprop(trial.", "RMSprop(net."),)),
    FaultyProgram("carried_state", "graph used again", "raises-backward", """
        cell, state = nn.RNNCell(2, 3), torch.zeros(1, 3)
        for _ in range(2):
            state = cell(torch.ones(1, 2), state)  # fault
            (logits := 2 * state).sum().backward()
            print(logits.exp())  # the next round does not use it
        """, (("logits.exp())", "logits.exp())\n    state = state.detach()"),)),
    FaultyProgram("table_that_is_kept", "graph used again", "raises-backward", """
        class Angles(nn.Module):
            def __init__(self):
                super().__init__()
                self.frequencies, self.cached = nn.Parameter(torch.ones(2)), None

            def forward(self):
                if self.cached is None:
                    angles = torch.arange(3.0)[:, None] * self.frequencies
                    self.cached = angles.repeat(1, 2).sin()  # fault
                return self.cached

        net = Angles()
        for _ in range(2): net().cos().sum().backward()
        """, (("if self.cached is None", "if True"),)),
    FaultyProgram("the output of a generator that two losses use", "graph used again", "raises-backward", """
        class Generator(nn.Linear):
            def forward(self, z):
                h = super().forward(z)
                return h.tanh()
        G, D = Generator(4, 4), nn.Linear(4, 1)
        g_opt, d_opt = torch.optim.SGD(G.parameters(), lr=0.1), torch.optim.SGD(D.parameters(), lr=0.1)
        for _ in range(2):
            real, z = torch.ones(6, 4), torch.ones(6, 4)
            fake = G(z)  # fault
            d_loss = D(fake).mean() - D(real).mean()
            d_opt.zero_grad(), d_loss.backward(), d_opt.step()
            g_loss = -D(fake).mean()
            g_opt.zero_grad(), g_loss.backward(), g_opt.step()
        """, (("d_loss = D(fake)", "d_loss = D(fake.detach())"),)),
    FaultyProgram("two_losses_of_one_graph", "graph used again", "raises-backward", """
        net = nn.Linear(2, 3)
        shared = net(torch.ones(1, 2)).exp()  # fault
        first, second = shared.sum(), shared.pow(2).sum()
        first.backward()
        second.backward()
        """, (("first.backward()\nsecond.backward()", "(first + second).backward()"),)),
    FaultyProgram("scaled_leaf", "gradient of a tensor that is not a leaf", "raises-forward", """
        w = 0.1 * torch.ones(2, requires_grad=True)
        w.pow(2).sum().backward()
        step = 0.1 * w.grad  # fault
        """, (("0.1 * torch.ones(2, requires_grad=True)", "torch.full((2,), 0.1, requires_grad=True)"),)),
    FaultyProgram("backward_while_nothing_is_recorded", "backward without recording", "raises-backward", """
        net = nn.Linear(2, 1)
        with torch.no_grad():
            loss = net(torch.ones(3, 2)).pow(2).mean()
            loss.backward()  # fault
        """, (("with torch.no_grad():", "if True:"),)),
    FaultyProgram("second_derivative_of_something_linear", "target not in the graph", "raises-backward", """
        x, w = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        (slope,) = torch.autograd.grad((w * x).sum(), x, create_graph=True)
        torch.autograd.grad(slope.sum(), x)  # fault
        """, (("slope.sum(), x", "slope.sum(), x, materialize_grads=True"),)),
    FaultyProgram("second_derivative_without_a_graph", "target not in the graph", "raises-backward", """
        x = torch.ones(3, requires_grad=True)
        (slope,) = torch.autograd.grad(x.pow(3).sum(), x)  # fault
        slope.sum().backward()
        """, (("pow(3).sum(), x)", "pow(3).sum(), x, create_graph=True)"),)),
    FaultyProgram("gradient_of_a_column", "target not in the graph", "raises-backward", """
        x = torch.rand(4, 2, requires_grad=True)
        u = x.tanh().prod(1)
        (along,) = torch.autograd.grad(u.sum(), x[:, 0])  # fault
        """, (("x[:, 0])", "x)"),)),
    FaultyProgram("deepcopy_of_a_module_that_keeps_its_output", "tensor that a later line cannot use", "raises-forward", """
        import copy

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)

            def forward(self, x):
                self.last = self.fc(x).tanh()  # fault
                return self.last.sum()

        net = Net()
        net(torch.ones(3, 2)).backward()
        copy.deepcopy(net)
        """, (("    return self.last.sum()", "    total, self.last = self.last.sum(), None\n        return total"),)),
    FaultyProgram("features_made_in_inference_mode", "tensor that a later line cannot use", "raises-forward", """
        body, head = nn.Linear(2, 3), nn.Linear(3, 1)
        with torch.inference_mode():
            features = body(torch.ones(4, 2))  # fault
        head(features).pow(2).mean().backward()
        """, (("torch.inference_mode()", "torch.no_grad()"),)),
    FaultyProgram("rows_taken_while_nothing_is_recorded", "tensor that a later line cannot use", "raises-forward", """
        w = torch.rand(2, requires_grad=True)
        with torch.no_grad():
            rows = [row for row in torch.zeros(2, 2)]  # fault
        rows[0][:] = w
        torch.stack(rows).sum().backward()
        """,
        (("with torch.no_grad():", "if True:"), ("row for row in torch.zeros(2, 2)", "torch.zeros(2), torch.zeros(2)")),
    ),
    FaultyProgram("one_of_two_chunks", "tensor that a later line cannot use", "raises-forward", """
        h = torch.rand(2, 2, requires_grad=True) * 2
        a, b = h.chunk(2)  # fault
        a += 1
        (a * b).sum().backward()
        """, (("h.chunk(2)", "h[0], h[1]"),)),
    FaultyProgram("part_of_a_row", "tensor that a later line cannot use", "raises-forward", """
        h = torch.rand(2, 2, requires_grad=True) * 2
        rows = h.unbind()  # fault
        start = rows[0].view(2)[:1]
        start += 1
        (rows[0] * rows[1]).sum().backward()
        """, (("h.unbind()", "h[0], h[1]"),)),
    FaultyProgram("view_of_a_weight_that_is_converted", "tensor that a later line cannot use", "raises-forward", """
        net = nn.Linear(2, 2)
        torch.__future__.set_swap_module_params_on_conversion(True)
        flat = net.weight.view(-1)  # fault
        try:
            net.double()
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)
        net(torch.ones(3, 2).double()).sum().backward()
        """, (("flat = net.weight.view(-1)", "net.weight.sum()"),)),
    FaultyProgram("loss_wrapped_in_a_variable", "graph cut", "correct", """
        def cut(value):
            return value.data  # fault

        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            loss = cut(net(torch.ones(3, 2))).pow(2).mean()
            torch.autograd.Variable(loss, requires_grad=True).backward()
            optimizer.step()
        """,
        (("value.data", "value"), ("torch.autograd.Variable(loss, requires_grad=True)", "loss")),
    ),
    FaultyProgram("copies_that_are_trained", "graph cut", "correct", """
        import copy
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            fast = copy.deepcopy(net)  # fault
            slopes = torch.autograd.grad(fast(torch.ones(3, 2)).pow(2).mean(), fast.parameters(), create_graph=True)
            for p, slope in zip(fast.parameters(), slopes):
                p.data -= 0.1 * slope
            optimizer.zero_grad()
            fast(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        """,
        (
            ("fast = copy.deepcopy(net)", "own = dict(net.named_parameters())"),
            ("fast(torch.ones(3, 2)).pow(2).mean(), fast.parameters()", "net(torch.ones(3, 2)).pow(2).mean(), own.values()"),
            ("    for p, slope in zip(fast.parameters(), slopes):\n        p.data -= 0.1 * slope\n", ""),
            ("fast(torch", "torch.func.functional_call(net, {n: p - 0.1 * s for (n, p), s in zip(own.items(), slopes)}, torch"),
        ),
    ),
    FaultyProgram("head_made_in_each_round", "gradient that no optimizer uses", "correct", """
        stem = nn.Linear(2, 3)
        scale = torch.ones(1, requires_grad=True)  # fault
        optimizer = torch.optim.SGD(stem.parameters(), lr=0.1)
        for _ in range(2):
            head = nn.Linear(3, 1).to("cpu")  # fault
            loss = (scale * head(stem(torch.ones(3, 2)))).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
        (("stem.parameters()", "[*stem.parameters(), scale, *(head := nn.Linear(3, 1)).parameters()]"),
         ("    head = nn.Linear(3, 1).to(\"cpu\")  # fault\n", "")),
    ),
    FaultyProgram("layers_in_a_python_list", "gradient that no optimizer uses", "correct", """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(2, 2) for _ in range(2)]  # fault
                self.last = nn.Linear(2, 1)

            def forward(self, x):
                for layer in self.layers: x = layer(x).tanh()
                return self.last(x)

        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.ones(3, 2)).pow(2).mean().backward()
        optimizer.step()
        """, (("[nn.Linear(2, 2) for _ in range(2)]", "nn.ModuleList(nn.Linear(2, 2) for _ in range(2))"),)),
    FaultyProgram("blocks of another class in a Python list", "gradient that no optimizer uses", "correct", """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(2, 2)
                self.scale = nn.Parameter(torch.randn(2))

            def forward(self, x): return self.inner(x) * self.scale

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = []  # fault
                for _ in range(2):
                    self.blocks.append(Block())
                self.head = nn.Linear(2, 1)

            def forward(self, x):
                for block in self.blocks:
                    x = block(x)
                return self.head(x)

        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.randn(4, 2)).pow(2).mean().backward()
            optimizer.step()
        """, (("self.blocks = []", "self.blocks = nn.ModuleList()"),)),
    FaultyProgram("computed_weights_in_data", "graph cut", "correct", """
        net, target = nn.Linear(2, 2), nn.Linear(2, 1, bias=False)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            target.weight.data = net(torch.ones(1, 2))  # fault
            optimizer.zero_grad()
            target(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        """, (("target.weight.data = net(torch.ones(1, 2))", "w = net(torch.ones(1, 2))"),
              ("target(torch.ones(3, 2))", 'torch.func.functional_call(target, {"weight": w}, torch.ones(3, 2))'))),
    FaultyProgram("parameters_in_a_python_list", "gradient that no optimizer uses", "correct", """
        net = nn.Linear(2, 1)
        net.scales = [nn.Parameter(torch.ones(2)) for _ in range(2)]  # fault
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (net(torch.ones(3, 2)) * net.scales[0] * net.scales[1]).pow(2).mean().backward()
            optimizer.step()
        """, (("[nn.Parameter(torch.ones(2)) for _ in range(2)]", "nn.ParameterList(torch.ones(2) for _ in range(2))"),)),
    FaultyProgram("converted values as parameters in lists of a module", "gradient that no optimizer uses", "correct", """
        class Other(nn.Module):
            def __init__(self): self.scales = []
        class Snake(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.offsets = nn.Linear(2, 2), []
                self.scales = [nn.Parameter(torch.ones(1, 2).to("cpu")) for _ in range(2)]  # fault
            def forward(self, x):
                for scale in self.scales: x = x + torch.sin(scale * self.linear(x)) ** 2 / scale
                return x
        net = Snake()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        """, (("[nn.Parameter(torch.ones(1, 2).to(\"cpu\")) for _ in range(2)]", "nn.ParameterList(torch.ones(1, 2) for _ in range(2))"),)),
    FaultyProgram("own_parameter_of_the_module", "gradient that no optimizer uses", "correct", """
        net = nn.ModuleDict({"layer": nn.Linear(2, 1)})
        net.start = nn.Parameter(torch.randn(2))  # fault
        optimizer = torch.optim.SGD(net["layer"].parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net["layer"](net.start).pow(2).mean().backward()
            optimizer.step()
        """, (('net["layer"].parameters()', "net.parameters()"),)),
    FaultyProgram("gradients that are clipped before they exist", "gradients clipped before backward", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            loss = net(torch.ones(3, 2)).pow(2).mean()
            optimizer.zero_grad()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # fault
            loss.backward()
            optimizer.step()
        """, (("    nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # fault\n", ""),
               ("loss.backward()", "loss.backward()\n    nn.utils.clip_grad_norm_(net.parameters(), 1.0)"))),
    FaultyProgram("two modules made on one line, and one step with a closure", "gradient that no optimizer uses", "correct", """
        body, head = nn.Linear(2, 2), nn.Linear(2, 1)  # fault
        optimizer = torch.optim.LBFGS(body.parameters(), max_iter=3)
        def closure():
            optimizer.zero_grad()
            (loss := head(body(torch.ones(3, 2))).pow(2).mean()).backward()
            return loss
        optimizer.step(closure)
        """, (("body.parameters()", "[*body.parameters(), *head.parameters()]"),)),
    FaultyProgram("two optimizers of the same part", "gradient that no optimizer uses", "correct", """
        net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        first = torch.optim.SGD(net[0].parameters(), lr=0.1)
        second = torch.optim.SGD(net[0].parameters(), lr=0.1)
        for _ in range(2):
            first.zero_grad(), second.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            first.step()
            second.step()  # fault
        """, (("second = torch.optim.SGD(net[0]", "second = torch.optim.SGD(net[1]"),)),
    FaultyProgram("an average that is bound to the loop's name", "leaf lost", "correct", """
        net, mean = nn.Linear(2, 1), nn.Linear(2, 1).requires_grad_(False)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (net(torch.ones(3, 2)) - mean(torch.ones(3, 2))).pow(2).mean().backward()
            optimizer.step()
            for old, new in zip(mean.parameters(), net.parameters()):
                old = 0.9 * old + 0.1 * new  # fault
        """, (("old = 0.9 * old + 0.1 * new", "old.data.copy_(0.9 * old + 0.1 * new)"),)),
    FaultyProgram("second_head_without_a_loss", "parameter that no loss depends on", "correct", """
        body, first, second = nn.Linear(2, 3), nn.Linear(3, 1), nn.Linear(3, 1)
        optimizer = torch.optim.SGD([*body.parameters(), *first.parameters(), *second.parameters()], lr=0.1)
        for _ in range(2):
            h = body(torch.ones(3, 2))
            a, b = first(h), 0
            b = second(h)  # fault
            optimizer.zero_grad()
            (a * torch.ones_like(b)).pow(2).mean().backward()
            optimizer.step()
        """, (("a * torch.ones_like(b)", "a + b"),)),
    FaultyProgram("parameter_replaced_before_each_step", "gradient cleared before the step", "correct", """
        p = nn.Parameter(torch.randn(3))
        optimizer = torch.optim.SGD([p], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            p.pow(2).sum().backward()
            p = nn.Parameter(torch.cat([p.detach(), torch.randn(1)]))  # fault
            optimizer.param_groups[0]["params"][0] = p
            optimizer.step()
        """, (("    p = nn", "    optimizer.step()\n    p = nn"), ("[0] = p\n    optimizer.step()", "[0] = p"))),
    FaultyProgram("parameter_replaced_before_the_step", "gradient cleared before the step", "correct", """
        p = nn.Parameter(torch.randn(3))
        optimizer = torch.optim.SGD([p], lr=0.1)
        for step in range(5):
            optimizer.zero_grad()
            p.pow(2).sum().backward()
            if step % 3 == 2:
                p = nn.Parameter(torch.cat([p.detach(), torch.randn(1)]))  # fault
                optimizer.param_groups[0]["params"][0] = p
            optimizer.step()
        """,
        (("    if step % 3 == 2:", "    optimizer.step()\n    if step % 3 == 2:"),
         ("[0] = p\n    optimizer.step()", "[0] = p")),
    ),
    FaultyProgram("a derivative without a graph in an equation", "graph cut", "correct", """
        def slope(y, x): return torch.autograd.grad(y, x, torch.ones_like(y), retain_graph=True)[0]  # fault

        net = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            x = torch.linspace(0, 1, 5)[:, None].requires_grad_()
            y = net(x)
            (slope(y, x) + 0.5 * y).pow(2).mean().backward()
            optimizer.step()
        """, (("retain_graph=True", "create_graph=True"),)),
    FaultyProgram("a penalty on a gradient without a graph", "graph cut", "correct", """
        def penalty(x):
            slope = torch.autograd.grad(net(x).sum(), x)[0]  # fault
            return 10 * ((slope.norm(dim=1) - 1) ** 2).mean()

        net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            x = torch.ones(4, 2, requires_grad=True)
            loss = net(x).pow(2).mean() + penalty(x)
            loss.backward()
            optimizer.step()
        """, (("net(x).sum(), x)", "net(x).sum(), x, create_graph=True)"),)),
    FaultyProgram("two losses of one layer go backward in a loop", "graph used again", "raises-backward", """
        net, w = nn.Linear(2, 3), torch.ones(2, requires_grad=True)
        shared = net(w).tanh()  # fault
        losses = [shared.sum(), shared.pow(2).sum()]
        for loss in losses: loss.backward()
        """, (("for loss in losses", "for loss in [sum(losses)]"),)),
    FaultyProgram("eval_before_the_second_round", "mode left on", "correct", """
        def train(rate):
            net, head = (nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)) for _ in range(2))
            optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=rate)
            for _ in range(2):
                optimizer.zero_grad()
                head(net(torch.ones(3, 2))).pow(2).mean().backward()
                optimizer.step()
                net.eval()  # fault
                head.eval()  # fault
        train(0.1)
        """, (("head.eval()", "head.train(), net.train()"),)),
    FaultyProgram("recording_off_after_the_first_round", "mode left on", "raises-backward", """
        def score(net):
            torch.set_grad_enabled(False)  # fault
            return net(torch.ones(3, 2)).mean().item()

        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
            score(net)
        """, (("    score(net)", "    score(net)\n    torch.set_grad_enabled(True)"),)),
    FaultyProgram("step_that_writes_nothing", "step without effect", "correct", """
        class Descent(torch.optim.Optimizer):
            def __init__(self, parameters): super().__init__(parameters, {"lr": 0.1})

            @torch.no_grad()
            def step(self):
                for p in self.param_groups[0]["params"]:
                    p.sub(0.1 * p.grad)  # fault

        net = nn.Linear(2, 1)
        optimizer = Descent(net.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        """, (("p.sub(", "p.sub_("),)),
    FaultyProgram("rate_of_zero", "step without effect", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=1 // 10)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()  # fault
        """, (("1 // 10", "1 / 10"),)),
    FaultyProgram("one_autocast_around_two_steps", "stale cast", "correct", """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with torch.autocast("cpu", dtype=torch.bfloat16):  # fault
            for _ in range(2):
                optimizer.zero_grad()
                net(torch.ones(3, 2)).float().pow(2).mean().backward()
                optimizer.step()
        """, (("dtype=torch.bfloat16", "dtype=torch.bfloat16, cache_enabled=False"),)),
)  # fmt: skip


RIGHT = {
    "a target network that shares a layer, into which the values of the network are copied": """
        shared = nn.Linear(2, 2)
        net, target = (nn.Sequential(shared, nn.Tanh(), nn.Linear(2, 1)) for _ in range(2))
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            with torch.no_grad():
                aim = target(torch.ones(3, 2)) + 1
            (net(torch.ones(3, 2)) - aim).pow(2).mean().backward()
            optimizer.step()
            for kept, p in zip(target.parameters(), net.parameters()):
                kept.data.copy_(p.data)
        """,
    "a layer that is added to the optimizer, and one with an optimizer of its own": """
        net = nn.Sequential(nn.Linear(2, 2))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net.append(nn.Linear(2, 1))
        optimizer.add_param_group({"params": net[1].parameters()})
        net.append(nn.Linear(1, 1))
        other = torch.optim.SGD(net[2].parameters(), lr=0.1)
        for _ in range(3):
            net.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
            other.step()
        """,
    "a weight that an inner loop of the forward pass normalizes, under the name of the leaf": """
        weight = torch.randn(2, 2, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        def forward(x, w):
            for _ in range(3):
                w = w / w.norm()
            return x @ w
        for _ in range(3):
            optimizer.zero_grad()
            forward(torch.randn(4, 2), weight).pow(2).mean().backward()
            optimizer.step()
        """,
    "two predictions that a loss draws to each other, and a target of another network": """
        import copy
        net = nn.Linear(3, 2)
        other = copy.deepcopy(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            x = torch.randn(4, 3)
            loss = nn.functional.mse_loss(net(x), 0.5 * net(x + 0.1))
            loss = loss + nn.functional.mse_loss(net(x), torch.randn(4, 2) + 0.9 * other(x).detach())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    "a bank of features that the program fills through .data": """
        net, bank = nn.Linear(2, 3), torch.randn(8, 3)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(4):
            features = net(torch.randn(2, 2))
            optimizer.zero_grad()
            (features @ bank.clone().t()).logsumexp(1).mean().backward()
            optimizer.step()
            bank.data[2 * step:2 * step + 2] = net(torch.randn(2, 2))
        """,
    "an initial state that is trained, from which an inner loop with steps goes on under another name": """
        weight, start = torch.randn(3, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
        optimizer = torch.optim.SGD([weight, start], lr=0.1)
        for _ in range(2):
            state = start
            for x in torch.randn(3, 3):
                state = torch.tanh(x @ weight + state)
                optimizer.zero_grad()
                state.pow(2).sum().backward()
                optimizer.step()
                state.detach_()
        """,
    "a leaf that is bound to its clamped values in the last iteration": """
        image = torch.rand(2, 3, requires_grad=True)
        optimizer = torch.optim.SGD([image], lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            (image - 2).pow(2).sum().backward()
            optimizer.step()
            if step == 2:
                image = image.detach().clamp(0, 1)
        """,
    "a leaf that is bound to its clamped values, and a new optimizer for it": """
        from torch.optim import SGD
        image = torch.rand(2, 3, requires_grad=True)
        for _ in range(3):
            optimizer = SGD([image], lr=0.1)
            (image - 2).pow(2).sum().backward()
            optimizer.step()
            image = image.detach().clamp(0, 1).requires_grad_()
        """,
    "a model with a scaled loss, next to one whose own loss is not scaled": """
        net, other = nn.Linear(2, 1), nn.Linear(2, 1)
        of_net, of_other = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(other.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(2):
            of_net.zero_grad(), of_other.zero_grad()
            scaler.scale(net(torch.ones(3, 2)).pow(2).mean()).backward()
            other(torch.ones(3, 2)).pow(2).mean().backward()
            nn.utils.clip_grad_norm_(other.parameters(), 1.0)
            of_other.step()
            scaler.step(of_net)
            scaler.update()
        """,
    "a loss that is scaled only in the first steps": """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for step in range(4):
            optimizer.zero_grad()
            loss = net(torch.ones(3, 2)).pow(2).mean()
            if step < 2:
                scaler.scale(loss).backward()
            else:
                loss.backward()
            if step >= 2:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
        """,
    "a scaler that is not enabled, of a loss with a weight": """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        for _ in range(2):
            optimizer.zero_grad()
            scaler.scale(0.5 * net(torch.ones(3, 2)).pow(2).mean()).backward()
            optimizer.step()
        """,
    "gradients that hooks divide by the factor of the scaler": """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for p in net.parameters():
            p.register_hook(lambda gradient: gradient / 1024)
        for _ in range(2):
            optimizer.zero_grad()
            scaler.scale(net(torch.ones(3, 2)).pow(2).mean()).backward()
            optimizer.step()
        """,
    "an encoder that an earlier optimizer trained, which is converted and then kept": """
        encoder, head = nn.Linear(2, 2), nn.Linear(2, 1)
        optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            head(encoder(torch.randn(4, 2))).pow(2).mean().backward()
            optimizer.step()
        encoder.double(), head.double()
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            head(encoder(torch.randn(4, 2).double())).pow(2).mean().backward()
            optimizer.step()
        """,
    "a parameter of data that each step makes, and whose gradient a hook reads": """
        net, seen = nn.Linear(2, 1), []
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            x = nn.Parameter(torch.ones(4, 2))
            x.register_hook(lambda gradient: seen.append(gradient.norm().item()))
            optimizer.zero_grad()
            net(x).pow(2).mean().backward()
            optimizer.step()
        """,
    "a temperature that a schedule sets under no_grad": """
        net, temperature = nn.Linear(2, 2), nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(4):
            optimizer.zero_grad()
            (net(torch.randn(4, 2)) / temperature).pow(2).mean().backward()
            optimizer.step()
            with torch.no_grad(): temperature.fill_(1.0 + step)
        """,
    "a prediction in the units of the data, of a loss that compares two heads": """
        body, one, two = nn.Linear(2, 2), nn.Linear(2, 1), nn.Linear(2, 1)
        optimizer = torch.optim.SGD([*body.parameters(), *one.parameters(), *two.parameters()], lr=0.1)
        for _ in range(2):
            hidden = body(torch.randn(4, 2))
            optimizer.zero_grad()
            nn.functional.mse_loss(1.0 + one(hidden) * 3.0, two(hidden)).backward()
            optimizer.step()
        """,
    "parameters that a search sets to the values of a vector": """
        from torch.nn.utils import parameters_to_vector, vector_to_parameters
        encoder, head = nn.Linear(2, 2), nn.Linear(2, 1)
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            head(encoder(torch.randn(4, 2))).pow(2).mean().backward()
            optimizer.step()
            values = parameters_to_vector(encoder.parameters()).detach()
            vector_to_parameters((values + 0.01 * torch.randn_like(values)).float(), encoder.parameters())
        """,
    "gradients that a function divides by the factor of the scaler": """
        net, scaler = nn.Linear(2, 1), torch.amp.GradScaler("cpu")
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        def divide(): scaler.unscale_(optimizer)
        for _ in range(2):
            optimizer.zero_grad()
            scaler.scale(net(torch.ones(3, 2)).pow(2).mean()).backward()
            divide()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        """,
    "gradients that the program divides by the factor of the scaler itself": """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(2):
            optimizer.zero_grad()
            scaler.scale(net(torch.ones(3, 2)).pow(2).mean()).backward()
            for p in net.parameters():
                p.grad /= scaler.get_scale()
            optimizer.step()
        """,
    "a perturbation that each step makes as a parameter of zeros, and whose gradient it uses": """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            x, delta = torch.randn(4, 2), nn.Parameter(torch.zeros(4, 2))
            net(x + delta).pow(2).mean().backward()
            optimizer.zero_grad()
            net(x + 0.1 * delta.grad.sign()).pow(2).mean().backward()
            optimizer.step()
        """,
    "an inner step of first order whose parameters the outer loss trains": """
        net = nn.Linear(2, 1)
        outer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            grads = torch.autograd.grad((net(torch.randn(4, 2)) - 1).pow(2).mean(), list(net.parameters()))
            weight, bias = (p - 0.1 * g for p, g in zip(net.parameters(), grads))
            outer.zero_grad()
            nn.functional.linear(torch.randn(4, 2), weight, bias).pow(2).mean().backward()
            outer.step()
        """,
    "a custom backward that returns None for a table which another term trains": """
        class Quantize(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, table):
                return table[torch.cdist(x, table).argmin(1)]

            @staticmethod
            def backward(ctx, grad):
                return grad, None

        encoder, table = nn.Linear(2, 2), nn.Parameter(torch.randn(4, 2))
        optimizer = torch.optim.SGD([*encoder.parameters(), table], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            x = encoder(torch.ones(3, 2))
            nearest = table[torch.cdist(x, table).argmin(1)]
            loss = (Quantize.apply(x, table) - 1).pow(2).mean() + (nearest - x.detach()).pow(2).mean()
            loss.backward()
            optimizer.step()
        """,
    "a maximum that is subtracted before an exponential and added to its logarithm": """
        net, target = nn.Linear(4, 3), torch.tensor([0, 2, 1])
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            logits = 2 * net(torch.ones(3, 4))
            with torch.no_grad():
                most = logits.max()
            total = (logits - most).exp().sum(1).log() + most
            optimizer.zero_grad()
            (total - logits[torch.arange(3), target]).mean().backward()
            optimizer.step()
        """,
    "a derivative that the program assigns as the gradient, instead of the one that backward added to": """
        net, weight = nn.Linear(3, 2), nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([*net.parameters(), weight], lr=0.1)
        for _ in range(3):
            losses = net(torch.ones(4, 3)).pow(2).mean(0)
            net.zero_grad()
            (weight * losses).sum().backward(retain_graph=True)
            norms = [torch.autograd.grad(weight[i] * losses[i], net.weight, create_graph=True)[0].norm() for i in (0, 1)]
            weight.grad = torch.autograd.grad((norms[0] - norms[1]).abs(), weight)[0]
            optimizer.step()
        """,
    "an energy after a step along its gradient, for a choice and not for backward": """
        place = torch.zeros(2)
        for _ in range(3):
            start, speed = place.clone(), torch.ones(2)
            place.requires_grad_(True)
            speed = speed - 0.1 * torch.autograd.grad((place ** 2).sum(), place)[0]
            place = (place + 0.1 * speed).detach().requires_grad_(True)
            change = (place ** 2).sum() + speed.pow(2).sum() / 2 - (start ** 2).sum()
            place = start if change.item() > 2 else place.detach()
        """,
    "an energy whose derivatives are trained, which do not depend on the last bias": """
        energy = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = torch.optim.Adam(energy.parameters(), lr=0.01)
        for _ in range(3):
            data = torch.randn(4, 2, requires_grad=True)
            slope, = torch.autograd.grad(energy(data).sum(), data, create_graph=True)
            optimizer.zero_grad()
            (slope - data.detach()).pow(2).mean().backward()
            optimizer.step()
        """,
    "numbers of a forward without recording that are subtracted from those of another": """
        net, value = nn.Linear(4, 3), nn.Linear(4, 1)
        optimizer = torch.optim.SGD([*net.parameters(), *value.parameters()], lr=0.1)
        for s in torch.randn(3, 4):
            with torch.no_grad():
                old = torch.log_softmax(net(s), 0)[1]
                target = 1 + 0.9 * value(s + 1).squeeze()
            logp, v = torch.log_softmax(net(s), 0)[1], value(s).squeeze()
            with torch.no_grad():
                advantage = target - v
            optimizer.zero_grad()
            (-logp * advantage + 0.1 * (old - logp) + (target - v) ** 2).backward()
            optimizer.step()
        """,
    "the .grad of a result that is read before backward": """
        w = torch.ones(2, requires_grad=True)
        h = w.exp()
        (w * 2).sum().backward()
        print(h.grad, h.grad_fn.next_functions)
        h.sum().backward()
        """,
    "copies of weights, weights of the last round only, an average, a flat buffer, and weights that are tied": """
        net, target, other, kept = nn.Linear(2, 1), nn.Linear(2, 1), nn.Linear(2, 1, bias=False), {}
        flat = nn.Parameter(torch.rand(2))
        other.weight.data = flat.data.view(1, 2)
        tied = nn.Linear(2, 1)
        tied.weight.data = net.weight.data
        optimizer = torch.optim.SGD([*net.parameters(), *tied.parameters(), flat], lr=0.1)
        history, aliases = [], [p.data for p in net.parameters()]
        for n in range(3):
            optimizer.zero_grad()
            x = torch.ones(3, 2)
            (net(x) - target(x).detach() + tied(x) + other(x)).pow(2).mean().backward()
            flat.grad, other.weight.grad = other.weight.grad.view(2), None
            history.append(net.weight.detach().clone())
            kept["last"] = net.weight.data
            optimizer.step()
            for a, p in zip(target.parameters(), net.parameters()):
                a.data = 0.9 * a.data + 0.1 * p.data
        """,
    "hooks that are removed, that work in place, or that are registered once; one tensor several times on purpose": """
        def halve(g):
            g = g * 0.5
            return g
        def look(g):
            g = g.norm()
            seen.append(g)
        net, seen, x = nn.Linear(2, 1), [], torch.ones(2)
        net.bias.register_hook(halve)
        net.bias.register_hook(look)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            handle = net.weight.register_hook(halve)
            optimizer.zero_grad()
            x += 1
            same = []
            for _ in range(3): same.append(x)
            net(torch.stack(same)).pow(2).mean().backward()
            handle.remove()
            optimizer.step()
        """,
    "states that are copies, of another module, or loaded where they are taken": """
        import copy
        net, target = nn.Linear(2, 1), nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        first = copy.deepcopy(net.state_dict())
        for _ in range(3):
            optimizer.zero_grad()
            (net(torch.ones(3, 2)) - target(torch.ones(3, 2)).detach()).pow(2).mean().backward()
            optimizer.step()
            target.load_state_dict(net.state_dict())
            net.load_state_dict(net.state_dict())
        net.load_state_dict(first)
        """,
    "iterators that only the optimizer uses: before it, in a branch that does not run, and bound again in each round": """
        import itertools
        net, clip = nn.Linear(2, 1), False
        params, each = itertools.chain(net.parameters()), net.parameters()
        count = sum(p.numel() for p in each)
        optimizer = torch.optim.SGD(params, lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            if clip:
                nn.utils.clip_grad_norm_(params, 0.1)
            own = net.parameters()
            nn.utils.clip_grad_norm_(own, 0.1)
            optimizer.step()
        """,
    "frozen parameters in the optimizer of one network, and another network that is not updated yet": """
        class Normed(nn.Linear):
            def __init__(self, *sizes):
                super().__init__(*sizes)
                self.u = nn.Parameter(torch.randn(sizes[1]), requires_grad=False)
            def forward(self, x):
                return super().forward(x) / self.u.norm()
        net, judge = Normed(2, 1), Normed(1, 1)
        first, second = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(judge.parameters(), lr=0.1)
        for n in range(3):
            first.zero_grad(), second.zero_grad()
            judge(net(torch.ones(3, 2))).pow(2).mean().backward()
            first.step()
            if n > 5:
                second.step()
        """,
    "an optimizer that code without a file steps, in a method with the name of another one": """
        class Data:
            def fit(self): pass
        space = {}
        exec("class Trainer:\\n  def fit(self, optimizer): optimizer.step()", space)
        net, judge, trainer = nn.Linear(2, 1), nn.Linear(1, 1), space["Trainer"]()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        second = torch.optim.SGD(judge.parameters(), lr=0.1)
        for n in range(3):
            optimizer.zero_grad(), second.zero_grad()
            judge(net(torch.ones(3, 2))).pow(2).mean().backward()
            trainer.fit(optimizer)
            if n > 5: second.step()
        """,
    "an optimizer whose step is called later, in a function, by the name of another one": """
        def update(first, loss):
            loss.backward()
            if loss < 0: first.step()
        net, judge = nn.Linear(2, 1), nn.Linear(1, 1)
        first, second = torch.optim.SGD(net.parameters(), lr=0.1), None
        second = torch.optim.SGD(judge.parameters(), lr=0.1)
        for n in range(2):
            second.zero_grad()
            update(second, judge(net(torch.ones(3, 2)).detach()).pow(2).mean())
            first.zero_grad()
            judge(net(torch.ones(3, 2))).pow(2).mean().backward()
            first.step()
        """,
    "gradients clipped after the step of another optimizer, for the step of the caller": """
        net, judge = nn.Linear(2, 1), nn.Linear(1, 1)
        first, second = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(judge.parameters(), lr=0.1)
        def update(x):
            first.zero_grad(), second.zero_grad()
            judge(net(x)).pow(2).mean().backward()
            first.step()
            nn.utils.clip_grad_norm_(judge.parameters(), 0.1)
        for _ in range(3):
            update(torch.ones(3, 2))
            second.step()
        """,
    "an old policy that each iteration copies, and whose gradient nothing uses": """
        import copy
        net = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        old = [copy.deepcopy(net)]
        for _ in range(3):
            x = torch.randn(4, 3)
            ratio = torch.exp(net(x) - old[0](x))
            old[0] = copy.deepcopy(net)
            optimizer.zero_grad()
            (-ratio.clamp(max=1.2).mean()).backward()
            optimizer.step()
        """,
    "an old policy in a part of the module that is trained": """
        import copy
        net = nn.Module()
        net.new = nn.Linear(3, 2)
        net.old = copy.deepcopy(net.new)
        optimizer = torch.optim.SGD(net.new.parameters(), lr=0.1)
        for _ in range(3):
            x = torch.randn(4, 3)
            ratio = torch.exp(net.new(x) - net.old(x))
            optimizer.zero_grad()
            (-ratio.clamp(max=1.2).mean()).backward()
            optimizer.step()
            net.old = copy.deepcopy(net.new)
        """,
    "a new leaf in each iteration with an optimizer of its own": """
        net = nn.Linear(2, 2).requires_grad_(False)
        for target in torch.eye(2):
            z = torch.zeros(2, requires_grad=True)
            optimizer = torch.optim.SGD([z], lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                (net(z) - target).pow(2).mean().backward()
                optimizer.step()
        """,
    "a perturbation that each batch of adversarial training makes anew": """
        net, delta = nn.Linear(2, 1), torch.zeros(3, 2, requires_grad=True)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            x = torch.randn(3, 2)
            delta = torch.zeros(3, 2, requires_grad=True)
            net(x + delta).pow(2).mean().backward()
            delta = (0.1 * delta.grad.sign()).detach()
            optimizer.zero_grad()
            net(x + delta).pow(2).mean().backward()
            optimizer.step()
        """,
    "two optimizers of one network, in turn, and a frozen copy": """
        net, frozen = nn.Linear(3, 1), nn.Linear(3, 1).requires_grad_(False)
        first, second = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.Adam(net.parameters())
        for n in range(4):
            net.zero_grad()
            (net(torch.ones(2, 3)) - frozen(torch.ones(2, 3))).pow(2).mean().backward()
            (second if n % 2 else first).step()
        """,
    "tasks with inner gradients, whose losses are added up by their backward calls, and an average of their values": """
        w, average = nn.Parameter(torch.rand(3)), 0
        optimizer = torch.optim.Adam([w], lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            for _ in range(2):
                slope = torch.autograd.grad((torch.rand(5, 3) @ w).pow(2).mean(), w, create_graph=True)[0]
                loss = (torch.rand(5, 3) @ (w - 0.1 * slope)).pow(2).mean()
                loss.backward(retain_graph=True)
                average = 0.9 * average + 0.1 * loss.detach()
            optimizer.step()
        """,
    "a gradient of another loss, whose sign the program changes to use it": """
        g, d = nn.Linear(2, 2), nn.Linear(2, 1)
        first, second = (torch.optim.SGD(net.parameters(), lr=0.1) for net in (g, d))
        for _ in range(3):
            first.zero_grad(), second.zero_grad()
            d(g(torch.ones(4, 2))).mean().backward()
            first.step()
            for p in d.parameters():
                p.grad.data.copy_(-p.grad)
            d(torch.ones(4, 2)).pow(2).mean().backward()
            second.step()
        """,
    "two losses for a head, of which one is not to train the body": """
        body, head = nn.Linear(3, 2), nn.Linear(2, 1)
        optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            head(body(torch.ones(4, 3))).exp().mean().backward()
            body.zero_grad()
            head(body(torch.ones(4, 3))).pow(2).mean().backward()
            optimizer.step()
        """,
    "derivatives of a teacher as targets, and a step against the gradient for data": """
        net, teacher = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1)), nn.Linear(1, 1)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            x = torch.linspace(0, 1, 5)[:, None].requires_grad_()
            y, goal = net(x), teacher(x)
            slope = torch.autograd.grad(y.sum(), x, create_graph=True)[0]
            wanted = torch.autograd.grad(goal.sum(), x)[0]
            near = x + 0.1 * torch.autograd.grad(y.sum(), x, retain_graph=True)[0]
            ((slope - wanted).pow(2).mean() + (net(near) - y).pow(2).mean()).backward()
            optimizer.step()
        """,
    "attention, the log-softmax of a log-softmax, and a target that is a softmax": """
        net, teacher, key = nn.Linear(2, 3), nn.Linear(2, 3), nn.Linear(3, 3)
        optimizer = torch.optim.SGD([*net.parameters(), *key.parameters()], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            x = net(torch.ones(4, 2))
            mixed = torch.softmax(key(x) @ x.T, 1) @ x
            goal = torch.softmax(teacher(torch.ones(4, 2)), 1).detach()
            nn.CrossEntropyLoss()(torch.log_softmax(mixed, 1), goal).backward()
            optimizer.step()
        """,
    "a step of an embedding along its gradient": """
        words, head = nn.Embedding(5, 3), nn.Linear(3, 1)
        optimizer = torch.optim.SGD([*words.parameters(), *head.parameters()], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            vectors = words(torch.arange(4))
            loss = head(vectors).pow(2).mean()
            slope = torch.autograd.grad(loss, vectors, retain_graph=True)[0]
            (loss + head(vectors + 0.1 * slope).pow(2).mean()).backward()
            optimizer.step()
        """,
    "a loss inside vmap, whose tensors have no memory": """
        net, x, y = nn.Linear(3, 1), torch.randn(4, 3), torch.randn(4, 1)
        def loss(weights, x, y):
            return nn.functional.mse_loss(torch.func.functional_call(net, weights, (x,)), y)
        gradients = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(dict(net.named_parameters()), x, y)
        net(x).sum().backward()
        """,
    "a module with a requires_grad of its own": """
        class Features(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.requires_grad = nn.Linear(2, 1), True

            def forward(self, x):
                return self.layer(x) if self.requires_grad else self.layer(x).detach()

        net, head = Features(), nn.Linear(1, 1)
        head(net(torch.ones(3, 2))).sum().backward()
        net.requires_grad = False
        head(net(torch.ones(3, 2))).sum().backward()
        """,
    "an optimizer that makes numbers of parameters, on the line of the loss": """
        net = nn.Linear(3, 3)
        adafactor = torch.optim.Adafactor(net.parameters())
        net(torch.randn(2, 3)).pow(2).mean().backward(); adafactor.step()
        """,
    "calls of backward with a batch of gradients, which are wrappers of vmap": """
        w = torch.ones(3, requires_grad=True)
        torch.autograd.functional.hessian(lambda v: (v ** 3).sum(), torch.ones(3), vectorize=True)
        torch.autograd.grad(w.exp(), w, torch.eye(3), is_grads_batched=True)
        w.exp().sum().backward()
        """,
    "an average of gradients that no parameter receives, and one update at the end": """
        w, average = torch.ones(2, requires_grad=True), torch.zeros(2)
        for _ in range(3):
            (torch.ones(3, 2) @ w).pow(2).mean().backward()
            average.mul_(0.9).add_(w.grad)
        with torch.no_grad():
            w -= 0.1 * average
        """,
    "actions of a normal distribution with their log probabilities, and a critic of them": """
        policy, critic = nn.Linear(2, 2), nn.Linear(3, 1)
        state = torch.ones(4, 2)
        mean, log_scale = policy(state).chunk(2, 1)
        normal = torch.distributions.Normal(mean, log_scale.exp())
        action = normal.sample()
        value = critic(torch.cat([state, action], 1))
        (value.pow(2).mean() - (normal.log_prob(action) * value.detach()).mean()).backward()
        """,
    "an action that is tried for a loss of the critic, and a target with noise": """
        actor, critic = nn.Linear(2, 4), nn.Linear(4, 1)
        state = torch.ones(3, 2)
        mean, log_scale = actor(state).chunk(2, 1)
        with torch.no_grad():
            tried = mean + torch.randn_like(mean) * log_scale.exp()
            target = mean + 0.1 * torch.randn_like(mean)
        critic(torch.cat([state, tried], 1)).pow(2).mean().backward()
        value = critic(torch.cat([state, mean], 1)).mean() + (mean - target).pow(2).mean()
        (log_scale.pow(2).mean() - value).backward()
        """,
    "a simulation without a graph, of an energy whose last bias has no gradient": """
        def steps(p, q, graph):
            p, q = p.requires_grad_(), q.requires_grad_()
            dp = torch.autograd.grad((energy(p) + q.pow(2)).sum(), q, create_graph=graph)[0]
            half = p - 0.05 * dp
            return q + 0.1 * torch.autograd.grad((energy(half) + q.pow(2)).sum(), p, create_graph=graph)[0]
        energy = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(energy.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            steps(torch.ones(3, 2), torch.rand(3, 2), True).pow(2).mean().backward()
            optimizer.step()
            steps(torch.ones(3, 2), torch.rand(3, 2), False)
        """,
    "a trajectory of an energy, whose force is trained with a graph": """
        def relaxed(x):
            for _ in range(2): x = x - 0.1 * torch.autograd.grad(energy(x).sum(), x)[0]
            return x.detach().requires_grad_()
        energy = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(energy.parameters(), lr=0.1)
        for _ in range(2):
            x = relaxed(torch.rand(3, 2, requires_grad=True))
            optimizer.zero_grad()
            torch.autograd.grad(energy(x).sum(), x, create_graph=True)[0].pow(2).mean().backward()
            optimizer.step()
        """,
    "numbers of a normal distribution whose parameters are constants": """
        net = nn.Linear(2, 1)
        noise = torch.normal(torch.zeros(4, 2), torch.ones(4, 2))
        net(noise + torch.distributions.Normal(torch.zeros(2), 1.0).sample()).pow(2).mean().backward()
        """,
    "gradients that are too small for LBFGS": """
        w = torch.full((2,), 1e-6, requires_grad=True)
        optimizer = torch.optim.LBFGS([w])
        def closure():
            optimizer.zero_grad()
            (loss := w.pow(2).sum()).backward()
            return loss
        for _ in range(2): optimizer.step(closure)
        """,
    "a step whose closure clears the gradient of each backward, as the line of the step does": """
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.LBFGS([w], max_iter=3)
        def closure():
            optimizer.zero_grad()
            (loss := (w - 3).pow(4).sum()).backward()
            return loss
        for _ in range(2): optimizer.zero_grad(), optimizer.step(closure)
        """,
    "an assigned gradient replaces the one that another loss has filled": """
        net, scale = nn.Linear(2, 1), torch.ones(1, requires_grad=True)
        steps = [torch.optim.SGD(held, lr=0.1) for held in ([scale], net.parameters())]
        for _ in range(3):
            steps[0].zero_grad()
            scale.grad = torch.autograd.grad((net(torch.ones(3, 2)) * scale).sum(), scale)[0]
            steps[0].step()
            steps[1].zero_grad()
            (net(torch.ones(3, 2)) * scale).pow(2).mean().backward()
            steps[1].step()
        """,
    "a test of `.grad` that only clears it reads it of a computed tensor, too": """
        w = torch.ones(2, requires_grad=True)
        for _ in range(2):
            fast = w * 2
            for p in (fast, w):
                if p.grad is not None: p.grad.zero_()
            fast.pow(2).sum().backward()
    """,
    "a loop binds its name to a value that it reads": """
        net, total = nn.Linear(2, 1), 0
        for p in net.parameters():
            p = p * 2
            total = total + p.sum()
        total.backward()
    """,
    "two losses of a round share a graph, and several losses before one step do": """
        def update(optimizer, losses):
            optimizer.zero_grad()
            for loss in losses: loss.backward(retain_graph=True)
            optimizer.step()
        first, second = nn.Linear(2, 2), nn.Linear(2, 1)
        steps = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (first, second)]
        for _ in range(2):
            made = first(torch.randn(4, 2))
            update(steps[1], [second(made).mean()])
            update(steps[0], [(row - 1).pow(2).sum() for row in made])
        """,
    "each term of a line is a difference with a detached value, and trains the other value": """
        encoder, codes = nn.Linear(2, 2), nn.Linear(2, 2)
        optimizer = torch.optim.SGD([*encoder.parameters(), *codes.parameters()], lr=0.1)
        for _ in range(2):
            z, q = encoder(torch.ones(3, 2)), codes(torch.ones(3, 2))
            loss = (q - z.detach()).pow(2).mean() + 0.25 * (q.detach() - z).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    "the numbers of losses are added in the line that computes them, without no_grad": """
        net, x = nn.Linear(2, 1), torch.ones(3, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        total = 0.0
        for _ in range(3):
            optimizer.zero_grad()
            net(x).pow(2).mean().backward()
            optimizer.step()
            total += (net(x) - 1).abs().mean().item()
            total = total + 2 * float(net(x).exp().mean())
            right = (net(x).detach().numpy() > 0).mean()
        """,
    "first-order steps of a vector and a number, and a detached penalty": """
        w, b = torch.ones(2, requires_grad=True), torch.tensor(1.0, requires_grad=True)
        optimizer = torch.optim.SGD([w, b], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            slopes = torch.autograd.grad((w * b).pow(2).sum(), [w, b])
            loss = ((w - 0.1 * slopes[0]) * (b - 0.1 * slopes[1])).pow(2).sum() + slopes[0].norm().detach()
            loss.backward()
            optimizer.step()
        """,
    "an input of the second network is a leaf, and the first one is trained by a loss of its own": """
        first, second = nn.Linear(2, 3), nn.Linear(3, 1)
        optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
        hidden = first(torch.ones(4, 2))
        hidden.pow(2).mean().backward()
        attacked = torch.autograd.Variable(hidden.data, requires_grad=True)
        second(attacked).pow(2).mean().backward()
        optimizer.step()
        """,
    "parameters that lie in one flat tensor": """
        net = nn.Linear(2, 1)
        flat = torch.cat([parameter.view(-1) for parameter in net.parameters()]).detach()
        net.weight.data, net.bias.data = flat[:2].view(1, 2), flat[2:]
        twin = nn.Parameter(net.weight.data)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        (net(torch.ones(3, 2)) * twin).pow(2).mean().backward()
        optimizer.step()
        """,
    "gradients of four batches are added up on purpose": """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(8):
            (net(torch.ones(3, 2)).pow(2).mean() / 4).backward()
            if step % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
        """,
    "a frozen body whose parameters nobody holds": """
        body, head = nn.Linear(2, 3), nn.Linear(3, 1)
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        with torch.no_grad():
            features = body(torch.ones(4, 2))
        head(features).pow(2).mean().backward()
        optimizer.step()
        """,
    "only the head of a model is trained": """
        net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
        optimizer = torch.optim.SGD(net[1].parameters(), lr=0.1)
        net(torch.ones(4, 2)).pow(2).mean().backward()
        optimizer.step()
        """,
    "two players, each with an optimizer, and an input whose gradient is asked for": """
        maker, judge, offset = nn.Linear(2, 2), nn.Linear(2, 1), torch.zeros(1, requires_grad=True)
        first, second = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (maker, judge))
        for _ in range(2):
            made = maker(torch.ones(3, 2)) + offset
            torch.autograd.grad(made.sum(), offset, retain_graph=True)
            second.zero_grad()
            (judge(torch.ones(3, 2)) - judge(made.detach())).mean().backward()
            second.step()
            first.zero_grad()
            judge(made).mean().backward()
            first.step()
        """,
    "a target that follows, and that the optimizer holds as well; the last layer of both is not used yet": """
        online, target = (nn.Sequential(nn.Linear(2, 1), nn.Identity(), nn.Linear(1, 1)) for _ in range(2))
        points = torch.ones(3, 2, requires_grad=True)
        optimizer = torch.optim.SGD([*online.parameters(), *target.parameters()], lr=0.1)
        for _ in range(2):
            with torch.no_grad(): goal = target[:2](points) + 1
            optimizer.zero_grad()
            (online[:2](points) - goal).pow(2).mean().backward()
            optimizer.step()
            with torch.no_grad():
                for p, q in zip(target.parameters(), online.parameters()): p.copy_(0.9 * p + 0.1 * q)
        nn.Linear(2, 1)(torch.ones(2).requires_grad_()).sum().backward()  # an attack on another model
        """,
    "an advantage and a target without their history, and the gradient of one loss with the value of another": """
        actor, critic = nn.Linear(2, 2), nn.Linear(2, 1)
        optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()])
        states, returns = torch.ones(4, 2), torch.tensor([1.0, 2.0, 3.0, 4.0])
        values = critic(states).squeeze(1)
        advantage = returns - values.detach()
        chosen = actor(states).log_softmax(1)[:, 0]
        after = torch.tensor(0.9 * critic(states[0]).item()) - critic(states[1]).sum()
        loss = -(chosen * advantage).mean() + (values - returns).pow(2).mean() + after.pow(2)
        rest, first = 2.0 - values[1].item(), chosen[1]
        loss = loss - chosen[0] * (1.0 - values[0].item()) - first * rest
        (loss + (values.abs().mean() - loss).detach()).backward()
        optimizer.step()
        """,
    "each parameter gets a gradient from backward on it, of a residual with a graph, beside an unread derivative": """
        net, x = nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 1)), torch.ones(4, 1, requires_grad=True)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        slope = torch.autograd.grad(net(x).sum(), x, create_graph=True)[0]
        curvature = torch.autograd.grad(slope.sum(), x, create_graph=True)[0]
        residual = slope.pow(2).mean()
        print(f"{residual:.3f}")
        for parameter, grad in zip(net.parameters(), torch.autograd.grad((net(x) - 1).pow(2).mean(), [*net.parameters()])):
            parameter.backward(2 * grad)
        optimizer.step()
        """,
    "a printed sum has the detached loss of a network that another backward trains; a later step would copy a target": """
        maker, judge, target = nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        optimizer = torch.optim.SGD([*maker.parameters(), *judge.parameters()], lr=0.1)
        for step in range(2):
            if step == 99: target.load_state_dict(judge.state_dict())
            made = maker(torch.ones(4, 2))
            judged = (judge(made) - 1 - target(made.detach())).pow(2).mean()
            judged.backward(retain_graph=True)
            total = made.pow(2).mean() + judged.detach()
            total.backward()
            print(total + (judge(made).argmax(1) == 0).float().mean())
            optimizer.step()
            optimizer.zero_grad()
        """,
    "codes that are replaced by a moving average of the values which they stand for": """
        encoder, codes = nn.Linear(2, 1), nn.Embedding(3, 1)
        optimizer = torch.optim.SGD([*encoder.parameters(), *codes.parameters()], lr=0.1)
        for _ in range(3):
            z, chosen = encoder(torch.ones(2, 2)), codes.weight[:2]
            codes.weight = nn.Parameter(0.9 * codes.weight + 0.1 * z.mean())
            (z + (chosen - z).detach()).pow(2).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    "computed weights that another optimizer trains as parameters": """
        hyper, inner = nn.Linear(3, 4), nn.Linear(2, 2, bias=False)
        optimizer = torch.optim.SGD(hyper.parameters(), lr=0.1)
        for _ in range(2):
            inner.weight = nn.Parameter(hyper(torch.ones(3)).view(2, 2))
            second = torch.optim.SGD(inner.parameters(), lr=0.1)
            inner(torch.ones(3, 2)).pow(2).mean().backward()
            second.step()
            optimizer.zero_grad()
            (hyper(torch.ones(3)).view(2, 2) - inner.weight.detach()).pow(2).mean().backward()
            optimizer.step()
        """,
    "a temperature used as a number and trained elsewhere": """
        actor, log_alpha = nn.Linear(2, 1), torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.Adam([*actor.parameters(), log_alpha])
        for _ in range(2):
            entropy = actor(torch.ones(3, 2)).mean()
            alpha = log_alpha.exp().item()
            optimizer.zero_grad()
            (alpha * entropy).backward()
            (log_alpha.exp() * (entropy.detach() + 1)).sum().backward()
            optimizer.step()
        """,
    "a new leaf in each round": """
        x = torch.ones(2)
        for _ in range(3):
            x = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(x.pow(2).sum(), x)
            x = x + 0.1 * slope.sign()
        """,
    "a line search asks for numbers": """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)

        def closure():
            optimizer.zero_grad()
            loss = (net(torch.ones(3, 2)) - 1).pow(2).mean()
            loss.backward()
            return loss

        optimizer.step(closure)
        """,
    "a deep copy that is kept as a target, of a model with an unused layer": """
        import copy
        net = nn.ModuleList([nn.Linear(2, 1), nn.Linear(2, 1)])
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            target = copy.deepcopy(net)
            optimizer.zero_grad()
            (net[0](torch.ones(3, 2)) - target[0](torch.ones(3, 2)).detach() - 1).pow(2).mean().backward()
            optimizer.step()
        """,
    "copies whose gradients are given to the model": """
        import copy
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            fast = copy.deepcopy(net)
            fast(torch.ones(3, 2)).pow(2).mean().backward()
            for p, q in zip(net.parameters(), fast.parameters()): p.grad = q.grad.clone()
            optimizer.step()
        """,
    "a critic that an optimizer holds which steps later": """
        maker, judge = nn.Linear(2, 2), nn.Linear(2, 1)
        first, second = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (maker, judge))
        for step in range(2):
            first.zero_grad()
            judge(maker(torch.ones(3, 2))).mean().backward()
            first.step()
        """,
    "a step by hand, of a head beside an optimizer": """
        body, head = nn.Linear(2, 3), nn.Linear(3, 1)
        optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            head.zero_grad()
            head(body(torch.ones(3, 2))).pow(2).mean().backward()
            optimizer.step()
            with torch.no_grad():
                for p in head.parameters(): p -= 0.1 * p.grad
        """,
    "a feature extractor whose values were loaded": """
        body, features = nn.Linear(2, 2), nn.Linear(2, 1)
        features.load_state_dict({"weight": torch.ones(1, 2), "bias": torch.zeros(1)})
        optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
        features(body(torch.ones(3, 2))).pow(2).mean().backward()
        optimizer.step()
        """,
    "evaluation at the end, and BatchNorm frozen on purpose": """
        net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3)), nn.Linear(3, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.randn(4, 2)).pow(2).mean().backward()
            optimizer.step()
            net.eval(), net.train(), net[1].eval()
        net.eval()
        net(torch.randn(4, 2))
        """,
    "interpolates that ask for a gradient": """
        maker, judge = nn.Linear(2, 2), nn.Linear(2, 1)
        optimizer = torch.optim.SGD(judge.parameters(), lr=0.1)
        mixed = torch.autograd.Variable(0.5 * maker(torch.ones(3, 2)).data + 0.5, requires_grad=True)
        (slope,) = torch.autograd.grad(judge(mixed).tanh().sum(), mixed, create_graph=True)
        (slope.norm() - 1).pow(2).backward()
        optimizer.step()
        """,
    "a warm-up that begins at zero, and updates below the last bit": """
        net, small = nn.Linear(2, 1), nn.Linear(2, 1).to(torch.bfloat16)
        optimizer, other = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(small.parameters(), lr=1e-6)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
        for _ in range(2):
            optimizer.zero_grad()
            (net(torch.ones(3, 2)) + small(torch.ones(3, 2).bfloat16())).pow(2).mean().backward()
            optimizer.step()
            other.step()
            other.zero_grad()
            scheduler.step()
        """,
    "recording switched off and on again": """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            loss = net(torch.ones(3, 2)).pow(2).mean()
            torch.set_grad_enabled(False)
            loss.backward()
            torch.set_grad_enabled(True)
            optimizer.step()
        torch.set_grad_enabled(False)
        net(torch.ones(3, 2))
        """,
    "a latent that is optimized": """
        net, judge = nn.Linear(2, 1), nn.Linear(2, 1).eval()
        for p in net.parameters(): p.requires_grad = False
        latent = torch.randn(3, 2, requires_grad=True)
        optimizer = torch.optim.SGD([latent], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (net(latent) + judge(latent)).pow(2).mean().backward()
            optimizer.step()
        """,
    "norms of the parameters for the log": """
        experts = nn.ModuleList(nn.Linear(2, 1) for _ in range(2))
        optimizer = torch.optim.SGD(experts.parameters(), lr=0.1)
        experts[0](torch.ones(3, 2)).pow(2).mean().backward()
        optimizer.step()
        norms = [p.norm() for p in experts.parameters()]
        """,
    "gradients clipped with a scaler that is not enabled": """
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        for _ in range(2):
            optimizer.zero_grad()
            scaler.scale(net(torch.ones(3, 2)).pow(2).mean()).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        """,
    "a gradient in compressed rows": """
        a = torch.eye(3).to_sparse_csr().requires_grad_()
        torch.sparse.mm(a, torch.randn(3, 2, requires_grad=True), "sum").sum().backward()
        """,
    "noise that a function fills after it has saved it": """
        net = nn.Sequential(nn.Linear(2, 4), nn.RReLU(), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.randn(8, 2)).pow(2).mean().backward()
            optimizer.step()
        """,
    "a gradient that the backward of a Function gives a leaf on ctx": """
        class Product(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, w):
                ctx.save_for_backward(x, w)
                ctx.w = w
                return x @ w

            @staticmethod
            def backward(ctx, g):
                x, w = ctx.saved_tensors
                ctx.w.grad = x.t() @ g
                return g @ w.t(), None

        w = nn.Parameter(torch.randn(2, 2))
        optimizer = torch.optim.SGD([w], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            x = torch.randn(4, 2, requires_grad=True)
            Product.apply(x, w).pow(2).mean().backward()
            optimizer.step()
        """,
    "parameters replaced after the step": """
        p = nn.Parameter(torch.randn(3))
        optimizer = torch.optim.SGD([p], lr=0.1)
        for _ in range(3):
            p.pow(2).sum().backward()
            optimizer.step()
            p = nn.Parameter(torch.cat([p.detach(), torch.randn(1)]))
            optimizer.param_groups[0]["params"][0] = p
        """,
    "steps that use the gradient of the round before": """
        u, v = (nn.Parameter(torch.arange(8.0).reshape(4, 2) / n) for n in (8, 9))
        first, second = torch.optim.SGD([u], lr=0.1), torch.optim.SGD([v], lr=0.1)
        for _ in range(3):
            loss = (u @ v.detach().T - torch.eye(4)).pow(2).mean()
            first.zero_grad()
            loss.backward()
            second.step(), first.step()
            loss = (u.detach() @ v.T - torch.eye(4)).pow(2).mean()
            second.zero_grad()
            loss.backward()
        """,
    "the best score so far": """
        net = nn.Linear(2, 1)
        best = 1e9
        for _ in range(2):
            loss = net(torch.ones(3, 2)).pow(2).mean()
            net.zero_grad()
            with torch.no_grad(): loss.backward()
            best = min(best, loss.item()) - 0.0
            scale = 1.0 / (1.0 + float(loss))
        """,
}
"""Right programs that look like the faulty ones."""
MICRO = next(one.text for one in PROGRAMS if one.name == "gradients_of_micro_batches_that_are_cleared")
RIGHT["gradients that a hook reads before they are cleared"] = MICRO.replace(
    "for i", "net.bias.register_hook(print)\n        for i"
)
BY_HAND = "actions of a normal distribution with their log probabilities, and a critic of them"
RIGHT[f"{BY_HAND}, by hand"] = RIGHT[BY_HAND].replace(
    "normal.log_prob(action)", "(-((action - mean) / log_scale.exp()).pow(2) / 2 - log_scale)"
)
