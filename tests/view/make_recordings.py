"""Writes recordings/*.json by hand, from the structs: runs that the view must draw. Run it as a script."""

from pathlib import Path

from autograder.tape import recording as r

FOLDER = Path(__file__).parent / "recordings"


class Draft:
    """A recording in the making: statement by statement, with ids given out in order."""

    def __init__(self, source: str):
        """Starts with the program's text."""
        self.source, self.steps, self.tensors, self.storages, self.nodes, self.saved = source, [], [], [], [], []

    def place(self, line: int) -> r.Place:
        """Returns the place of a line."""
        return r.Place("lesson.py", line, self.source.splitlines()[line - 1].strip())

    def tensor(self, shape, kind="result", storage=None, counter=None, **more) -> int:
        """Returns a new tensor's id, in memory of its own unless told."""
        size = 4
        for length in shape:
            size *= length
        if storage is None:
            self.storages.append(r.Storage(len(self.storages), size))
            storage = self.storages[-1].id
        new = len(self.tensors)
        span = {"start": 0, "stop": size} | {key: more.pop(key) for key in ("start", "stop") if key in more}
        self.tensors.append(
            r.Tensor(
                new,
                tuple(shape),
                "float32",
                storage,
                **span,
                counter=new if counter is None else counter,
                kind=kind,
                **more,
            )
        )
        return new

    def node(self, name, inputs=(), tensor=None, line=None, scope=()) -> int:
        """Returns a new node's id."""
        place = self.place(line) if line else None
        self.nodes.append(r.Node(len(self.nodes), name, tuple(inputs), tensor, place, scope))
        return self.nodes[-1].id

    def keep(self, node, name, tensor, version=0, now=None, changed=False, line=None) -> int:
        """Returns the id of a new saved edge."""
        kept = self.tensors[tensor]
        now = version if now is None else now
        place = self.place(line) if line else None
        self.saved.append(
            r.SavedEdge(
                len(self.saved), node, name, kept.storage, kept.start, kept.stop, version, now, changed, tensor, place
            )
        )
        return self.saved[-1].id

    def step(self, line, forecast=None, because=(), **changes):
        """Adds a step."""
        names = tuple(r.NameChange(name, tensor) for name, tensor in changes.pop("names", {}).items())
        fore = r.Forecast(forecast, tuple(because)) if forecast else None
        self.steps.append(r.Step(len(self.steps), self.place(line), names=names, forecast=fore, **changes))

    def finish(self, name, verdict, backward=()):
        """Writes the file."""
        whole = r.Recording(
            r.VERSION, "2.13.0", (r.Program("lesson.py", self.source),), tuple(self.steps), tuple(self.tensors),
            tuple(self.storages), tuple(self.nodes), tuple(self.saved), tuple(backward), verdict,
        )  # fmt: skip
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.json").write_text(r.to_json(whole))


def state(tensor, values, version=0, grad=True, leaf=False, node=None):
    """Returns one tensor's state."""
    return r.TensorState(tensor, version, grad, leaf, node, values)


def matmuls(write: str) -> tuple[Draft, dict]:
    """Returns the two matmuls up to the write, with the ids by name."""
    seen = write.startswith("d[")
    draft = Draft(
        "import torch\n\nx = torch.tensor([[1.0, 2.0]])\nw1 = torch.tensor([[2.0], [1.0]], requires_grad=True)\n"
        f"w2 = torch.tensor([3.0], requires_grad=True)\n\nd = x @ w1\nf = d * w2\n{write}\nf.sum().backward()\n"
    )
    x = draft.tensor((1, 2), "input")
    draft.step(3, names={"x": x}, tensors=(x,), states=(state(x, "[[1., 2.]]", grad=False, leaf=True),))
    w1 = draft.tensor((2, 1), "leaf")
    draft.step(4, names={"w1": w1}, tensors=(w1,), states=(state(w1, "[[2.], [1.]]", leaf=True),))
    w2 = draft.tensor((1,), "leaf")
    draft.step(5, names={"w2": w2}, tensors=(w2,), states=(state(w2, "[3.]", leaf=True),))
    d = draft.tensor((1, 1))
    into_w1 = draft.node("AccumulateGrad", tensor=w1)
    mm = draft.node("MmBackward0", (None, into_w1), d, 7)
    kept_x = draft.keep(mm, "self", x, line=7)
    draft.step(
        7,
        "correct",
        names={"d": d},
        tensors=(d,),
        states=(state(d, "[[4.]]", node=mm),),
        nodes=(into_w1, mm),
        saved=(kept_x,),
    )
    f = draft.tensor((1, 1))
    into_w2 = draft.node("AccumulateGrad", tensor=w2)
    mul = draft.node("MulBackward0", (mm, into_w2), f, 8)
    kept = (draft.keep(mul, "self", d, 0, 1 if seen else 0, True, 8), draft.keep(mul, "other", w2, line=8))
    draft.step(
        8,
        "correct",
        names={"f": f},
        tensors=(f,),
        states=(state(f, "[[12.]]", node=mul),),
        nodes=(into_w2, mul),
        saved=kept,
    )
    return draft, {
        "x": x,
        "w1": w1,
        "w2": w2,
        "d": d,
        "f": f,
        "mm": mm,
        "mul": mul,
        "kept": kept[0],
        "into_w1": into_w1,
        "into_w2": into_w2,
    }


def raises() -> None:
    """The write that the counter sees."""
    draft, it = matmuls("d[:] = 1")
    copy = draft.node("CopySlices", (it["mm"],), it["d"], 9)
    write = r.Write(draft.place(9), "__setitem__", 3, 0, 4, (it["d"],), True, it["d"], "d", (it["kept"],))
    draft.step(
        9,
        "raises-backward",
        (it["kept"],),
        states=(state(it["d"], "[[1.]]", 1, node=copy),),
        nodes=(copy,),
        writes=(write,),
    )
    total = draft.node("SumBackward0", (it["mul"],), None, 10)
    draft.step(10, "raises-backward", (it["kept"],), nodes=(total,))
    message = (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        "[torch.FloatTensor [1, 1]], which is output 0 of CopySlices, is at version 1; expected version 0 instead."
    )
    harm = r.Harm("d", (draft.place(9),), "d", draft.place(8), "MulBackward0", 0, 1, True, it["kept"])
    draft.finish(
        "raises_backward",
        r.Verdict(
            "raises-backward", r.Problem("RuntimeError", message, 10), (harm,),
            {"w1": r.Gradient(None, [[3.0], [6.0]]), "w2": r.Gradient(None, [4.0])},
            fixes=(r.Fix("clone", 8, "f = d * w2", "f = d.clone() * w2", True),),
        ),
        (
            r.BackwardStep(total, "passed", "[[1.]]", "[[1.]]"),
            r.BackwardStep(it["mul"], "raised", "", "[[3.]], [4.]", message),
        ),
    )  # fmt: skip


def silent() -> None:
    """The same write through `.data`."""
    draft, it = matmuls("d.data[:] = 1")
    alias = draft.tensor((1, 1), storage=3, alias_of="data")
    write = r.Write(draft.place(9), "__setitem__", 3, 0, 4, (alias,), True, alias, "d.data", (it["kept"],))
    states = (state(alias, "[[1.]]", 1, False, True), state(it["d"], "[[1.]]", node=it["mm"]))
    draft.step(9, "silently-wrong", (it["kept"],), tensors=(alias,), states=states, writes=(write,))
    total = draft.node("SumBackward0", (it["mul"],), None, 10)
    draft.step(10, "silently-wrong", (it["kept"],), nodes=(total,), freed=(0, 1, 2))
    harm = r.Harm("d", (draft.place(9),), "d.data", draft.place(8), "MulBackward0", 0, 0, True, it["kept"])
    draft.finish(
        "silently_wrong",
        r.Verdict(
            "silently-wrong", None, (harm,),
            {"w1": r.Gradient([[3.0], [6.0]], [[3.0], [6.0]]), "w2": r.Gradient([1.0], [4.0])},
            fixes=(r.Fix("clone", 8, "f = d * w2", "f = d.clone() * w2", True),),
        ),
        (
            r.BackwardStep(total, "passed", "[[1.]]", "[[1.]]"),
            r.BackwardStep(it["mul"], "passed", "[[3.]], [1.]", "[[3.]], [4.]"),
            r.BackwardStep(it["into_w2"], "passed", "[1.]", "[4.]"),
            r.BackwardStep(it["mm"], "passed", "[[3.], [6.]]", "[[3.], [6.]]"),
            r.BackwardStep(it["into_w1"], "passed", "[[3.], [6.]]", "[[3.], [6.]]"),
        ),
    )  # fmt: skip


def sigmoid() -> None:
    """A correct run, whose op keeps its own result."""
    draft = Draft(
        "a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)\nout = a.sigmoid()\ns = out.detach()\nout.sum().backward()\n"
    )
    a = draft.tensor((3,), "leaf")
    draft.step(1, names={"a": a}, tensors=(a,), states=(state(a, "[1., 2., 3.]", leaf=True),))
    out = draft.tensor((3,))
    into, node = draft.node("AccumulateGrad", tensor=a), draft.node("SigmoidBackward0", (0,), out, 2)
    kept = draft.keep(node, "result", out, line=2)
    values = "[0.7311, 0.8808, 0.9526]"
    draft.step(
        2,
        "correct",
        names={"out": out},
        tensors=(out,),
        states=(state(out, values, node=node),),
        nodes=(into, node),
        saved=(kept,),
    )
    s = draft.tensor((3,), "result", 1, out)
    draft.step(3, "correct", names={"s": s}, tensors=(s,), states=(state(s, values, grad=False, leaf=True),))
    total = draft.node("SumBackward0", (node,), None, 4)
    draft.step(4, "correct", nodes=(total,), freed=(kept,))
    right = [0.1966, 0.105, 0.0452]
    text = "[0.1966, 0.1050, 0.0452]"
    draft.finish(
        "correct", r.Verdict("correct", gradients={"a": r.Gradient(right, right)}),
        (
            r.BackwardStep(total, "passed", "[1., 1., 1.]", "[1., 1., 1.]"),
            r.BackwardStep(node, "passed", text, text), r.BackwardStep(into, "passed", text, text),
        ),
    )  # fmt: skip


def chain(rounds: int, name: str) -> None:
    """A recurrent loop of `rounds` rounds, four nodes each; the state is overwritten in its last round."""
    draft = Draft(
        "h = torch.zeros(4)\nw = torch.ones(4, requires_grad=True)\nfor t in range(rounds):\n"
        "    a = h * w\n    b = a + x\n    c = b.exp()\n    h = c.tanh()\nh.add_(1)\nh.sum().backward()\n"
    )
    h = draft.tensor((4,), "input")
    draft.step(1, names={"h": h}, tensors=(h,), states=(state(h, "[0., 0., 0., 0.]", grad=False, leaf=True),))
    w = draft.tensor((4,), "leaf")
    draft.step(2, names={"w": w}, tensors=(w,), states=(state(w, "[1., 1., 1., 1.]", leaf=True),))
    into, last, hurt = draft.node("AccumulateGrad", tensor=w), None, None
    for turn in range(rounds):
        for line, variable, op in (
            (4, "a", "MulBackward0"),
            (5, "b", "AddBackward0"),
            (6, "c", "ExpBackward0"),
            (7, "h", "TanhBackward0"),
        ):
            new = draft.tensor((4,))
            node = draft.node(op, (last, into) if line == 4 else (last,), new, line)
            kept = (
                [draft.keep(node, "self", h, line=line), draft.keep(node, "other", w, line=line)] if line == 4 else []
            )
            if line > 5:
                end = turn == rounds - 1 and line == 7
                kept = [draft.keep(node, "result", new, 0, int(end), end, line)]
            made = (into, node) if len(draft.nodes) == 2 else (node,)
            draft.step(
                line,
                "correct",
                names={variable: new},
                tensors=(new,),
                states=(state(new, "[0.5, 0.5, 0.5, 0.5]", node=node),),
                nodes=made,
                saved=tuple(kept),
            )
            last, h = node, new
            hurt = kept[0] if kept else hurt
    add = draft.node("AddBackward0", (last,), h, 8)
    write = r.Write(draft.place(8), "add_", draft.tensors[h].storage, 0, 16, (h,), True, h, "h", (hurt,))
    draft.step(
        8,
        "raises-backward",
        (hurt,),
        states=(state(h, "[1.5, 1.5, 1.5, 1.5]", 1, node=add),),
        nodes=(add,),
        writes=(write,),
    )
    total = draft.node("SumBackward0", (add,), None, 9)
    draft.step(9, "raises-backward", (hurt,), nodes=(total,))
    harm = r.Harm("h", (draft.place(8),), "h", draft.place(7), "TanhBackward0", 0, 1, True, hurt)
    problem = r.Problem(
        "RuntimeError",
        "[torch.FloatTensor [4]], which is output 0 of AddBackward0, is at version 1; expected version 0",
        9,
    )
    backward = (
        r.BackwardStep(total, "passed", "[1., 1., 1., 1.]", "[1., 1., 1., 1.]"),
        r.BackwardStep(add, "passed", "[1., 1., 1., 1.]", "[1., 1., 1., 1.]"),
        r.BackwardStep(last, "raised", "", "", problem.message),
    )
    draft.finish(
        name, r.Verdict("raises-backward", problem, (harm,), {"w": r.Gradient(None, [1.0, 1.0, 1.0, 1.0])}), backward
    )


if __name__ == "__main__":
    raises()
    silent()
    sigmoid()
    chain(3, "loop")
    chain(250, "thousand_nodes")
